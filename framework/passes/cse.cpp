// Common subexpression elimination: of nodes with the same op, attributes and inputs only the first stays. Exact,
// because every op gives the same bits for the same inputs. The survivor also stands for the source ops of the others.
//
//   %2 = exp(%0)
//   %3 = exp(%0)
//   %4 = add(%2, %3)   =>   %2 = exp(%0);  %4 = add(%2, %2)

#include <unordered_map>

#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

std::size_t hash_of(const graph::Node& node) {
  std::size_t result = std::hash<const void*>()(node.op) ^ node.attributes.hash();
  for (graph::ValueId input : node.inputs) {
    result = result * 0x9E3779B97F4A7C15ULL + input;
  }
  return result;
}

}  // namespace

bool eliminate_common_subexpressions(graph::Graph& graph) {
  std::vector<graph::ValueId> replacement = identity_replacement(graph);
  std::unordered_multimap<std::size_t, std::size_t> seen;  // hash -> index into nodes
  std::vector<graph::Node> kept;
  kept.reserve(graph.nodes.size());
  for (graph::Node& node : graph.nodes) {
    for (graph::ValueId& input : node.inputs) {
      input = replacement[input];
    }
    const std::size_t hash = hash_of(node);
    graph::Node* twin = nullptr;
    if (node.op->effect || node.is_control()) {
      kept.push_back(std::move(node));
      continue;
    }
    const auto [begin, end] = seen.equal_range(hash);
    for (auto candidate = begin; candidate != end && twin == nullptr; ++candidate) {
      graph::Node& other = kept[candidate->second];
      if (other.op == node.op && other.inputs == node.inputs && other.attributes == node.attributes) {
        twin = &other;
      }
    }
    if (twin != nullptr) {
      replacement[node.output] = twin->output;
      merge_provenance(twin->provenance, node.provenance);
    } else {
      seen.emplace(hash, kept.size());
      kept.push_back(std::move(node));
    }
  }
  const bool changed = kept.size() != graph.nodes.size();
  graph.nodes = std::move(kept);
  replace_uses(graph, replacement);
  return changed;
}

}  // namespace diptych::passes
