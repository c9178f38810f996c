#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/text/op_place.h"

namespace diptych::reports {

/// A table cell. The text is escaped on output; `sort_value`, if given, replaces it when the column is sorted.
struct HtmlField {
  std::string text;
  std::string note;  ///< small print after the text
  std::optional<double> sort_value = std::nullopt;
  std::string css;
  std::string mark;     ///< tone of a verdict: draws a coloured dot
  std::string href;     ///< a fragment of this page, "#cell-0", or a relative_link()
  std::string picture;  ///< an SvgCanvas's, after the text
};

class HtmlTable {
 public:
  /// The first column is aligned left and the others right, as for numbers; `left` names more columns, which hold
  /// words.
  explicit HtmlTable(std::vector<std::string> header, std::vector<std::size_t> left = {});
  /// For the overview; the order of other tables has a meaning and is kept.
  HtmlTable& sortable();
  /// With a field, made by the page's script, that leaves the rows which have all of its words. `what`: "cells".
  HtmlTable& filterable(std::string what);
  /// `place`: what the row stands for, if it is an op or a module.
  void row(std::vector<HtmlField> fields, const OpPlace& place = {});
  bool empty() const { return rows_.empty(); }
  std::string finish() const;

 private:
  std::string alignment(std::size_t column) const;

  std::vector<std::string> header_;
  std::vector<std::size_t> left_;
  struct Row {
    std::vector<HtmlField> fields;
    std::string attributes;
  };
  std::vector<Row> rows_;
  bool sortable_ = false;
  std::string filtered_;  ///< what its rows are; empty: no filter
};

}  // namespace diptych::reports
