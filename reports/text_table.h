#pragma once

#include <string>
#include <vector>

namespace diptych::reports {

/// With `colour`, in the terminal's colour of a tone: "faster" (blue), "slower" (orange), "dim", anything else bold.
/// Blue and orange stay apart for colour-blind eyes, and the word itself says what the colour says.
std::string coloured(const std::string& value, const std::string& tone, bool colour);

/// Columns as wide as their longest field, two spaces between, a rule under the first row. Fields have to be printable.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}

  /// `tone` colours the last field: "faster" (blue), "slower" (orange), "dim", or "" for none.
  void add(std::vector<std::string> fields, std::string tone = "");
  /// Lines that are longer than `width` are cut.
  std::string render(bool colour, int width) const;
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    std::vector<std::string> fields;
    std::string tone;
  };
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

}  // namespace diptych::reports
