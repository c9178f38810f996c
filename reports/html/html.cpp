#include "reports/html/html.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/assets.h"
#include "reports/html/cell.h"
#include "reports/html/explanation.h"
#include "reports/html/fields.h"
#include "reports/html/sha256.h"
#include "reports/html/table.h"
#include "reports/run/environment.h"
#include "reports/run/run.h"
#include "reports/text/plain_svg.h"
#include "reports/text/text.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

// Two panels on one hinge.
constexpr const char* mark =
    R"(<svg viewBox="0 0 30 22" aria-hidden="true"><rect x="1" y="2" width="13" height="18" rx="2" class="c0"/>)"
    R"(<rect x="16" y="2" width="13" height="18" rx="2" class="c1"/></svg>)";

// Inside a script element only "<" can end the element; JSON reads the escape as the same character.
std::string embedded_json(const Run& run) {
  std::string out;
  for (const char c : run.json().dump(-1, ' ', true, Json::error_handler_t::replace)) {
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

std::string link_to(const std::string& file) { return fmt::format(R"(<a href="{0}">{0}</a>)", escape_xml(file)); }

// Pictures come from files and may be foreign: is_plain_svg is a second lock behind the policy.
std::string picture(const NamedSvg& diagram) {
  if (!diagram.left_out.empty()) {
    return fmt::format(R"(<p class="sub">Not shown here: {}. It stands in {}.</p>)", escape_xml(diagram.left_out),
                       link_to(diagram.file));
  }
  return is_plain_svg(diagram.svg) ? fmt::format(R"(<div class="diagram">{}</div>)", diagram.svg)
                                   : R"(<p class="sub">Not shown: this picture is not a plain SVG drawing.</p>)";
}

std::string diagrams(const RenderOptions& options) {
  std::string out;
  for (const NamedSvg& diagram : options.diagrams) {
    out += fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n", escape_xml(diagram.name), picture(diagram));
  }
  return out.empty() ? "" : fmt::format("<section class=\"cell\"><h2>Graphs</h2>\n{}</section>\n", out);
}

std::string environment_section(const Run& run) {
  HtmlTable table({"name", "value"}, {1});
  const std::vector<EnvironmentEntry> entries = flatten_environment(run.environment());
  for (const EnvironmentEntry& entry : entries) {
    table.row({{entry.name}, {shorten(printable(entry.value), 2000), "", {}, "wrap"}});
  }
  return fmt::format(
      "<section class=\"cell\"><h2>Environment</h2>\n<pre class=\"command\"><code>{}</code></pre>{}</section>\n",
      escape_xml(fmt::format("{}", fmt::join(run.command(), " "))),
      folded("Machine, build and process",
             fmt::format("{} {}", entries.size(), entries.size() == 1 ? "entry" : "entries"), table.finish()));
}

/// The number of drawn nodes that stand for ops.
std::size_t count_ops(std::string_view svg) {
  std::size_t count = 0;
  constexpr std::string_view node = R"(class="dg-node k-)";
  for (std::size_t at = svg.find(node); at != std::string_view::npos; at = svg.find(node, at + 1)) {
    const std::string_view kind = svg.substr(at + node.size(), 7);
    count += kind.starts_with("input") || kind.starts_with("output") ? 0 : 1;
  }
  return count;
}

}  // namespace

NamedSvg graph_picture(const std::string& workload, std::string svg, const std::string& file) {
  constexpr std::size_t kMostOps = 160;
  NamedSvg picture{fmt::format("{}: the graph after all passes", workload), std::move(svg), file, ""};
  if (const std::size_t ops = count_ops(picture.svg); ops > kMostOps) {
    picture.left_out = fmt::format("{} ops are more than the {} that a page has room for", ops, kMostOps);
    picture.svg.clear();
  }
  return picture;
}

std::string render_html(const Run& run, const RenderOptions& options) {
  const std::string name = escape_xml(shorten(printable(run.name()), 120));
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", policy());
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out +=
      fmt::format("<title>{}, Diptych</title>\n<style>{}</style>\n</head><body><main>\n", name, assets::report_css());
  out += fmt::format("<header><div class=\"mark\">{}<b>Diptych</b><span>{}</span><span>{}</span></div>\n", mark, name,
                     escape_xml(run.created()));
  out += fmt::format("<h1>{}</h1>\n<p class=\"lede\">{}</p>", escape_xml(headline(run, Glyphs::typographic)),
                     escape_xml(setup_line(run, Glyphs::typographic)));
  for (const std::string& warning : cautions(run)) {
    out += fmt::format("<p class=\"lede\">{}</p>", escape_xml(warning));
  }
  if (const std::string status = run.status(); status != "complete") {
    out += fmt::format("<p class=\"lede\">This run is not complete: {}.</p>", escape_xml(status));
  }
  out += "</header>\n" + html_explanation(run) + "<section>" + html_overview(run) + "</section>\n";
  std::size_t index = 0;
  for (const Cell cell : run.cells()) {
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
