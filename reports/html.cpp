#include "reports/html.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "reports/assets.h"
#include "reports/environment.h"
#include "reports/html_cell.h"
#include "reports/html_table.h"
#include "reports/json_access.h"
#include "reports/sha256.h"
#include "reports/summary.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

// Two panels on one hinge.
constexpr const char* mark =
    R"(<svg viewBox="0 0 30 22" aria-hidden="true"><rect x="1" y="2" width="13" height="18" rx="2" class="c0"/>)"
    R"(<rect x="16" y="2" width="13" height="18" rx="2" class="c1"/></svg>)";

// Inside a script element only "<" can end it; JSON reads the escape as the same character.
std::string embedded_json(const Json& run) {
  std::string out;
  for (const char c : run.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string policy() {
  return fmt::format(
      "default-src 'none'; style-src 'sha256-{}' 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action "
      "'none'",
      sha256_base64(assets::report_css()), sha256_base64(assets::diagram_css()), sha256_base64(assets::report_js()));
}

// A second lock behind the policy: pictures come through files and may not be ours.
bool is_harmless(const std::string& svg) {
  std::string lower = svg;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* bad : {"<script", "<foreignobject", "<iframe", "javascript:", "<!entity", "<use", "<image", "<a "}) {
    if (lower.find(bad) != std::string::npos) {
      return false;
    }
  }
  for (std::size_t at = lower.find(" on"); at != std::string::npos; at = lower.find(" on", at + 1)) {
    std::size_t end = at + 3;
    while (end < lower.size() && std::isalpha(static_cast<unsigned char>(lower[end])) != 0) {
      ++end;
    }
    if (end > at + 3 && end < lower.size() && lower[end] == '=') {
      return false;
    }
  }
  return lower.starts_with("<svg") && lower.find("</svg>") == lower.size() - 6 - (lower.ends_with("\n") ? 1 : 0);
}

std::string diagrams(const RenderOptions& options) {
  std::string out;
  for (const NamedSvg& diagram : options.diagrams) {
    const std::string body = is_harmless(diagram.svg)
                                 ? fmt::format(R"(<div class="diagram">{}</div>)", diagram.svg)
                                 : R"(<p class="sub">Not shown: this picture is not a plain SVG drawing.</p>)";
    out += fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n", escape_xml(diagram.name), body);
  }
  return out.empty() ? "" : fmt::format("<section class=\"cell\"><h2>Graphs</h2>\n{}</section>\n", out);
}

std::string environment_section(const Json& run) {
  HtmlTable table({"name", "value"}, {1});
  for (const EnvironmentEntry& entry : flatten_environment(member(run, "environment"))) {
    table.row({{entry.name}, {shorten(printable(entry.value), 2000), "", {}, "wrap"}});
  }
  return fmt::format(
      "<section class=\"cell\"><h2>Environment</h2>\n<pre class=\"command\"><code>{}</code></pre>{}</section>\n",
      escape_xml(joined(list(run, "command"), " ")), table.finish());
}

}  // namespace

std::string render_html(const nlohmann::json& run, const RenderOptions& options) {
  const std::string name = escape_xml(shorten(printable(text(run, "name")), 120));
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", policy());
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out +=
      fmt::format("<title>{}, Diptych</title>\n<style>{}</style>\n</head><body><main>\n", name, assets::report_css());
  out += fmt::format("<header><div class=\"mark\">{}<b>Diptych</b><span>{}</span><span>{}</span></div>\n", mark, name,
                     escape_xml(text(run, "created")));
  out += fmt::format("<h1>{}</h1>\n<p class=\"lede\">{}</p>", escape_xml(headline(run, Glyphs::typographic)),
                     escape_xml(setup_line(run, Glyphs::typographic)));
  for (const std::string& warning : cautions(run)) {
    out += fmt::format("<p class=\"lede\">{}</p>", escape_xml(warning));
  }
  if (const std::string status = text(run, "status"); status != "complete") {
    out += fmt::format("<p class=\"lede\">This run is not complete: {}.</p>", escape_xml(status));
  }
  out += "</header>\n<section>" + html_overview(run) + "</section>\n";
  std::size_t index = 0;
  for (const Json& cell : list(run, "cells")) {
    out += html_cell(cell, index++);
  }
  out += diagrams(options) + environment_section(run);
  out +=
      "<footer>Speedup is eager time divided by the arm's time: above 1 the arm is faster. Intervals are over "
      "processes, on the log scale: Student's t, further out on the side of a long tail. The detectable effect is the "
      "smallest one that this run would have "
      "found nine times in ten.</footer>\n";
  out += fmt::format("</main>\n<script type=\"application/json\" id=\"run\">{}</script>\n", embedded_json(run));
  out += fmt::format("<script>{}</script>\n</body></html>\n", assets::report_js());
  return out;
}

}  // namespace diptych::reports
