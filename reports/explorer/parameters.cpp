#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "framework/core/text.h"
#include "reports/explorer/levels.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

/// What pictures draw only when asked: the parameters, states and constants that boxes read.
namespace diptych::reports {
namespace {

using graph::ValueId;
using nlohmann::json;

/// Of one box, by name; more share a chip.
constexpr std::size_t most_chips = 4;
constexpr int chip_columns = 24;

/// "weight" of "layers.0.norm1.weight" in layers.0.norm1, or in layers.0.norm1.scale: equal blocks keep equal pictures.
std::string without_scope(std::string name, std::string scope) {
  while (!scope.empty()) {
    if (const std::size_t at = name.find(scope + "."); at != std::string::npos) {
      return name.erase(at, scope.size() + 1);
    }
    scope.resize(scope.find_last_of('.') == std::string::npos ? 0 : scope.find_last_of('.'));
  }
  return name;
}

}  // namespace

json GraphLevels::values() const {
  json values = json::object();
  const auto add = [&](ValueId value, int kind, const std::string& name) {
    const TensorType& type = graph_.types[value];
    values[std::to_string(value)] = {kind, tables_.string(shorten_middle(name, 200)), tables_.string(to_string(type)),
                                     bytes_of(type)};
  };
  for (const graph::Input& input : graph_.inputs) {
    add(input.value, static_cast<int>(input.kind), input.name);
  }
  for (const auto& [value, tensor] : graph_.constants) {
    if (!is_in_title(value)) {
      constexpr int kConstant = 3;  // behind the kinds of inputs
      add(value, kConstant, tensor.numel() == 1 ? constants_.at(value) : "");
    }
  }
  return values;
}

bool GraphLevels::is_in_title(ValueId value) const {
  constexpr std::size_t longest = 8;
  const auto constant = constants_.find(value);
  return constant != constants_.end() && constant->second.size() <= longest;
}

bool GraphLevels::is_folded(ValueId value) const {
  return of_region_ == nullptr && (is_parameter_[value] || (is_constant_[value] && !is_in_title(value)));
}

std::string GraphLevels::text_of(ValueId value, const std::string& scope) const {
  const auto name = names_.find(value);
  if (name == names_.end()) {
    return constants_.at(value);
  }
  const std::string shown = without_scope(shorten_middle(name->second, 200), scope);
  return fmt::format("{} {}", shorten_middle(printable(shown), chip_columns), to_string(graph_.types[value]));
}

std::vector<GraphLevels::Chip> GraphLevels::chips_of(const Box& box) const {
  std::vector<Chip> chips;
  std::set<ValueId> known;
  std::size_t bytes = 0;
  for (const std::size_t node : box.nodes) {
    for (const ValueId value : graph_.nodes[node].inputs) {
      if (!is_folded(value) || !known.insert(value).second) {
        continue;
      }
      bytes += bytes_of(graph_.types[value]);
      chips.push_back({text_of(value, places_.of(graph_.nodes[node].provenance).scope), {value}});
    }
  }
  // Those of repeated blocks have the same names.
  if (chips.size() <= (box.part->kind == GraphPart::Kind::repeat ? 1 : most_chips)) {
    return chips;
  }
  return {{fmt::format("{} parameters, {}", known.size(), format_bytes(static_cast<double>(bytes))),
           std::vector<ValueId>(known.begin(), known.end())}};
}

json GraphLevels::with_parameters(Diagram diagram, const std::vector<Box>& boxes, std::size_t first) {
  json entries = json::array();
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (const Chip& chip : chips_of(boxes[i])) {
      diagram.nodes[first + i].chips.push_back(chip.text);
      entries.push_back({first + i, chip.values});
    }
  }
  if (entries.empty()) {
    return nullptr;
  }
  return {{"picture", tables_.picture(diagram)}, {"chips", std::move(entries)}};
}

}  // namespace diptych::reports
