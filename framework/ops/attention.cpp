#include "framework/ops/attention.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "framework/core/parallel.h"
#include "framework/dispatch/apply.h"
#include "framework/dispatch/tape.h"
#include "framework/kernels/attention.h"
#include "framework/kernels/gemm.h"
#include "framework/kernels/wide_float.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/define.h"
#include "framework/ops/drawn.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/lengths.h"
#include "framework/ops/masked_softmax.h"
#include "framework/ops/matmul.h"
#include "framework/ops/matrices.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

bool fit(const Shape& q, const Shape& k, const Shape& v) {
  return q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2 && q.back() == k.back() && rows_of(k) == rows_of(v);
}

/// [..., L, E] and [..., S, E] -> [..., L, S]
Shape scores_shape(const Shape& q, const Shape& k) {
  Shape shape = q;
  shape[shape.rank() - 1] = rows_of(k);
  return shape;
}

/// What differs between attention and the same with dropout on its weights: the attributes, and that the state of a
/// generator stands in front of q.
template <bool drops>
using AttributesOf = std::conditional_t<drops, DropoutAttentionAttributes, SoftmaxAttributes>;
/// Of the gradient.
template <bool drops>
using BackwardAttributesOf = std::conditional_t<drops, DropoutAttentionGradientAttributes, AttentionGradientAttributes>;
template <class Attributes>
inline constexpr bool kDrops = requires(const Attributes& a) {
  a.keep;
};
template <bool drops>
inline constexpr int kFirst = drops ? 1 : 0;

template <class Attributes>
SoftmaxAttributes softmax_of(const Attributes& a) {
  return {a.scale, a.is_causal};
}
DropoutAttentionGradientAttributes backward_attributes(const DropoutAttentionAttributes& a) {
  return {a.scale, a.is_causal, a.keep, a.factor};
}
AttentionGradientAttributes backward_attributes(const SoftmaxAttributes& a) { return {a.scale, a.is_causal}; }

/// Of stacks of matrices without broadcasting, so that no gradient is summed over them. `first`: which input is q.
void check_operands(const InferCall& call, int first) {
  const Shape& q = call.shape(first);
  const Shape& k = call.shape(first + 1);
  const Shape& v = call.shape(first + 2);
  const DType dtype = call.input(first).dtype;
  if (dtype != DType::float32 && dtype != DType::float64) {
    call.fail_dtype("needs f32 or f64", "scaled_dot_product_attention() takes other types");
  }
  for (int i = first + 1; i < first + 3; ++i) {
    if (call.input(i).dtype != dtype) {
      call.fail_dtype("element types differ", "cast one of them");
    }
  }
  if (!fit(q, k, v) || batch_of(q) != batch_of(k) || batch_of(q) != batch_of(v)) {
    call.fail_shape("q, k and v don't fit", "give q of [..., L, E], k of [..., S, E] and v of [..., S, F]");
  }
  const Shape scores = scores_shape(q, k);
  if (!element_count(scores)) [[unlikely]] {
    call.fail_shape("there are too many scores", "attend to shorter sequences");
  }
  check_mask(call, static_cast<std::size_t>(first) + 3, {dtype, scores});
}

template <class Attributes>
void check_dropout(const InferCall& call, int state) {
  if constexpr (kDrops<Attributes>) {
    const auto& a = call.as<Attributes>();
    if (call.input(state) != TensorType{DType::int64, {2}}) {
      call.fail_shape("there is no state of a generator, i64[2], before q", "pass Generator::draw()");
    }
    if (!(a.keep >= 0 && a.keep <= 1)) {
      throw Error(fmt::format("{}: the probability {} is outside [0, 1]", call.op.name, a.keep), call.where, "");
    }
  }
}

template <bool drops>
void infer_attention(const InferCall& call, TensorType& output) {
  constexpr int first = kFirst<drops>;
  check_dropout<AttributesOf<drops>>(call, 0);
  check_operands(call, first);
  output = call.input(first);
  output.shape[output.shape.rank() - 1] = call.shape(first + 2).back();
  if (!element_count(output.shape)) [[unlikely]] {
    call.fail_shape("the result has too many elements", "");
  }
}

