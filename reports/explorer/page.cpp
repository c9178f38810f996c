#include "reports/html/page.h"

#include <map>

#include <fmt/format.h>

#include "framework/graph/ir.h"
#include "reports/assets.h"
#include "reports/explorer/explorer.h"
#include "reports/html/sha256.h"
#include "reports/html/table.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

std::string explorer_script() {
  return std::string(assets::graph_js()) + std::string(assets::graph_heat_js()) + std::string(assets::graph_panel_js());
}

std::string explorer_policy() {
  return fmt::format(
      "default-src 'none'; style-src 'sha256-{}' 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action "
      "'none'",
      sha256_base64(assets::graph_css()), sha256_base64(assets::diagram_css()), sha256_base64(explorer_script()));
}

std::string title_of(const ExplorerStage& stage, std::size_t index) {
  return index == 0 ? "as captured" : "after " + shorten(printable(std::string_view(stage.name).substr(0, 400)), 60);
}

std::string stage_table(const ExplorerInput& input) {
  HtmlTable table({"stage", "nodes", "difference", "time", ""}, {0, 4});
  std::size_t before = 0;
  for (std::size_t i = 0; i < input.stages.size(); ++i) {
    const ExplorerStage& stage = input.stages[i];
    const std::size_t nodes = graph::count_nodes(*stage.graph);
    const auto difference = static_cast<std::int64_t>(nodes) - static_cast<std::int64_t>(before);
    table.row({{title_of(stage, i)},
               {fmt::format("{}", nodes)},
               {i > 0 && difference != 0 ? fmt::format("{:+}", difference) : ""},
               {format_seconds(stage.seconds)},
               {stage.changed ? "" : "unchanged"}});
    before = nodes;
  }
  return table.finish();
}

std::string headline_of(const ExplorerInput& input) {
  const std::size_t first = graph::count_nodes(*input.stages.front().graph);
  const std::size_t last = graph::count_nodes(*input.stages.back().graph);
  return fmt::format("{} nodes as captured, {} {}", first, last,
                     title_of(input.stages.back(), input.stages.size() - 1));
}

/// Each "{{name}}" of the page once, so that nothing in what is filled in is filled in again.
std::string filled(std::string_view page, const std::map<std::string, std::string, std::less<>>& parts) {
  std::string out;
  while (true) {
    const std::size_t open = page.find("{{");
    const std::size_t close = page.find("}}", open == std::string_view::npos ? 0 : open);
    if (open == std::string_view::npos || close == std::string_view::npos) {
      return out + std::string(page);
    }
    out += page.substr(0, open);
    out += parts.find(page.substr(open + 2, close - open - 2))->second;
    page.remove_prefix(close + 2);
  }
}

}  // namespace

std::string render_explorer(const ExplorerInput& input) {
  const ExplorerData data = explorer_data(input);
  std::string pictures;
  for (std::size_t i = 0; i < data.pictures.size(); ++i) {
    pictures += fmt::format("<template id=\"picture-{}\">{}</template>\n", i, data.pictures[i]);
  }
  return filled(
      assets::graph_html(),
      {{"policy", explorer_policy()},
       {"workload", escape_xml(shorten(printable(input.workload), 120))},
       {"page style", std::string(assets::graph_css())},
       {"diagram style", std::string(assets::diagram_css())},
       {"headline", escape_xml(headline_of(input))},
       {"caption", escape_xml(fmt::format("The program {}", title_of(input.stages.back(), input.stages.size() - 1)))},
       {"picture", data.pictures[static_cast<std::size_t>(data.first_picture)]},
       {"stages", stage_table(input)},
       {"data", embedded_json(data.json)},
       {"pictures", pictures},
       {"script", explorer_script()}});
}

}  // namespace diptych::reports
