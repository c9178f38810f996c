// The sum of a whole tensor, of elementwise ops of its shape, becomes that of rows of 4,096 elements and that of their
// sums. A row fits the cache, so that the pass `fuse` can make one kernel of the ops and the sum of a row.
//
//   %2: f32[2048,768] = sub(%0, %1)             %2: f32[384,4096] = sub(reshape(%0), reshape(%1))
//   %3: f32[2048,768] = square(%2)         =>   %3: f32[384,4096] = square(%2)
//   %4: f32[] = sum(%3) {axes=[0,1]}            %5: f32[384] = sum(%3) {axes=[1]}
//                                               %4: f32[] = sum(%5) {axes=[0]}
//
// No bit changes: a sum takes blocks of 4,096 elements by themselves, and their sums as those of one more block
// (kernels/reduction.h), as long as there are no more than 4,096 of them. Other ops of the shape that read the ops in
// between are taken along, so that they can still be one kernel with them; what has rows of its own is left as it is.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "framework/dispatch/op.h"
#include "framework/graph/rewriter.h"
#include "framework/kernels/reduction.h"
#include "framework/ops/axis_attributes.h"
#include "framework/ops/reduction_ops.h"
#include "framework/passes/pass.h"
#include "framework/passes/views.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// A kernel with a reduction must save three passes over its tensor, and one from 8 MiB on (docs/fusion.md): a sum of
/// one op saves two, of two ops four.
constexpr std::size_t kLeastSummed = std::size_t{512} << 10;
constexpr std::size_t kLeastSummedOfOneOp = std::size_t{8} << 20;

bool is_of_all(const Node& node, const Shape& shape) {
  return node.op == &op::sum && node.attributes.as<ops::ReduceAttributes>().axes.rank() == shape.rank();
}

class SumSplitter {
 public:
  SumSplitter(Graph& graph, const PassContext& context)
      : users_(graph), producers_(graph), rewriter_(graph), layouts_(context.fixed_layouts()) {
    for (const Node& node : graph.nodes) {
      find(graph, node, context);
    }
    for (const Node& node : graph.nodes) {
      is_rewritten_.push_back(node.outputs.size() == 1 && (is_inside(node.output()) || sums_.contains(node.output())));
    }
  }

  bool run() {
    return !sums_.empty() && rewriter_.run([this](Node& node) { visit(node); });
  }

 private:
  const TensorType& type(ValueId value) const { return rewriter_.type(value); }
  bool is_inside(ValueId value) const { return inside_.contains(value); }

  void find(const Graph& graph, const Node& sum, const PassContext& context) {
    if (sum.inputs.size() != 1 || !is_of_all(sum, type(sum.inputs[0]).shape)) {
      return;
    }
    const ValueId summed = sum.inputs[0];
    const std::int64_t n = type(summed).shape.product();
    const std::int64_t rows = n / kernels::kBlock;
    if (n % kernels::kBlock != 0 || rows < 2 || rows > kernels::kBlock) {
      return;
    }
    if (type(summed).dtype == DType::bfloat16) {  // summed in f32 and rounded once; sums of rows would be rounded, too
      return;
    }
    if (is_inside(summed)) {
      sums_.insert(sum.output());
      return;
    }
    const bool forces = context.least_fused_bytes == 0;
    const std::size_t bytes = bytes_of(type(summed));
    if (!forces && bytes < kLeastSummed) {
      return;
    }
    std::vector<ValueId> taken;
    const std::size_t ops = take(graph, summed, taken);
    if (ops == 0 || (!forces && ops == 1 && bytes < kLeastSummedOfOneOp) || reads_product(graph, taken, context)) {
      return;
    }
    inside_.insert(taken.begin(), taken.end());
    sums_.insert(sum.output());
  }

