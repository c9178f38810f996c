// Common subexpression elimination: of several nodes with the same op, attributes and inputs only the first stays.
// Exact, because every op gives the same bits for the same inputs. The survivor also stands for the source ops of the
// others.
//
//   %2 = exp(%0)
//   %3 = exp(%0)
//   %4 = add(%2, %3)   =>   %2 = exp(%0);  %4 = add(%2, %2)

#include <unordered_map>

#include "framework/dispatch/op.h"
#include "framework/graph/rewriter.h"
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

bool eliminate_common_subexpressions(graph::Graph& graph, const PassContext& /*context*/) {
  graph::Rewriter rewriter(graph);
  std::unordered_multimap<std::size_t, graph::ValueId> seen;  // hash -> output
  return rewriter.run([&](graph::Node& node) {
    if (node.op->effect || !node.regions.empty()) {
      return;
    }
    const std::size_t hash = hash_of(node);
    const auto [begin, end] = seen.equal_range(hash);
    for (auto candidate = begin; candidate != end; ++candidate) {
      const graph::Node& other = *rewriter.producer(candidate->second);
      if (other.op == node.op && other.inputs == node.inputs && other.attributes == node.attributes) {
        rewriter.replace(node, candidate->second);
        rewriter.drop(node);
        return;
      }
    }
    seen.emplace(hash, node.output());
  });
}

}  // namespace diptych::passes
