// softmax(scale q k^T + mask) v, written as the ops that it consists of, with dropout of the weights or without,
// becomes one attention op, which has the same bits (kernels/attention.h) and keeps the scores in the cache. It must
// not where something else reads the scores or the weights, where leading axes broadcast, or where BLAS multiplies
// matrices.
//
//   %3 = permute(%k) {axes=[0,2,1]}
//   %4 = matmul(%q, %3)
//   %5 = mul(%4, %scale)            =>   %7 = attention(%q, %k, %v) {scale}
//   %6 = softmax(%5)
//   %7 = matmul(%6, %v)

#include <cmath>
#include <limits>
#include <optional>

#include "framework/graph/rewriter.h"
#include "framework/kernels/gemm.h"
#include "framework/ops/axis_attributes.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/matrices.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/window_ops.h"
#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

using graph::Node;
using graph::ValueId;

/// Weights: softmax(scale scores + mask).
struct Weights {
  ValueId scores;
  std::optional<ValueId> mask;
  ops::SoftmaxAttributes attributes;
  std::vector<const Node*> between = {};  ///< scores and softmax
};

/// Of weights, each kept with probability `keep`, times `factor`.
struct Drop {
  ValueId weights;
  ValueId state;
  double keep, factor;
  const Node* scaled;
  const Node* drawn;
};

class AttentionJoiner {
 public:
  explicit AttentionJoiner(graph::Graph& graph) : users_(graph), rewriter_(graph) {}

  bool run() {
    return rewriter_.run([this](Node& node) { visit(node); });
  }

 private:
  /// The node that makes a value which is read once and nowhere else.
  const Node* only_producer(ValueId value) const {
    return value < known_ && users_.count(value) == 1 && !users_.is_result(value) ? rewriter_.producer(value) : nullptr;
  }

  /// The number that all of a constant's elements are, if it is one element.
  std::optional<double> number(ValueId value) const {
    const Tensor* constant = rewriter_.constant(value);
    return constant != nullptr && constant->numel() == 1 ? std::optional(constant->to_vector<double>()[0])
                                                         : std::nullopt;
  }

  /// Dropout of all weights, each by a number of its own.
  std::optional<Drop> drop_of(ValueId value) const {
    const Node* scaled = only_producer(value);
    if (scaled == nullptr || scaled->op != &op::masked_scale) {
      return std::nullopt;
    }
    const Node* drawn = only_producer(scaled->inputs[0]);
    if (drawn == nullptr || drawn->op != &op::random_bernoulli ||
        rewriter_.type(scaled->inputs[0]).shape != rewriter_.type(scaled->inputs[1]).shape) {
      return std::nullopt;
    }
    return Drop{scaled->inputs[1],
                drawn->inputs[0],
                drawn->attributes.as<ops::BernoulliAttributes>().p,
                scaled->attributes.as<ops::MaskedScaleAttributes>().scale,
                scaled,
                drawn};
  }

  std::optional<Weights> weights_of(const Node& node) const {
    if (node.op == &op::masked_softmax) {
      const bool has_mask = node.inputs.size() > 1;
      return Weights{node.inputs[0], has_mask ? std::optional(node.inputs[1]) : std::nullopt,
                     node.attributes.as<ops::SoftmaxAttributes>()};
    }
    if (node.op != &op::softmax) {
      return std::nullopt;
    }
    const std::optional<ValueId> causal = causally_masked(node.inputs[0]);
    const ValueId scores = causal.value_or(node.inputs[0]);
    Weights weights{scores, std::nullopt, {1, causal.has_value()}};
    if (causal) {
      weights.between.push_back(rewriter_.producer(node.inputs[0]));
    }
    // The largest of scaled scores is the largest score, scaled, for a positive scale.
    const Node* scaled = only_producer(scores);
    if (scaled != nullptr && scaled->op == &op::mul) {
      for (const std::size_t factor : {0U, 1U}) {
        const std::optional<double> scale = number(scaled->inputs[factor]);
        if (scale && *scale > 0 && std::isfinite(*scale)) {
          weights.scores = scaled->inputs[1 - factor];
          weights.attributes.scale = *scale;
          weights.between.push_back(scaled);
          break;
        }
      }
    }
    return weights;
  }

