#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace diptych::workloads {

struct ChildOptions {
  int handed_over = -1;  ///< a descriptor that the child gets as number `as`; -1: none
  int as = -1;
  bool is_told = false;       ///< its standard input is ours to write; else it has our own
  bool search_path = false;   ///< command[0] is looked up in PATH
  std::size_t most_line = 0;  ///< bytes of a line that it may say; 0: any
};

/// A child process whose standard output is read line by line; killed with its object, with all that it has started in
/// its process group. It doesn't outlive this process's thread that started it either, however that ends.
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
  /// Of what it has said, as much as there is without a line's end.
  const std::string& pending() const { return buffer_; }

  /// For a child that is told: false if it doesn't listen any more, or doesn't take the line within `milliseconds`.
  /// `line` has no line's end.
  bool write_line(const std::string& line, int milliseconds);

  pid_t pid() const { return pid_; }

  /// Whether the process has ended, and how: "" if well. Doesn't wait.
  bool has_ended(std::string& how);
  /// Of the process and all that it has started, as far as they stayed in its group; the last figure once it has ended.
  /// 0 where it can't be read.
  double cpu_seconds();
  /// Seconds that those processes' threads were ready and had no CPU, as far as they still run; 0 where the kernel
  /// doesn't tell.
  double waited_seconds() const;

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  int input_ = -1;
  std::size_t most_line_ = 0;
  double cpu_seconds_ = 0;
  std::string buffer_;
};

/// Seconds that this thread was ready and had no CPU; 0 where the kernel doesn't tell.
double own_waited_seconds();

/// This process's environment as "NAME=value".
std::vector<std::string> own_environment();

}  // namespace diptych::workloads
