// Constant folding: a node whose inputs are all constants is computed at compile time, by the same eager kernel and
// therefore to the same bits. `full` is such a node, because it has no inputs. Views stay: they cost nothing, and
// folding them would change layouts; but what reads views of constants is computed. Results over 1 MiB stay too:
// storing them would cost more than computing them.
//
//   %1 = full() {value=0.5}
//   %2 = square(%1)          =>   const %2 = {0.25}

#include <unordered_map>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/apply.h"
#include "framework/graph/rewriter.h"
#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

/// Whether its elements are one, repeated: it takes no memory, and loops read it as a number.
bool is_repeated(const Tensor& tensor) {
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.shape()[axis] > 1 && tensor.strides()[axis] != 0) {
      return false;
    }
  }
  return tensor.numel() > 1;
}

}  // namespace

bool fold_constants(graph::Graph& graph, const PassContext& /*context*/) {
  constexpr std::int64_t kMostBytes = 1 << 20;
  const EagerScope eager;
  const NoGrad no_tape;
  graph::Rewriter rewriter(graph);
  std::unordered_map<graph::ValueId, Tensor> views;  // of constants
  const auto known = [&](graph::ValueId value) {
    const auto view = views.find(value);
    return view != views.end() ? &view->second : rewriter.constant(value);
  };
  return rewriter.run([&](graph::Node& node) {
    const bool is_view = node.op->view != nullptr;
    const TensorType& type = rewriter.type(node.output());
    if (node.op->effect || !node.regions.empty() ||
        type.shape.product() * static_cast<std::int64_t>(size_of(type.dtype)) > kMostBytes) {
      return;
    }
    std::vector<const Tensor*> inputs;
    bool repeats = false;
    bool varies = false;
    for (const graph::ValueId input : node.inputs) {
      inputs.push_back(known(input));
      if (inputs.back() == nullptr) {
        return;
      }
      const bool is_one = is_repeated(*inputs.back());
      repeats = repeats || is_one;
      varies = varies || (!is_one && inputs.back()->numel() > 1);
    }
    if (!is_view && repeats && !varies) {
      return;  // what comes out is one element, repeated, too: a kernel computes it in passing
    }
    try {
      Tensor result = apply_eager(*node.op, inputs, node.attributes.get(), node.provenance.where);
      if (is_view && result.body()->storage == inputs[0]->body()->storage) {
        views.emplace(node.output(), std::move(result));
      } else {
        rewriter.become_constant(node, result);
      }
    } catch (const Error&) {
      // It would fail at run time: leave it to fail then, with its own message.
    }
  });
}

}  // namespace diptych::passes
