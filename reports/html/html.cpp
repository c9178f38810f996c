#include "reports/html/html.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/html/cell.h"
#include "reports/html/explanation.h"
#include "reports/html/failures.h"
#include "reports/html/fields.h"
#include "reports/html/page.h"
#include "reports/html/short_names.h"
#include "reports/html/table.h"
#include "reports/run/environment.h"
#include "reports/run/run.h"
#include "reports/text/plain_svg.h"
#include "reports/text/text.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

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

std::string render_html(const Run& recorded, const RenderOptions& options) {
  const nlohmann::json shown = with_short_names(recorded.json());
  const Run run(shown);
  Page page;
  page.name = run.name();
  page.beside = run.created();
  page.headline = headline(run, Glyphs::typographic);
  page.sentences = {setup_line(run, Glyphs::typographic)};
  for (const std::string& warning : cautions(run)) {
    page.sentences.push_back(warning);
  }
  page.body = html_failures(run) + html_explanation(run) + "<section>" + html_overview(run) + "</section>\n";
  std::size_t index = 0;
  for (const Cell cell : run.cells()) {
    page.body += html_cell(cell, index++);
    if (options.progress) {
      options.progress(index, run.cells().size());
    }
  }
  page.body += diagrams(options) + environment_section(run);
  page.footer =
      "Speedup is eager time divided by the arm's time: above 1 the arm is faster. Intervals are over "
      "processes, on the log scale: Student's t, further out on the side of a long tail. The detectable effect is the "
      "smallest one that this run would have "
      "found nine times in ten.";
  page.data_id = "run";
  return render_page(page, recorded.json());
}

}  // namespace diptych::reports
