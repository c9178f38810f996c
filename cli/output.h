#pragma once

#include <string>
#include <string_view>

namespace diptych::cli {

/// Call before anything is printed or opened. Streams that the caller closed become ones that give and take nothing;
/// otherwise the first files opened would receive the printed text. Standard output is one that can't be written.
void claim_standard_streams();

/// Flushes standard output. Returns "" if everything printed has arrived, otherwise an error message.
std::string lost_output();

/// Writes to standard error. What is lost there is no reason to stop: the exit code tells the rest.
void print_error(std::string_view text);
/// "diptych: <message>" and the end of the line, likewise.
void complain(std::string_view message);

/// Where an option puts a document: a file, a pipe, a device, or standard output ("-"), which during its lifetime is
/// reserved for the document; printed text then goes to standard error.
class DocumentOutput {
 public:
  /// `place` as typed; empty: nowhere.
  explicit DocumentOutput(std::string place);
  ~DocumentOutput();
  DocumentOutput(const DocumentOutput&) = delete;
  DocumentOutput& operator=(const DocumentOutput&) = delete;

  bool is_wanted() const { return !place_.empty(); }
  bool is_standard_output() const { return output_ >= 0; }
  /// Throws FileError if it can't be written.
  void write(const std::string& text);

 private:
  std::string place_;
  int output_ = -1;  ///< the original standard output, if it is reserved
};

/// Two documents in one stream can't be told apart: throws Error, which names the two options.
void refuse_one_stream(const DocumentOutput& a, std::string_view option_a, const DocumentOutput& b,
                       std::string_view option_b);

}  // namespace diptych::cli