template <bool drops>
void infer_backward(const InferCall& call, TensorType& output) {
  constexpr int first = 1 + kFirst<drops>;
  check_dropout<BackwardAttributesOf<drops>>(call, 1);
  check_operands(call, first);
  const Shape& q = call.shape(first);
  Shape result = q;
  result[result.rank() - 1] = call.shape(first + 2).back();
  if (call.input(0) != TensorType{call.input(first).dtype, result}) {
    call.fail_shape("the gradient has not the result's type", "");
  }
  output.dtype = call.input(0).dtype;
  output.shape = Shape{q.product() + call.shape(first + 1).product() + call.shape(first + 2).product()};
}

/// The matrices of a stack, in row-major order of their leading axes.
template <class T>
class MatrixStack {
 public:
  explicit MatrixStack(const Operand& operand) : operand_(operand) {}

  kernels::Matrix<T> operator[](std::int64_t matrix) const {
    const Shape& shape = operand_.type->shape;
    const Strides& strides = *operand_.strides;
    const int rank = shape.rank();
    std::int64_t offset = 0;
    for (int axis = rank - 3; axis >= 0; --axis) {
      offset += matrix % shape[axis] * strides[axis];
      matrix /= shape[axis];
    }
    return {static_cast<const T*>(operand_.data) + offset, shape[rank - 2], shape[rank - 1], strides[rank - 2],
            strides[rank - 1]};
  }
  std::int64_t count() const { return batch_of(operand_.type->shape).product(); }

 private:
  const Operand& operand_;
};

/// The operands of a call with such attributes; `first`: which input is q.
template <class T, class Attributes>
class Heads {
  static constexpr bool drops = kDrops<Attributes>;

 public:
  Heads(const KernelCall& call, int first)
      : scores_(scores_of(call, first)),
        q_(call.inputs[first]),
        k_(call.inputs[first + 1]),
        v_(call.inputs[first + 2]) {
    const auto& a = *static_cast<const Attributes*>(call.attributes);
    if constexpr (drops) {
      dropout_ = {state_in(call.inputs[first - 1]), kernels::Chance::of(a.keep), a.factor};
    }
    if constexpr (requires { a.whole_rows; }) {
      scores_.whole_rows = a.whole_rows;
    }
  }

  const kernels::Scores& scores() const { return scores_; }
  const kernels::WeightDropout* dropout() const { return drops ? &dropout_ : nullptr; }
  std::int64_t count() const { return q_.count(); }
  kernels::Head<T> operator[](std::int64_t matrix) const { return {matrix, q_[matrix], k_[matrix], v_[matrix]}; }

 private:
  static kernels::Scores scores_of(const KernelCall& call, int first) {
    const SoftmaxAttributes a = softmax_of(*static_cast<const Attributes*>(call.attributes));
    const Operand* q = &call.inputs[first];
    return kernels::scores_of(scores_shape(q->type->shape, q[1].type->shape), a.scale, a.is_causal,
                              call.input_count > first + 3 ? &q[3] : nullptr);
  }

  kernels::Scores scores_;
  kernels::WeightDropout dropout_ = {};
  MatrixStack<T> q_, k_, v_;
};

/// Of one head on one thread, roughly.
template <class T, class Attributes>
double nanoseconds(const Heads<T, Attributes>& heads) {
  constexpr double kOfScore = 0.5;  // its exponential
  const kernels::Head<T> head = heads[0];
  const kernels::Scores& scores = heads.scores();
  return (kernels::nanoseconds_of_product<T>(scores.rows, scores.columns, head.q.columns + head.v.columns) +
          kOfScore * static_cast<double>(scores.rows * scores.columns)) /
         (scores.is_causal ? 2 : 1);
}

template <bool drops>
void attention_kernel(const KernelCall& call) {
  if (call.output.type->shape.contains(0)) {
    return;
  }
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    const Heads<T, AttributesOf<drops>> heads(call, kFirst<drops>);
    const std::int64_t rows = heads.scores().rows;
    // Ranges of rows, each of which packs the keys and values, only if there are too few heads for the threads.
    constexpr std::int64_t kFewestRows = 64;
    constexpr std::int64_t kTileRows = 8;
    const std::int64_t threads = thread_count();
    const double of_head = nanoseconds(heads);
    const bool is_whole = are_enough(heads.count()) || !is_worth_dividing(heads.count(), of_head);
    const std::int64_t part = (rows + threads - 1) / threads;
    const std::int64_t step = is_whole ? rows : std::max(kFewestRows, (part + kTileRows - 1) / kTileRows * kTileRows);
    const std::int64_t ranges = (rows + step - 1) / step;
    T* const out = static_cast<T*>(call.output.data);
    parallel_for(heads.count() * ranges, of_head * static_cast<double>(step) / static_cast<double>(rows),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t i = first; i < last; ++i) {
                     const kernels::Head<T> head = heads[i / ranges];
                     const std::int64_t row = i % ranges * step;
                     kernels::attention(heads.scores(), head, heads.dropout(), {row, std::min(step, rows - row)},
                                        out + (i / ranges * rows + row) * head.v.columns);
                   }
                 });
  });
}

