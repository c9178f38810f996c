#include "framework/passes/attention_forms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/ops/axis_attributes.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/matrices.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/window_ops.h"

namespace diptych::passes {

using graph::Node;
using graph::ValueId;

namespace {

constexpr std::uint32_t kNowhere = UINT32_MAX;

/// Whether a mask of this shape, for square matrices of scores, is `later` above the diagonal and the opposite
/// elsewhere.
bool holds_later(const Tensor& mask, const Shape& shape, const Shape& scores, bool later) {
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

}  // namespace

PermutedView PermutedView::swapped() const {
  PermutedView other = *this;
  std::swap(other.axes[axes.size() - 1], other.axes[axes.size() - 2]);
  return other;
}

/// softmax(scale scores + mask)
struct AttentionForms::Weights {
  ValueId value;
  ValueId scores;
  std::optional<ValueId> mask;
  ops::SoftmaxAttributes attributes;
  const Node* softmax;
  const Node* choice = nullptr;  ///< of -inf above the diagonal
  std::size_t hidden = 0;        ///< which of its inputs that is
  const Node* scaled = nullptr;
};

/// Weights times `factor`, or 0 where the draw says so.
struct AttentionForms::Dropped {
  ValueId weights;
  const Node* scaled;
  const Node* drawn;
};

AttentionForms::AttentionForms(const graph::Graph& graph, bool read_by_others)
    : graph_(graph),
      read_by_others_(read_by_others),
      users_(graph),
      producers_(graph),
      constant_(graph.types.size(), kNowhere) {
  for (std::size_t i = 0; i < graph.constants.size(); ++i) {
    constant_[graph.constants[i].first] = static_cast<std::uint32_t>(i);
  }
}

const Node* AttentionForms::producer(ValueId value) const { return producers_.node(graph_, value); }
bool AttentionForms::is_read_by_nodes_alone(ValueId value, std::size_t times) const {
  return read_by_others_ || (users_.count(value) == times && !users_.is_result(value));
}
const Node* AttentionForms::producer_read(ValueId value, std::size_t times) const {
  return is_read_by_nodes_alone(value, times) ? producer(value) : nullptr;
}

/// The number that all of a constant's elements are, if it is one element.
std::optional<double> AttentionForms::number(ValueId value) const {
  if (constant_[value] == kNowhere || graph_.types[value].shape.product() != 1) {
    return std::nullopt;
  }
  return graph_.constants[constant_[value]].second.to_vector<double>()[0];
}

PermutedView AttentionForms::view_of(ValueId value) const {
  std::vector<int> axes(static_cast<std::size_t>(graph_.types[value].shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  for (const Node* node = producer(value); node != nullptr && node->op == &op::permute; node = producer(value)) {
    const Dims& of_input = node->attributes.as<ops::AxesAttributes>().axes;
    for (int& axis : axes) {
      axis = static_cast<int>(of_input[axis]);
    }
    value = node->inputs[0];
  }
  return {value, axes};
}

/// where(later, hidden, x) or where(not later, x, hidden). Of all masks only this one: another may leave out a whole
/// row, whose softmax is NaN here and 0 in masked_softmax.
bool AttentionForms::is_hidden_above_diagonal(const Node& choice, std::size_t* hidden) const {
  const ValueId output = choice.output();
  ValueId folded = choice.inputs[0];
  for (const Node* view = producer(folded); view != nullptr && view->op == &op::reshape; view = producer(folded)) {
    folded = view->inputs[0];
  }
  if (constant_[folded] == kNowhere) {
    return false;
  }
  const Tensor& condition = graph_.constants[constant_[folded]].second;
  const Shape& mask = graph_.types[choice.inputs[0]].shape;
  for (*hidden = 1; *hidden < 3; ++*hidden) {
    if (number(choice.inputs[*hidden]) == -std::numeric_limits<double>::infinity() &&
        graph_.types[choice.inputs[3 - *hidden]] == graph_.types[output] &&
        holds_later(condition, mask, graph_.types[output].shape, *hidden == 1)) {
      return true;
    }
  }
  return false;
}

std::optional<AttentionForms::Weights> AttentionForms::weights_of(const Node& node) const {
  if (node.op == &op::masked_softmax) {
    return Weights{node.output(), node.inputs[0], node.inputs.size() > 1 ? std::optional(node.inputs[1]) : std::nullopt,
                   node.attributes.as<ops::SoftmaxAttributes>(), &node};
  }
  if (node.op != &op::softmax) {
    return std::nullopt;
  }
  Weights weights{node.output(), node.inputs[0], std::nullopt, {}, &node};
  const Node* chosen = producer_read(weights.scores, 1);
  if (chosen != nullptr && chosen->op == &op::where && is_hidden_above_diagonal(*chosen, &weights.hidden)) {
    weights.choice = chosen;
    weights.scores = chosen->inputs[3 - weights.hidden];
    weights.attributes.is_causal = true;
  }
  // The largest of scaled scores is the largest score, scaled, for a positive scale.
  const Node* scaled = producer_read(weights.scores, 1);
  if (scaled != nullptr && scaled->op == &op::mul) {
    for (const std::size_t factor : {0U, 1U}) {
      const std::optional<double> scale = number(scaled->inputs[factor]);
      if (scale && *scale > 0 && std::isfinite(*scale)) {
        weights.scores = scaled->inputs[1 - factor];
        weights.attributes.scale = *scale;
        weights.scaled = scaled;
        break;
      }
    }
  }
  return weights;
}

/// Dropout of all weights, each by a number of its own; `reads`: of what was drawn.
std::optional<AttentionForms::Dropped> AttentionForms::dropped(ValueId value, std::size_t reads) const {
  const Node* scaled = producer(value);
  if (scaled == nullptr || scaled->op != &op::masked_scale) {
    return std::nullopt;
  }
  const Node* drawn = producer_read(scaled->inputs[0], reads);
  // With another factor the weights that are hidden, zeros, wouldn't stay zeros.
  const double factor = scaled->attributes.as<ops::MaskedScaleAttributes>().scale;
  if (!std::isfinite(graph_.types[value].dtype == DType::float32 ? static_cast<float>(factor) : factor)) {
    return std::nullopt;
  }
  if (drawn == nullptr || drawn->op != &op::random_bernoulli ||
      graph_.types[scaled->inputs[0]].shape != graph_.types[scaled->inputs[1]].shape) {
    return std::nullopt;
  }
  return Dropped{scaled->inputs[1], scaled, drawn};
}

std::optional<AttentionForm> AttentionForms::ending_with(const Node& product) const {
  if (product.op != &op::matmul) {
    return std::nullopt;
  }
  // Without gradients everything is read once; with them, the weights by the product, its gradient and the softmax's.
  const ValueId multiplied = product.inputs[0];
  const bool has_gradient = !is_read_by_nodes_alone(multiplied, 1);
  const std::optional<Dropped> drop = dropped(multiplied, has_gradient ? 2 : 1);
  if (has_gradient && !is_read_by_nodes_alone(multiplied, drop ? 2 : 3)) {
    return std::nullopt;
  }
  const ValueId weighing = drop ? drop->weights : multiplied;
  const Node* softmax = producer_read(weighing, !has_gradient ? 1 : drop ? 2 : 3);
  const std::optional<Weights> weights = softmax != nullptr ? weights_of(*softmax) : std::nullopt;
  const Node* scores = weights ? producer_read(weights->scores, 1) : nullptr;
  if (scores == nullptr || scores->op != &op::matmul) {
    return std::nullopt;
  }
  const TensorType& type = graph_.types[product.output()];
  const int rank = type.shape.rank();
  for (const ValueId operand : {scores->inputs[0], scores->inputs[1], product.inputs[1]}) {
    const Shape& shape = graph_.types[operand].shape;
    if (shape.rank() != rank || ops::batch_of(shape) != ops::batch_of(type.shape)) {
      return std::nullopt;
    }
  }
  if (type.dtype != DType::float32 && type.dtype != DType::float64) {
    return std::nullopt;
  }
  AttentionForm form{product.output(),    scores->inputs[0], scores->inputs[1],  product.inputs[1], weights->mask,
                     weights->attributes, std::nullopt,      product.provenance, std::nullopt};
  for (const Node* node : {softmax, scores, weights->choice, weights->scaled}) {
    if (node != nullptr) {
      merge_provenance(form.provenance, node->provenance);
    }
  }
  if (drop) {
    form.drop = {drop->drawn->inputs[0], drop->drawn->attributes.as<ops::BernoulliAttributes>().p,
                 drop->scaled->attributes.as<ops::MaskedScaleAttributes>().scale};
    merge_provenance(form.provenance, drop->drawn->provenance);
    merge_provenance(form.provenance, drop->scaled->provenance);
  }
  if (has_gradient) {
    form.gradient = gradient_of(form, *weights, drop ? &*drop : nullptr, multiplied);
    if (!form.gradient) {
      return std::nullopt;
    }
  }
  return form;
}

//   %dv = matmul(permute(weights), %g)
//   %1 = matmul(%g, permute(%v))
//   %2 = softmax_backward(%1, weights)
//   %3 = where(%later, 0, %2)                   as the scores were hidden,
//   %4 = mul(%3, %scale)                        and scaled
//   %dq = matmul(%4, %k)
//   %dk = matmul(permute(%q), %4)               transposed, as k was
std::optional<AttentionForm::Gradient> AttentionForms::gradient_of(const AttentionForm& form, const Weights& weights,
                                                                   const Dropped* drop, ValueId multiplied) const {
  AttentionForm::Gradient gradient{};
  std::vector<const Node*> nodes;
  const auto only_user = [&](ValueId value) -> const Node* {
    return is_read_by_nodes_alone(value, 1) ? &graph_.nodes[users_.of(value)[0]] : nullptr;
  };
  for (const std::uint32_t user : users_.of(multiplied)) {
    const Node& node = graph_.nodes[user];
    if (node.op == &op::permute && view_of(node.output()) == view_of(multiplied).swapped()) {
      const Node* product = only_user(node.output());
      if (product != nullptr && product->op == &op::matmul && product->inputs[0] == node.output()) {
        nodes.push_back(product);
      }
    }
  }
  const bool is_masked = weights.softmax->op == &op::masked_softmax;
  const OpDef& backward = is_masked ? op::masked_softmax_backward : op::softmax_backward;
  for (const std::uint32_t user : users_.of(weights.value)) {
    const Node& node = graph_.nodes[user];
    if (node.op == &backward && node.inputs[1] == weights.value && node.inputs[0] != weights.value) {
      nodes.push_back(&node);
    }
  }
  if (nodes.size() != 2 || (is_masked && !(nodes[1]->attributes == weights.softmax->attributes))) {
    return std::nullopt;
  }
  const Node* by_v = nodes[0];
  const Node* through = nodes[1];
  gradient.v = by_v->output();
  gradient.g = by_v->inputs[1];

  // Back to the product of g and v.
  const Node* product = producer_read(through->inputs[0], 1);
  if (drop != nullptr) {
    if (product == nullptr || product->op != &op::masked_scale || product->inputs[0] != drop->scaled->inputs[0] ||
        !(product->attributes == drop->scaled->attributes)) {
      return std::nullopt;
    }
    nodes.push_back(product);
    product = producer_read(product->inputs[1], 1);
  }
  if (product == nullptr || product->op != &op::matmul || view_of(product->inputs[0]) != view_of(gradient.g) ||
      view_of(product->inputs[1]) != view_of(form.v).swapped() ||
      graph_.types[gradient.g] != graph_.types[form.result]) {
    return std::nullopt;
  }
  nodes.push_back(product);

  // On to the gradient with respect to the scores.
  const Node* last = through;
  if (weights.choice != nullptr) {
    const Node* choice = only_user(last->output());
    if (choice == nullptr || choice->op != &op::where || choice->inputs[0] != weights.choice->inputs[0] ||
        choice->inputs[3 - weights.hidden] != last->output()) {
      return std::nullopt;
    }
    const std::optional<double> zero = number(choice->inputs[weights.hidden]);
    if (!zero || *zero != 0 || std::signbit(*zero)) {
      return std::nullopt;
    }
    nodes.push_back(last = choice);
  }
  if (weights.scaled != nullptr) {
    const Node* scaled = only_user(last->output());
    if (scaled == nullptr || scaled->op != &op::mul) {
      return std::nullopt;
    }
    const std::size_t factor = scaled->inputs[0] == last->output() ? 1 : 0;
    if (number(scaled->inputs[factor]) != weights.attributes.scale) {
      return std::nullopt;
    }
    nodes.push_back(last = scaled);
  }
  const ValueId by_scores = last->output();
  if (!is_read_by_nodes_alone(by_scores, 2)) {
    return std::nullopt;
  }
  const Node* by_q = nullptr;
  const Node* by_k = nullptr;
  for (const std::uint32_t user : users_.of(by_scores)) {
    const Node& node = graph_.nodes[user];
    if (node.op == &op::matmul && node.inputs[0] == by_scores &&
        view_of(node.inputs[1]) == view_of(form.transposed_k).swapped()) {
      by_q = &node;
    } else if (node.op == &op::matmul && node.inputs[1] == by_scores &&
               view_of(node.inputs[0]) == view_of(form.q).swapped()) {
      by_k = &node;
    }
  }
  if (by_q == nullptr || by_k == nullptr) {
    return std::nullopt;
  }
  nodes.push_back(by_q);
  nodes.push_back(by_k);
  // Each of the three waits for the weights, and so for q and k.
  const std::uint32_t first =
      std::min({producers_[by_v->output()], producers_[by_q->output()], producers_[by_k->output()]});
  if (producers_[form.v] != graph::Producers::kNone && producers_[form.v] > first) {
    return std::nullopt;
  }
  gradient.first = graph_.nodes[first].output();
  gradient.q = by_q->output();
  gradient.transposed_k = by_k->output();
  gradient.whole_rows = weights.choice != nullptr;
  gradient.provenance = nodes.front()->provenance;
  for (const Node* node : nodes) {
    merge_provenance(gradient.provenance, node->provenance);
  }
  return gradient;
}

}  // namespace diptych::passes
