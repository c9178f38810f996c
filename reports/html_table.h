#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace diptych::reports {

/// A table cell: text is escaped on output; `sort_value` orders the column in place of the text.
struct HtmlField {
  std::string text;
  std::string note;  ///< small, after the text
  std::optional<double> sort_value = std::nullopt;
  std::string css;
  std::string mark;  ///< tone of a verdict: draws its coloured dot
  std::string href;  ///< a fragment of this page, "#cell-0"
};

class HtmlTable {
 public:
  /// The first column is aligned left, the others right, as numbers are; `left` names more that hold words.
  explicit HtmlTable(std::vector<std::string> header, std::vector<std::size_t> left = {});
  /// For the overview; other tables keep their order, which means something.
  HtmlTable& sortable();
  void row(std::vector<HtmlField> fields);
  bool empty() const { return rows_.empty(); }
  std::string finish() const;

 private:
  std::string alignment(std::size_t column) const;

  std::vector<std::string> header_;
  std::vector<std::size_t> left_;
  std::vector<std::vector<HtmlField>> rows_;
  bool sortable_ = false;
};

}  // namespace diptych::reports
