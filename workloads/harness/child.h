#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace diptych::workloads {

/// A child process whose standard output is read line by line; killed with its object.
class Child {
 public:
  /// command[0] is the path of the program. Throws Error if it can't be started.
  /// `handed_over`: a descriptor that the child gets as number `as`; -1: none.
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment, int handed_over = -1,
        int as = -1);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class Read { line, end, timeout };
  /// Waits up to `milliseconds` for a whole line.
  Read read_line(std::string& line, int milliseconds);

  /// Whether the process has ended, and how: "" if well. Doesn't wait.
  bool has_ended(std::string& how);

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string buffer_;
};

/// This process's environment as "NAME=value".
std::vector<std::string> own_environment();

}  // namespace diptych::workloads
