#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "profiler/machine/cpu_times.h"
#include "workloads/processes/family.h"

namespace diptych::workloads {

struct ChildOptions {
  int handed_over = -1;  ///< a descriptor that the child gets as number `as`; -1: none
  int as = -1;
  bool is_told = false;       ///< we write its standard input; otherwise it inherits ours
  bool search_path = false;   ///< command[0] is looked up in PATH
  std::size_t most_line = 0;  ///< the most bytes in a line that it may write; 0: any
};

/// A child process whose standard output is read line by line. It is killed when the object is destroyed, together with
/// everything that it has started (Family). Nor does it outlive the thread of this process that started it, however
/// that thread ends.
class Child {
 public:
  /// command[0] is the path of the program. Throws Error if it can't be started.
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
        const ChildOptions& options = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class Read { line, end, timeout, too_long };
  /// Waits up to `milliseconds` for a whole line.
  Read read_line(std::string& line, int milliseconds);
  /// What it has written so far without an end of line.
  const std::string& pending() const { return buffer_; }

  /// For a child with `is_told`: false if it no longer listens, or doesn't take the line within `milliseconds`. `line`
  /// has no end of line.
  bool write_line(const std::string& line, int milliseconds);

  pid_t pid() const { return pid_; }

  /// Whether the process has ended, and how: "" if successfully. Doesn't wait.
  bool has_ended(std::string& how);
  /// CPU seconds of the process and of everything that it has started; the last figure once it has ended. 0 if that
  /// can't be read.
  double cpu_seconds();
  /// Seconds in which the threads of those processes were ready but had no CPU, for those that still run; 0 if the
  /// kernel doesn't tell.
  double waited_seconds() const;
  /// Those threads, one by one.
  std::vector<profiler::ThreadTimes> threads() const;

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  int input_ = -1;
  std::size_t most_line_ = 0;
  Family family_;
  double cpu_seconds_ = 0;
  std::string buffer_;
};

/// Seconds in which this thread was ready but had no CPU; 0 if the kernel doesn't tell.
double own_waited_seconds();

/// This process's environment as "NAME=value".
std::vector<std::string> own_environment();

}  // namespace diptych::workloads
