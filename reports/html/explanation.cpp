#include "reports/html/explanation.h"

#include <fmt/format.h>

#include "reports/html/fields.h"
#include "reports/text/text.h"
#include "reports/views/explanation.h"

namespace diptych::reports {
namespace {

std::string html_part(const AnswerPart& point) {
  std::string out = fmt::format("<h3>{}</h3>\n", escape_xml(point.label));
  for (const std::string& sentence : point.sentences) {
    out += fmt::format(R"(<p class="why">{}</p>)", escape_xml(sentence));
  }
  if (!point.rows.empty()) {
    out += html_rows(point.rows, {4}, point.row_places);
  }
  return out + html_commands(point.suggestions);
}

}  // namespace

std::string html_explanation(const Run& run) {
  const auto calls = run.why_calls();
  if (!calls || run.cells().empty()) {
    return "";
  }
  std::string out = "<section class=\"cell\"><h2>Why</h2>\n";
  const Parts<Cell> cells = run.cells();
  for (const AnswerPart& point : explain(run, cells.front(), *calls, Glyphs::typographic)) {
    out += html_part(point);
  }
  return out + "</section>\n";
}

}  // namespace diptych::reports