template <bool drops>
void backward_kernel(const KernelCall& call) {
  if (call.output.type->shape.contains(0)) {
    return;
  }
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    constexpr int first_input = 1 + kFirst<drops>;
    const Heads<T, BackwardAttributesOf<drops>> heads(call, first_input);
    const MatrixStack<T> gradients(call.inputs[0]);
    T* const dq = static_cast<T*>(call.output.data);
    T* const dk = dq + call.inputs[first_input].type->shape.product();
    T* const dv = dk + call.inputs[first_input + 1].type->shape.product();
    constexpr double kLonger = 2.5;  // than the forward pass
    parallel_for(heads.count(), kLonger * nanoseconds(heads), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const kernels::Head<T> head = heads[i];
        kernels::attention_backward(heads.scores(), head, heads.dropout(), gradients[i],
                                    dq + i * head.q.rows * head.q.columns, dk + i * head.k.rows * head.k.columns,
                                    dv + i * head.v.rows * head.v.columns);
      }
    });
  });
}

/// Of `products` products of each score, and `flops` more.
double scores_flops(const InferCall& call, int first, double by_e, double by_f, double flops) {
  const Shape scores = scores_shape(call.shape(first), call.shape(first + 1));
  return static_cast<double>(scores.product()) * (by_e * static_cast<double>(call.shape(first).back()) +
                                                  by_f * static_cast<double>(call.shape(first + 2).back()) + flops);
}

/// With the gradient in front for the backward ops.
template <bool drops>
std::vector<Sample> samples(bool has_gradient) {
  std::vector<Sample> result;
  for (const DType dtype : {DType::float32, DType::float64}) {
    const auto in = [&](const Shape& shape) { return sample(dtype, shape, -1, 1); };
    const auto add = [&](std::vector<SampleInput> inputs, double scale, bool is_causal) {
      Shape shape = inputs[0].type.shape;
      shape[shape.rank() - 1] = inputs[2].type.shape.back();
      if (drops) {
        inputs.insert(inputs.begin(), state_sample());
      }
      if (has_gradient) {
        inputs.insert(inputs.begin(), in(shape));
      }
      AttributesOf<drops> attributes{scale, is_causal};
      if constexpr (drops) {
        attributes.keep = 0.75;
        attributes.factor = 1 / 0.75;
      }
      if (has_gradient) {
        auto of_gradient = backward_attributes(attributes);
        of_gradient.whole_rows = is_causal;
        result.push_back(with(std::move(inputs), of_gradient));
      } else {
        result.push_back(with(std::move(inputs), attributes));
      }
    };
    add({in({5, 4}), in({7, 4}), in({7, 3})}, 0.5, false);
    add({in({2, 6, 4}), in({2, 6, 4}), in({2, 6, 4})}, 0.7, true);
    add({in({3, 4}), in({9, 4}), in({9, 2}), in({3, 9})}, 1, false);
    add({in({2, 20, 3}), in({2, 18, 3}), in({2, 18, 17}), in({18})}, 0.5, true);
    add({transposed(in({4, 5})), transposed(in({6, 5})), transposed(in({6, 3}))}, -1, true);
    add({in({0, 4}), in({3, 4}), in({3, 2})}, 1, false);
    add({in({2, 4}), in({0, 4}), in({0, 2})}, 1, false);
    // A bool mask may exclude a row: one that excludes the same columns from all rows, not all of them.
    add({in({3, 4}), in({9, 4}), in({9, 2}), sample(DType::boolean, {3, 1}, 1, 2)}, 1, true);
  }
  return result;
}

// The derivatives, composed. p: the weights; g: the gradient with respect to the result.

/// The parts of attention_backward's result.
struct Parts {
  Tensor q, k, v;
};
Parts parts_of(const Tensor& flat, const Shape& q, const Shape& k, const Shape& v) {
  const std::int64_t to_k = q.product();
  const std::int64_t to_v = to_k + k.product();
  return {reshape(slice(flat, 0, 0, to_k), q), reshape(slice(flat, 0, to_k, to_v), k),
          reshape(slice(flat, 0, to_v, to_v + v.product()), v)};
}

