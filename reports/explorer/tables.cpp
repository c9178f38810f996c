#include "reports/explorer/tables.h"

#include <fmt/format.h>

#include "reports/text/text.h"

namespace diptych::reports {
namespace {

/// All that a picture shows.
std::string content_of(const Diagram& diagram) {
  std::string content;
  for (const DiagramNode& node : diagram.nodes) {
    content += fmt::format("{}\t{}", node.id, static_cast<int>(node.node_class));
    for (const auto* lines : {&node.label, &node.scope, &node.chips}) {
      content += "\t|";
      for (const std::string& line : *lines) {
        content += "\t" + line;
      }
    }
    content += "\n";
  }
  for (const DiagramEdge& edge : diagram.edges) {
    content += fmt::format("{} {} {}\n", edge.from, edge.to, edge.hidden);
  }
  return content;
}

}  // namespace

int ExplorerTables::unique(const nlohmann::json& entry, nlohmann::json& table, Index& index) {
  const auto [known, is_new] = index.try_emplace(entry.dump(), static_cast<int>(table.size()));
  if (is_new) {
    table.push_back(entry);
  }
  return known->second;
}

int ExplorerTables::string(const std::string& text) {
  constexpr int columns = 400;
  return unique(shorten_middle(printable(shorten_middle(text, 4 * columns)), columns), strings_, string_index_);
}

int ExplorerTables::picture(const Diagram& diagram) {
  const auto [known, is_new] = picture_index_.try_emplace(content_of(diagram), static_cast<int>(pictures_.size()));
  if (is_new) {
    pictures_.push_back(diagram);
  }
  return known->second;
}

std::vector<std::string> ExplorerTables::drawn(const Progress& progress) const {
  constexpr int kCpuSeconds = 2;
  return bare_svgs(pictures_, kCpuSeconds, [&](std::size_t done) {
    if (progress) {
      progress(done, pictures_.size());
    }
  });
}

nlohmann::json ExplorerTables::take_json() {
  return {{"strings", std::move(strings_)},
          {"nodes", std::move(nodes_)},
          {"levels", std::move(levels_)},
          {"values", std::move(values_)}};
}

}  // namespace diptych::reports
