#pragma once

#include <string>
#include <vector>

namespace diptych::cli {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + the signal's number if a signal ended it
  std::string output;  ///< standard output
  std::string error;   ///< standard error
};

/// Runs a program that is looked up in PATH and waits for its end. `folder`: the working directory; empty: this one.
/// Throws Error if it can't be started.
ProgramResult run_program(const std::vector<std::string>& command, const std::string& folder = "");

/// The last lines of a program's output, for a message.
std::string last_lines(const std::string& text, int lines = 5);

}  // namespace diptych::cli