Tensor added(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : add(a, b); }

/// The inputs of a call with such attributes, for the derivatives. `Call`: VjpCall or JvpCall.
template <class Attributes, class Call>
struct Inputs {
  Inputs(const Call& call, int first_input)
      : first(first_input),
        q(call.input(first)),
        k(call.input(first + 1)),
        v(call.input(first + 2)),
        mask(call.input_count > first + 3 ? call.input(first + 3) : Tensor()),
        attributes(call.template as<Attributes>()),
        softmax(softmax_of(attributes)) {
    if constexpr (drops) {
      state = call.input(first - 1);
    }
  }

  static constexpr bool drops = kDrops<Attributes>;

  Tensor weights() const { return masked_softmax(matmul(q, transpose(k)), mask, softmax.is_causal, softmax.scale); }
  /// Dropout, which is linear.
  Tensor dropped(const Tensor& x) const {
    if constexpr (drops) {
      const BernoulliAttributes draw{x.shape(), DType::boolean, attributes.keep};
      const MaskedScaleAttributes scale{attributes.factor};
      const Tensor kept = apply(op::random_bernoulli, std::array{&state}, &draw, Location::current());
      return apply(op::masked_scale, std::array{&kept, &x}, &scale, Location::current());
    } else {
      return x;
    }
  }
  /// From the gradient with respect to the weights to that with respect to the scores.
  Tensor through_softmax(const Tensor& gradient, const Tensor& p) const {
    return masked_softmax_backward(gradient, p, softmax);
  }
  Tensor through_softmax_unscaled(const Tensor& gradient, const Tensor& p) const {
    return masked_softmax_backward(gradient, p, {1, softmax.is_causal});
  }

  int first;
  const Tensor& q;
  const Tensor& k;
  const Tensor& v;
  Tensor mask;
  Tensor state;
  const Attributes& attributes;
  SoftmaxAttributes softmax;
};

template <bool drops>
const OpDef& backward_op();

template <bool drops>
Gradients attention_gradients(const VjpCall& call) {
  constexpr int first = kFirst<drops>;
  const Inputs<AttributesOf<drops>, VjpCall> i(call, first);
  Gradients gradients;
  if (call.needs(first) || call.needs(first + 1) || call.needs(first + 2)) {
    std::vector<const Tensor*> inputs{&call.cotangent};
    for (int input = 0; input < call.input_count; ++input) {
      inputs.push_back(&call.input(input));
    }
    const auto attributes = backward_attributes(i.attributes);
    const Tensor flat = apply(backward_op<drops>(), inputs, &attributes, Location::current());
    const Parts parts = parts_of(flat, i.q.shape(), i.k.shape(), i.v.shape());
    gradients[first] = parts.q;
    gradients[first + 1] = parts.k;
    gradients[first + 2] = parts.v;
  }
  if (call.needs(first + 3)) {  // the engine sums it to the mask
    gradients[first + 3] = i.through_softmax_unscaled(i.dropped(matmul(call.cotangent, transpose(i.v))), i.weights());
  }
  return gradients;
}

template <bool drops>
Tensor attention_tangent(const JvpCall& call) {
  constexpr int first = kFirst<drops>;
  const Inputs<AttributesOf<drops>, JvpCall> i(call, first);
  const Tensor p = i.weights();
  Tensor scores;
  if (call.tangent(first).defined()) {
    scores = matmul(call.tangent(first), transpose(i.k));
  }
  if (call.tangent(first + 1).defined()) {
    scores = added(scores, matmul(i.q, transpose(call.tangent(first + 1))));
  }
  Tensor weights = scores.defined() ? i.through_softmax(scores, p) : Tensor();
  if (i.mask.defined() && call.tangent(first + 3).defined() && is_floating(i.mask.dtype())) {
    weights = added(weights, i.through_softmax_unscaled(expand(call.tangent(first + 3), p.shape()), p));
  }
  const Tensor tangent = weights.defined() ? matmul(i.dropped(weights), i.v) : Tensor();
  return call.tangent(first + 2).defined() ? added(tangent, matmul(i.dropped(p), call.tangent(first + 2))) : tangent;
}