  /// The scores in where(later, -inf, scores) or where(not later, scores, -inf). Of all masks only this one: another
  /// may leave out a whole row, whose softmax is NaN here and 0 in masked_softmax.
  std::optional<ValueId> causally_masked(ValueId value) const {
    const Node* chosen = only_producer(value);
    if (chosen == nullptr || chosen->op != &op::where) {
      return std::nullopt;
    }
    const Shape& mask = rewriter_.type(chosen->inputs[0]).shape;
    ValueId folded = chosen->inputs[0];
    for (const Node* view = rewriter_.producer(folded); view != nullptr && view->op == &op::reshape;
         view = rewriter_.producer(folded)) {
      folded = view->inputs[0];
    }
    const Tensor* condition = rewriter_.constant(folded);
    for (const std::size_t hidden : {1U, 2U}) {
      if (condition != nullptr && number(chosen->inputs[hidden]) == -std::numeric_limits<double>::infinity() &&
          holds_later(*condition, mask, rewriter_.type(value).shape, hidden == 1) &&
          rewriter_.type(chosen->inputs[3 - hidden]) == rewriter_.type(value)) {
        return chosen->inputs[3 - hidden];
      }
    }
    return std::nullopt;
  }

  /// Whether a mask of this shape, for square matrices of scores, is `later` above the diagonal and the opposite
  /// elsewhere.
  static bool holds_later(const Tensor& mask, const Shape& shape, const Shape& scores, bool later) {
    const int rank = shape.rank();
    const std::int64_t length = scores.back();
    if (rank < 2 || scores[scores.rank() - 2] != length || shape[rank - 1] != length || shape[rank - 2] != length ||
        mask.numel() != length * length) {
      return false;
    }
    const std::vector<bool> elements = mask.to_vector<bool>();
    for (std::int64_t row = 0; row < length; ++row) {
      for (std::int64_t column = 0; column < length; ++column) {
        if (elements[static_cast<std::size_t>(row * length + column)] != ((column > row) == later)) {
          return false;
        }
      }
    }
    return true;
  }

  void visit(Node& node) {
    if (node.op != &op::matmul) {
      return;
    }
    const std::optional<Drop> drop = drop_of(node.inputs[0]);
    const Node* softmax = only_producer(drop ? drop->weights : node.inputs[0]);
    const std::optional<Weights> weights = softmax != nullptr ? weights_of(*softmax) : std::nullopt;
    const Node* scores = weights ? only_producer(weights->scores) : nullptr;
    if (scores == nullptr || scores->op != &op::matmul) {
      return;
    }
    const ValueId q = scores->inputs[0];
    const ValueId transposed = scores->inputs[1];
    const TensorType& type = rewriter_.type(node.output());
    const int rank = type.shape.rank();
    for (const ValueId operand : {q, transposed, node.inputs[1]}) {
      if (rewriter_.type(operand).shape.rank() != rank ||
          ops::batch_of(rewriter_.type(operand).shape) != ops::batch_of(type.shape)) {
        return;
      }
    }
    if (type.dtype != DType::float32 && type.dtype != DType::float64) {
      return;
    }
    ops::AxesAttributes axes;
    for (int axis = 0; axis < rank; ++axis) {
      axes.axes.push_back(axis);
    }
    axes.axes[rank - 2] = rank - 1;
    axes.axes[rank - 1] = rank - 2;
    const AttributeValue swap(&attribute_type<ops::AxesAttributes>, &axes);
    merge_provenance(node.provenance, softmax->provenance);
    merge_provenance(node.provenance, scores->provenance);
    for (const Node* each : weights->between) {
      merge_provenance(node.provenance, each->provenance);
    }
    if (drop) {
      merge_provenance(node.provenance, drop->drawn->provenance);
      merge_provenance(node.provenance, drop->scaled->provenance);
    }
    // k is a view, which costs nothing.
    const ValueId k = rewriter_.insert(op::permute, {transposed}, swap, node);
    std::vector<ValueId> inputs{q, k, node.inputs[1]};
    if (weights->mask) {
      inputs.push_back(*weights->mask);
    }
    AttributeValue attributes(&attribute_type<ops::SoftmaxAttributes>, &weights->attributes);
    if (drop) {
      const ops::DropoutAttentionAttributes dropping{weights->attributes.scale, weights->attributes.is_causal,
                                                     drop->keep, drop->factor};
      attributes = AttributeValue(&attribute_type<ops::DropoutAttentionAttributes>, &dropping);
      inputs.insert(inputs.begin(), drop->state);
    }
    const OpDef& joined = drop ? op::dropout_attention : op::attention;
    const std::optional<TensorType> inferred = rewriter_.inferred(joined, inputs, attributes);
    if (inferred && *inferred == rewriter_.type(node.output())) {
      rewriter_.become(node, joined, inputs, attributes);
    }
  }

  graph::Users users_;
  graph::Rewriter rewriter_;
  const ValueId known_ = static_cast<ValueId>(rewriter_.graph().types.size());  ///< older than the sweep
};

}  // namespace

bool join_attention(graph::Graph& graph, const PassContext& /*context*/) {
  return kernels::active_gemm() == kernels::Gemm::tiles && AttentionJoiner(graph).run();
}

}  // namespace diptych::passes
