#pragma once

#include <string>

namespace diptych::cli {

/// Call before anything is printed or opened. If the caller closed standard output, it becomes one that can't be
/// written; otherwise the first file opened would receive the printed text.
void claim_standard_output();

/// Flushes standard output. Returns "" if everything printed has arrived, otherwise an error message.
std::string lost_output();

/// During its lifetime, printed text goes to standard error, and standard output is reserved for one document.
class DocumentOnStandardOutput {
 public:
  DocumentOnStandardOutput();
  ~DocumentOnStandardOutput();
  DocumentOnStandardOutput(const DocumentOnStandardOutput&) = delete;
  DocumentOnStandardOutput& operator=(const DocumentOnStandardOutput&) = delete;
  /// Throws FileError if it can't be written.
  void write(const std::string& text);

 private:
  int output_;  ///< the original standard output
};

}  // namespace diptych::cli