template <bool drops>
Gradients backward_gradients(const VjpCall& call) {
  constexpr int first = 1 + kFirst<drops>;
  const Inputs<BackwardAttributesOf<drops>, VjpCall> i(call, first);
  const Tensor& g = call.input(0);
  const Parts c = parts_of(call.cotangent, i.q.shape(), i.k.shape(), i.v.shape());
  const Tensor p = i.weights();
  const Tensor dp = i.dropped(matmul(g, transpose(i.v)));
  const Tensor ds = i.through_softmax(dp, p);
  // dq = ds k, dk = ds^T q, dv = dropped(p)^T g
  const Tensor by_ds = add(matmul(c.q, transpose(i.k)), matmul(i.q, transpose(c.k)));
  const Tensor by_dp = i.through_softmax(by_ds, p);
  const Tensor by_product = i.dropped(by_dp);  // of g and v^T
  const Tensor by_p =
      add(i.dropped(matmul(g, transpose(c.v))), masked_softmax_backward_by_result(by_ds, dp, p, dp, p, i.softmax));
  const Tensor by_scores = i.through_softmax(by_p, p);
  Gradients gradients;
  gradients[0] = add(matmul(by_product, i.v), matmul(i.dropped(p), c.v));
  gradients[first] = add(matmul(by_scores, i.k), matmul(ds, c.k));
  gradients[first + 1] = add(matmul(transpose(by_scores), i.q), matmul(transpose(ds), c.q));
  gradients[first + 2] = matmul(transpose(by_product), g);
  if (call.needs(first + 3)) {
    gradients[first + 3] = i.through_softmax_unscaled(by_p, p);
  }
  return gradients;
}

template <bool drops>
Tensor backward_tangent(const JvpCall& call) {
  constexpr int first = 1 + kFirst<drops>;
  const Inputs<BackwardAttributesOf<drops>, JvpCall> i(call, first);
  const Tensor& g = call.input(0);
  const Tensor tg = tangent_or_zeros(call.tangent(0), g);
  const Tensor tq = tangent_or_zeros(call.tangent(first), i.q);
  const Tensor tk = tangent_or_zeros(call.tangent(first + 1), i.k);
  const Tensor tv = tangent_or_zeros(call.tangent(first + 2), i.v);
  const Tensor p = i.weights();
  const Tensor dp = i.dropped(matmul(g, transpose(i.v)));
  const Tensor ds = i.through_softmax(dp, p);
  Tensor tp = i.through_softmax(add(matmul(tq, transpose(i.k)), matmul(i.q, transpose(tk))), p);
  if (i.mask.defined() && call.tangent(first + 3).defined() && is_floating(i.mask.dtype())) {
    tp = add(tp, i.through_softmax_unscaled(expand(call.tangent(first + 3), p.shape()), p));
  }
  const Tensor tdp = i.dropped(add(matmul(tg, transpose(i.v)), matmul(g, transpose(tv))));
  const Tensor tds = add(i.through_softmax(tdp, p), masked_softmax_backward_by_result(tp, dp, p, p, dp, i.softmax));
  const auto flat = [](const Tensor& x) { return reshape(x, {x.shape().product()}); };
  return concat(
      {flat(add(matmul(tds, i.k), matmul(ds, tk))), flat(add(matmul(transpose(tds), i.q), matmul(transpose(ds), tq))),
       flat(add(matmul(transpose(i.dropped(tp)), g), matmul(transpose(i.dropped(p)), tg)))},
      0);
}

template <bool drops>
OpDef define_backward(const char* name, const char* doc) {
  constexpr int first = 1 + kFirst<drops>;
  return contraction_op({.name = name,
                         .doc = doc,
                         .inputs = first + 4,
                         .least_inputs = first + 3,
                         .attributes = &attribute_type<BackwardAttributesOf<drops>>,
                         .infer = infer_backward<drops>,
                         .kernel = backward_kernel<drops>,
                         .vjp = backward_gradients<drops>,
                         .saves = {.inputs = (1U << (first + 4U)) - 1},
                         .jvp = backward_tangent<drops>,
                         .flops = [](const InferCall& call,
                                     const TensorType&) { return scores_flops(call, first, 6, 4, drops ? 30 : 26); },
                         .samples = [] { return samples<drops>(true); },
                         .family = "matmul"});
}

template <bool drops>
OpDef define_attention(const char* name, const char* doc) {
  constexpr int first = kFirst<drops>;
  return contraction_op({.name = name,
                         .doc = doc,
                         .inputs = first + 4,
                         .least_inputs = first + 3,
                         .attributes = &attribute_type<AttributesOf<drops>>,
                         .infer = infer_attention<drops>,
                         .kernel = attention_kernel<drops>,
                         .vjp = attention_gradients<drops>,
                         .saves = {.inputs = (1U << (first + 4U)) - 1},
                         .jvp = attention_tangent<drops>,
                         .flops = [](const InferCall& call,
                                     const TensorType&) { return scores_flops(call, first, 2, 2, drops ? 23 : 21); },
                         .samples = [] { return samples<drops>(false); },
                         .family = "matmul"});
}

