#pragma once

#include <string>
#include <vector>

namespace diptych::reports {

/// With `colour`, in the terminal's colour for a tone: "faster" (blue), "slower" (orange), "dim"; any other tone is
/// bold. Colour-blind readers can tell blue from orange, and the word itself says what the colour says.
std::string coloured(const std::string& value, const std::string& tone, bool colour);

/// `body` after a dim `label`, indented by two columns and wrapped at spaces; a word longer than the line is cut,
/// because a name may have any length. Both must be printable.
std::string wrapped(const std::string& label, const std::string& body, int width, bool colour);

/// Columns are as wide as their longest field, with two spaces between them and a rule under the first row. Fields must
/// be printable.
class TextTable {
 public:
  /// Tones are those of `coloured`, for the last field of a row; "" is none.
  explicit TextTable(std::vector<std::string> header, std::string tone = "");

  /// `note`: whole lines that stand under the row as they are.
  void add(std::vector<std::string> fields, std::string tone = "", std::string note = "");
  /// Columns of the terminal that it takes without its notes.
  int width() const;
  /// Lines longer than `width` are cut.
  std::string render(bool colour, int width) const;
  bool empty() const { return rows_.size() == 1; }

 private:
  std::vector<std::vector<std::string>> rows_;  ///< the header first
  std::vector<std::string> tones_, notes_;      ///< of each row
};

}  // namespace diptych::reports
