#include "reports/html/table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "reports/text/text.h"

namespace diptych::reports {
namespace {

std::string join_classes(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : fmt::format("{} {}", a, b);
}

}  // namespace

HtmlTable::HtmlTable(std::vector<std::string> header, std::vector<std::size_t> left)
    : header_(std::move(header)), left_(std::move(left)) {}

std::string HtmlTable::alignment(std::size_t column) const {
  return std::find(left_.begin(), left_.end(), column) == left_.end() ? "" : "left";
}

HtmlTable& HtmlTable::sortable() {
  sortable_ = true;
  return *this;
}

HtmlTable& HtmlTable::filterable(std::string what) {
  filtered_ = std::move(what);
  return *this;
}

void HtmlTable::row(std::vector<HtmlField> fields, const OpPlace& place) {
  rows_.push_back({std::move(fields), op_attributes(place)});
}

std::string HtmlTable::finish() const {
  std::string out =
      fmt::format(R"(<div class="scroll"><table{}{}><thead><tr>)", sortable_ ? R"( class="sortable")" : "",
                  filtered_.empty() ? "" : fmt::format(R"( data-filter="{}")", escape_xml(filtered_)));
  for (std::size_t i = 0; i < header_.size(); ++i) {
    out += fmt::format(R"(<th scope="col"{}>{}</th>)", alignment(i).empty() ? "" : R"( class="left")",
                       escape_xml(header_[i]));
  }
  out += "</tr></thead><tbody>";
  for (const Row& row : rows_) {
    out += fmt::format("<tr{}>", row.attributes);
    for (std::size_t i = 0; i < row.fields.size(); ++i) {
      const HtmlField& field = row.fields[i];
      out += "<td";
      if (const std::string css = join_classes(alignment(i), field.css); !css.empty()) {
        out += fmt::format(R"( class="{}")", css);
      }
      if (field.sort_value) {
        out += fmt::format(R"( data-value="{}")", *field.sort_value);
      }
      std::string body = escape_xml(field.text);
      if (!field.mark.empty()) {
        body = fmt::format(R"(<span class="verdict {}">{}</span>)", field.mark, body);
      }
      out += field.href.empty() ? fmt::format(">{}", body)
                                : fmt::format(R"(><a href="{}">{}</a>)", escape_xml(field.href), body);
      out += field.picture;
      out += field.note.empty() ? "</td>" : fmt::format("<small>{}</small></td>", escape_xml(field.note));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>";
}

}  // namespace diptych::reports
