#include <algorithm>
#include <unordered_map>

#include "reports/layout.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

constexpr int label_columns = 40;
constexpr std::size_t label_lines = 8;
constexpr std::size_t scope_depth = 8;

std::string cut(const std::string& text, int columns) {
  // A label may be megabytes long: look only at what can show.
  return shorten(printable(std::string_view(text).substr(0, 4 * static_cast<std::size_t>(columns) + 4)), columns);
}

}  // namespace

Prepared prepare(const Diagram& diagram) {
  Prepared prepared;
  prepared.direction = diagram.direction;
  std::unordered_map<std::string, std::size_t> index;
  for (const DiagramNode& node : diagram.nodes) {
    if (!index.emplace(node.id, prepared.nodes.size()).second) {
      continue;  // a second node of the same id cannot be told apart by any edge
    }
    DiagramNode shown = node;
    shown.label.resize(std::min(shown.label.size(), label_lines));
    shown.scope.resize(std::min(shown.scope.size(), scope_depth));
    int columns = 6;
    for (std::string& line : shown.label) {
      line = cut(line, label_columns);
      columns = std::max(columns, display_width(line));
    }
    for (std::string& scope : shown.scope) {
      scope = cut(scope, label_columns);
    }
    shown.tooltip = cut(node.tooltip, 400);
    const double lines = static_cast<double>(std::max<std::size_t>(1, shown.label.size())) + (node.heat ? 0.7 : 0);
    double width = columns * column_width + (shown.emphasis == Emphasis::none ? 24 : 44);
    width = std::max(width, shown.heat ? 124.0 : 0.0);
    prepared.layout.nodes.push_back({0, 0, width, lines * line_height + 14});
    prepared.nodes.push_back(std::move(shown));
  }
  for (const DiagramEdge& edge : diagram.edges) {
    const auto from = index.find(edge.from);
    const auto to = index.find(edge.to);
    if (from != index.end() && to != index.end()) {
      prepared.layout.edges.push_back({from->second, to->second, cut(edge.label, 28), {}, {}});
    }
  }
  return prepared;
}

}  // namespace diptych::reports
