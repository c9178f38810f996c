#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/graph/fused_op.h"
#include "framework/graph/ir.h"
#include "framework/passes/pass.h"
#include "tests/graph/variants.h"
#include "tests/support/with_threads.h"

namespace diptych::passes::testing {

/// The graph after the pass `fuse`.
inline graph::Graph after_fuse(graph::Graph graph, std::size_t least_bytes = 0) {
  PassContext context(graph);
  context.least_fused_bytes = least_bytes;
  fuse(graph, context);
  graph::verify(graph);
  return graph;
}

/// What is compiled.
using Body = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Runs the function as a graph that fuses all it can, on one thread and on several; something must have fused, by
/// channels if it says so.
inline void expect_fused_bits(const Body& function, const std::vector<Tensor>& inputs, const std::string& what,
                              bool by_channel = false) {
  const std::vector<Tensor> expected = function(inputs);
  for (const int threads : {1, 3}) {
    const diptych::testing::WithThreads with(threads, true);
    auto compiled = jit(function, {.pipeline = diptych::testing::fusing_all()});
    for (int call = 0; call < 2; ++call) {
      diptych::testing::expect_same_bits(compiled(inputs), expected, what);
    }
    const auto& nodes = compiled.compiled()->graph()->nodes;
    EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), [&](const graph::Node& node) {
      return node.op == &graph::fused_op() && (!by_channel || graph::rows_of(*node.regions[0]).by_channel());
    })) << what;
  }
}

}  // namespace diptych::passes::testing
