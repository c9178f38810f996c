#include "reports/html/fields.h"

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
    lines += fmt::format("{}<span>{}</span>  # {}", lines.empty() ? "" : "\n", escape_xml(each.command),
                         escape_xml(each.reason));
  }
  return lines.empty() ? "" : fmt::format(R"(<pre class="command"><code>{}</code></pre>)", lines);
}

std::string folded(const std::string& title, const std::string& note, const std::string& body, bool open) {
  return fmt::format("<details{}><summary>{}<span>{}</span></summary>{}</details>\n", open ? " open" : "",
                     escape_xml(title), escape_xml(note), body);
}

}  // namespace diptych::reports
