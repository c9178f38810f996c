#include "framework/graph/layouts.h"

#include "framework/dispatch/op.h"
#include "framework/kernels/gemm.h"

namespace diptych::graph {

FixedLayouts::FixedLayouts(const Graph& graph) : fixed_(graph.types.size(), false) {
  if (kernels::active_gemm() != kernels::Gemm::openblas) {
    return;
  }
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->op->kind == OpKind::contraction || node->is_control() ||
        (node->op->view != nullptr && fixed_[node->output()])) {
      for (const ValueId input : node->inputs) {
        fixed_[input] = true;
      }
    }
  }
}

}  // namespace diptych::graph