const Op kAttentionBackward{define_backward<false>(
    "attention_backward",
    "The gradients of attention by q, k and v, one behind the other; inputs: that by the result, q, k, v, mask")};
const Op kDropoutAttentionBackward{define_backward<true>(
    "dropout_attention_backward",
    "attention_backward of dropout_attention; inputs: the gradient by the result, state, q, k, v, mask")};
const Op kAttention{
    define_attention<false>("attention", "softmax(scale q k^T + mask) v; the scores stay in the cache")};
const Op kDropoutAttention{define_attention<true>(
    "dropout_attention", "dropout(softmax(scale q k^T + mask)) v, by a generator's state, which stands before q")};

template <>
const OpDef& backward_op<false>() {
  return *kAttentionBackward;
}
template <>
const OpDef& backward_op<true>() {
  return *kDropoutAttentionBackward;
}

/// On a tape, the weights of matrices with so few scores are kept for the gradient, which otherwise computes them
/// again: a third of its time, where the scores fit the cache anyway.
constexpr std::int64_t kKeptScores = std::int64_t{256} * 256;

template <class... Tensors>
bool is_recorded(const Tensors&... tensors) {
  return autograd::may_want_gradients() && (... || static_cast<bool>(tensors.body()->tape));
}

}  // namespace

namespace op {
const OpDef& attention = *kAttention;
const OpDef& attention_backward = *kAttentionBackward;
const OpDef& dropout_attention = *kDropoutAttention;
const OpDef& dropout_attention_backward = *kDropoutAttentionBackward;
}  // namespace op

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                    Location where) {
  if (!fit(q.shape(), k.shape(), v.shape())) {
    throw ShapeError(fmt::format("scaled_dot_product_attention: q {}, k {} and v {} don't fit", to_string(q.type()),
                                 to_string(k.type()), to_string(v.type())),
                     where, "give q of [..., L, E], k of [..., S, E] and v of [..., S, F]");
  }
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw Error(fmt::format("scaled_dot_product_attention: the probability {} is outside [0, 1]", options.dropout),
                where, "give a dropout from 0 to 1");
  }
  const auto generator = [&]() -> const Generator& {
    return options.generator ? *options.generator : default_generator();
  };
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.shape().back()));
  const SoftmaxAttributes attributes{scale, options.is_causal};
  const auto is_plain = [&](const Tensor& x) {
    return x.dtype() == q.dtype() && (x.dtype() == DType::float32 || x.dtype() == DType::float64) &&
           batch_of(x.shape()) == batch_of(q.shape());
  };
  const Tensor& mask = options.mask;
  const std::int64_t least =
      std::min(rows_of(q.shape()), kKeptScores + 1) * std::min(rows_of(k.shape()), kKeptScores + 1);
  const bool keeps_weights = least <= kKeptScores && is_recorded(q, k, v);
  const bool fits_mask = !mask.defined() || mask.dtype() == DType::boolean || mask.dtype() == q.dtype();
  // The kernel multiplies by tiles, which must not mix with the bits of BLAS.
  if (!keeps_weights && kernels::active_gemm() == kernels::Gemm::tiles && is_plain(q) && is_plain(k) && is_plain(v) &&
      fits_mask) {
    if (options.dropout > 0) {
      const DropoutAttentionAttributes dropping{scale, options.is_causal, 1 - options.dropout,
                                                factor_of_dropout(options.dropout)};
      const Tensor state = generator().draw(where);
      return mask.defined() ? apply_op(kDropoutAttention, &dropping, where, state, q, k, v, mask)
                            : apply_op(kDropoutAttention, &dropping, where, state, q, k, v);
    }
    return mask.defined() ? apply_op(kAttention, &attributes, where, q, k, v, mask)
                          : apply_op(kAttention, &attributes, where, q, k, v);
  }
  const Tensor scores = matmul(q, transpose(k, -2, -1, where), where);
  const Tensor weights = masked_softmax(scores, mask, options.is_causal, scale, where);
  return matmul(options.dropout > 0 ? dropout(weights, options.dropout, true, generator(), where) : weights, v, where);
}

}  // namespace diptych
