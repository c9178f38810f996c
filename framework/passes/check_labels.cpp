// A cross entropy checks its labels, which may fail, so it can't be in a kernel with other ops: part of what they write
// would be written by then. Checked by an op of their own, labels let it be an op of rows like a softmax.
//
//   %2 = cross_entropy(%0, %1)             %4 = class_labels(%1) {classes}
//   %3 = cross_entropy_backward(%0,   =>   %2 = cross_entropy_of_classes(%0, %4)
//            %1, %scale)                   %3 = cross_entropy_backward_of_classes(%0, %4, %scale)
//
// No bit changes, and no error: the check is where the first of them was, and in its name. Logits of a few KiB stay as
// they are, since nothing is fused with them.

#include <map>
#include <tuple>

#include "framework/dispatch/op.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/row_ops.h"
#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

using graph::Node;
using graph::ValueId;

/// As for other kernels of rows (docs/fusion.md).
constexpr std::size_t kLeastLogits = std::size_t{512} << 10;

const OpDef* without_check(const OpDef& op) {
  return &op == &op::cross_entropy            ? &op::cross_entropy_of_classes
         : &op == &op::cross_entropy_backward ? &op::cross_entropy_backward_of_classes
                                              : nullptr;
}

}  // namespace

bool check_labels(graph::Graph& graph, const PassContext& context) {
  graph::Rewriter rewriter(graph);
  std::map<std::tuple<ValueId, std::int64_t, std::int64_t>, ValueId> checked;  // by labels, classes and what is ignored
  const std::size_t least = context.least_fused_bytes == 0 ? 0 : kLeastLogits;
  return rewriter.run([&](Node& node) {
    const OpDef* op = without_check(*node.op);
    if (op == nullptr || bytes_of(rewriter.type(node.inputs[0])) < least) {
      return;
    }
    const ops::ClassLabelsAttributes labels{rewriter.type(node.inputs[0]).shape.back(),
                                            node.attributes.as<ops::CrossEntropyAttributes>().ignore_index,
                                            InternedText(node.op->name)};
    const auto [place, is_first] = checked.try_emplace({node.inputs[1], labels.classes, labels.ignore_index});
    if (is_first) {
      place->second = rewriter.insert(op::class_labels, {node.inputs[1]},
                                      {&attribute_type<ops::ClassLabelsAttributes>, &labels}, node);
    }
    std::vector<ValueId> inputs = node.inputs;
    inputs[1] = place->second;
    rewriter.become(node, *op, inputs, node.attributes);
  });
}

}  // namespace diptych::passes
