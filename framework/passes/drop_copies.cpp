// What it does, what it must not do, and why no bit changes.

#include "framework/graph/rewriter.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/passes/pass.h"

namespace diptych::passes {

bool drop_copies(graph::Graph& graph, const PassContext& /*context*/) {
  graph::Rewriter rewriter(graph);
  return rewriter.run([&](graph::Node& node) {
    if (node.op == &op::stop_gradient) {
      rewriter.replace(node, node.inputs[0]);  // whoever reads the node reads its input from now on
    }
  });
}

}  // namespace diptych::passes
