#include <algorithm>
#include <unordered_map>

#include "reports/diagrams/layout.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

constexpr int label_columns = 40;
constexpr std::size_t tooltip_lines = 8;
constexpr std::size_t label_lines = 8;
constexpr std::size_t scope_depth = 8;

std::string cut(const std::string& text, int columns) {
  // A label may be megabytes long: look only at the part that can show.
  return shorten(printable(std::string_view(text).substr(0, 4 * static_cast<std::size_t>(columns) + 4)), columns);
}

/// Names of tensors differ at their ends, and that is also where "#2" is.
std::string cut_middle(const std::string& text, int columns) {
  return shorten_middle(printable(shorten_middle(text, 4 * columns)), columns);
}

/// Newlines separate the lines of a tooltip and are never part of a line.
std::string cut_lines(const std::string& text) {
  std::string out;
  std::size_t start = 0;
  for (std::size_t line = 0; line < tooltip_lines && start <= text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    out += (line == 0 ? "" : "\n") + cut(text.substr(start, end - start), 400);
    start = end + 1;
  }
  return out;
}

}  // namespace

Prepared prepare(const Diagram& diagram) {
  Prepared prepared;
  prepared.direction = diagram.direction;
  std::unordered_map<std::string, std::size_t> index;
  for (const DiagramNode& node : diagram.nodes) {
    if (!index.emplace(node.id, prepared.nodes.size()).second) {
      continue;  // no edge can distinguish a second node with the same id
    }
    DiagramNode shown = node;
    shown.label.resize(std::min(shown.label.size(), label_lines));
    shown.scope.resize(std::min(shown.scope.size(), scope_depth));
    double text = 40;
    for (std::size_t i = 0; i < shown.label.size(); ++i) {
      shown.label[i] = cut_middle(shown.label[i], label_columns);
      text = std::max(text, text_width(shown.label[i], i == 0 ? name_size : small_size));
    }
    shown.chips.resize(std::min(shown.chips.size(), label_lines));
    for (std::string& chip : shown.chips) {
      chip = cut_middle(chip, label_columns);
      text = std::max(text, text_width(chip, small_size) + 12);
    }
    for (std::string& scope : shown.scope) {
      scope = cut(scope, label_columns);
    }
    shown.tooltip = cut_lines(node.tooltip);
    const double lines = static_cast<double>(std::max<std::size_t>(1, shown.label.size())) + (node.heat ? 0.7 : 0);
    double width = text + (shown.emphasis == Emphasis::none ? 24 : 44);
    width = std::max(width, shown.heat ? 124.0 : 0.0);
    const double chips = shown.chips.empty() ? 0 : chips_height(shown.chips.size());
    prepared.layout.nodes.push_back({0, 0, width, lines * line_height + chips + 14});
    prepared.nodes.push_back(std::move(shown));
  }
  for (const DiagramEdge& edge : diagram.edges) {
    const auto from = index.find(edge.from);
    const auto to = index.find(edge.to);
    if (from != index.end() && to != index.end()) {
      prepared.layout.edges.push_back({from->second, to->second, cut(edge.label, 28), {}, {}, edge.hidden});
    }
  }
  return prepared;
}

}  // namespace diptych::reports