  /// Collects what makes `summed`, and the ops that read it. Returns how many make it.
  std::size_t take(const Graph& graph, ValueId summed, std::vector<ValueId>& taken) const {
    const Shape& shape = type(summed).shape;
    std::unordered_set<ValueId> seen;
    const auto take_if = [&](const Node* node) {
      if (node != nullptr && can_be_rows(graph, *node, shape) && seen.insert(node->output()).second) {
        taken.push_back(node->output());
      }
    };
    take_if(producers_.node(graph, summed));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      for (const ValueId input : producers_.node(graph, taken[i])->inputs) {
        take_if(producers_.node(graph, input));
      }
    }
    const std::size_t making = taken.size();
    for (std::size_t i = 0; i < taken.size(); ++i) {
      for (const std::uint32_t user : users_.of(taken[i])) {
        take_if(&graph.nodes[user]);
      }
    }
    return making;
  }

  /// Elementwise, of operands of this shape, which are dense, and of single elements; read by no op of rows.
  bool can_be_rows(const Graph& graph, const Node& node, const Shape& shape) const {
    if (node.outputs.size() != 1 || !node.op->elementwise() || node.op->effect || node.op->can_fail ||
        type(node.output()).shape != shape || layouts_.contains(node.output())) {
      return false;
    }
    for (const ValueId input : node.inputs) {
      const Node* producer = producers_.node(graph, input);
      const bool is_view = producer != nullptr && producer->op->view != nullptr;
      if (type(input).shape.product() != 1 && (type(input).shape != shape || is_view)) {
        return false;
      }
    }
    const auto users = users_.of(node.output());
    return std::all_of(users.begin(), users.end(), [&](std::uint32_t user) {
      const Node& reader = graph.nodes[user];
      return !reader.op->rows || is_of_all(reader, shape);
    });
  }

  /// What stands behind a product may be computed in its kernel, part by part.
  bool reads_product(const Graph& graph, const std::vector<ValueId>& taken, const PassContext& context) const {
    return std::any_of(taken.begin(), taken.end(), [&](ValueId value) {
      const auto& inputs = producers_.node(graph, value)->inputs;
      return std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) {
        const Node* producer = producers_.node(graph, input);
        return producer != nullptr && producer->op->kind == OpKind::contraction &&
               bytes_of(type(input)) >= context.least_epilogue_bytes;
      });
    });
  }

  void visit(Node& node) {
    if (node.outputs.size() != 1) {
      return;
    }
    const ValueId output = node.output();
    if (is_inside(output)) {
      compute_in_rows(node);
    } else if (sums_.contains(output)) {
      sum_rows(node);
    }
  }

  void compute_in_rows(Node& node) {
    const ValueId output = node.output();
    const Shape shape = rows_of(output);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(type(input).shape.product() == 1 ? reshaped(input, {}, node) : in_rows(input, shape, node));
    }
    rows_[output] = rewriter_.insert(*node.op, inputs, node.attributes, node);
    const auto users = users_.of(output);
    const bool is_read_otherwise =
        std::any_of(users.begin(), users.end(), [&](std::uint32_t user) { return !is_rewritten_[user]; });
    if (is_read_otherwise || users_.is_result(output)) {
      become_reshape(node, rows_[output], type(output).shape);
    } else {
      rewriter_.drop(node);
    }
  }

  void sum_rows(Node& node) {
    const Shape shape = type(node.output()).shape;
    const ValueId of_rows = rewriter_.insert(op::sum, {rows_.at(node.inputs[0])}, over(1), node);
    if (shape.rank() == 0) {
      rewriter_.become(node, op::sum, {of_rows}, over(0));
    } else {
      become_reshape(node, rewriter_.insert(op::sum, {of_rows}, over(0), node), shape);
    }
  }

  Shape rows_of(ValueId value) const { return {type(value).shape.product() / kernels::kBlock, kernels::kBlock}; }
  ValueId in_rows(ValueId value, const Shape& shape, const Node& node) {
    const auto found = rows_.find(value);
    return found != rows_.end() ? found->second : rows_[value] = reshaped(value, shape, node);
  }
  ValueId reshaped(ValueId value, const Shape& shape, const Node& node) {
    return type(value).shape == shape ? value : rewriter_.insert(op::reshape, {value}, to_shape(shape), node);
  }
  void become_reshape(Node& node, ValueId value, const Shape& shape) {
    rewriter_.become(node, op::reshape, {value}, to_shape(shape));
  }
  static AttributeValue over(std::int64_t axis) {
    ops::ReduceAttributes attributes;
    attributes.axes.push_back(axis);
    return {&attribute_type<ops::ReduceAttributes>, &attributes};
  }

  graph::Users users_;
  graph::Producers producers_;  ///< before the sweep
  graph::Rewriter rewriter_;
  graph::FixedLayouts layouts_;
  std::unordered_set<ValueId> inside_;         ///< what is to be computed in rows
  std::unordered_set<ValueId> sums_;           ///< of that
  std::vector<bool> is_rewritten_;             ///< by node
  std::unordered_map<ValueId, ValueId> rows_;  ///< a value as rows, once the sweep has come to it
};

}  // namespace

bool split_sums(Graph& graph, const PassContext& context) { return SumSplitter(graph, context).run(); }

}  // namespace diptych::passes
