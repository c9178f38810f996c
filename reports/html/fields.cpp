#include "reports/html/fields.h"

#include <utility>

#include <fmt/format.h>

#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {

// "12.3 µs [11.9, 12.8]" as the value and, in small print, its interval.
HtmlField split_interval(const std::string& formatted, std::optional<double> sort_value) {
  const std::size_t bracket = formatted.find(" [");
  if (bracket == std::string::npos) {
    return {formatted, "", sort_value};
  }
  return {formatted.substr(0, bracket), formatted.substr(bracket + 1), sort_value};
}

HtmlField time_field(const std::optional<Estimate>& seconds) {
  return seconds ? split_interval(format_seconds(*seconds, Glyphs::typographic), seconds->value) : HtmlField{"-"};
}

HtmlField plain_time_field(const std::optional<double>& seconds) {
  return {format_seconds(seconds, Glyphs::typographic), "", seconds};
}

HtmlField ratio_field(const std::optional<Estimate>& ratio) {
  return ratio ? split_interval(format_ratio(*ratio, Glyphs::typographic), ratio->value) : HtmlField{"-"};
}

std::string figure(const char* title, const char* note, const std::string& picture) {
  if (picture.empty()) {
    return "";
  }
  return fmt::format("<figure><figcaption>{}<span>{}</span></figcaption>{}</figure>\n", title, note, picture);
}

std::string html_commands(const std::vector<Suggestion>& suggestions) {
  std::string lines;
  for (const Suggestion& each : suggestions) {
    lines += fmt::format("{}<code>{}</code>  # {}", lines.empty() ? "" : "\n", escape_xml(each.command),
                         escape_xml(each.reason));
  }
  return lines.empty() ? "" : fmt::format(R"(<pre class="command">{}</pre>)", lines);
}

std::string legend_entry(const std::string& css, const std::string& meaning) {
  return fmt::format(
      R"(<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" rx="2" class="{}"/></svg>{}</li>)",
      css, escape_xml(meaning));
}

std::string html_rows(const TextRows& rows, std::vector<std::size_t> left, const std::vector<OpPlace>& places) {
  if (rows.empty()) {
    return "";
  }
  HtmlTable table(rows.front(), std::move(left));
  for (std::size_t i = 1; i < rows.size(); ++i) {
    std::vector<HtmlField> fields;
    for (const std::string& field : rows[i]) {
      fields.push_back({field});
    }
    table.row(std::move(fields), i <= places.size() ? places[i - 1] : OpPlace());
  }
  return table.finish();
}

std::string folded(const std::string& title, const std::string& note, const std::string& body, bool open) {
  return fmt::format("<details{}><summary>{}<span>{}</span></summary>{}</details>\n", open ? " open" : "",
                     escape_xml(title), escape_xml(note), body);
}

}  // namespace diptych::reports
