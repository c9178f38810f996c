#include "framework/ops/attention.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "framework/core/parallel.h"
#include "framework/dispatch/tape.h"
#include "framework/kernels/attention.h"
#include "framework/kernels/gemm.h"
#include "framework/kernels/wide_float.h"
#include "framework/ops/define.h"
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

/// Of stacks of matrices without broadcasting, so that no gradient is summed over them.
void check_operands(const InferCall& call, int first) {
  const Shape& q = call.shape(first);
  const Shape& k = call.shape(first + 1);
  const Shape& v = call.shape(first + 2);
  const DType dtype = call.input(0).dtype;
  if (dtype != DType::float32 && dtype != DType::float64) {
    call.fail_dtype("needs f32 or f64", "scaled_dot_product_attention() takes other types");
  }
  for (int i = 1; i < first + 3; ++i) {
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

void infer_attention(const InferCall& call, TensorType& output) {
  check_operands(call, 0);
  output = call.input(0);
  output.shape[output.shape.rank() - 1] = call.shape(2).back();
  if (!element_count(output.shape)) [[unlikely]] {
    call.fail_shape("the result has too many elements", "");
  }
}

void infer_backward(const InferCall& call, TensorType& output) {
  check_operands(call, 1);
  const Shape& q = call.shape(1);
  Shape result = q;
  result[result.rank() - 1] = call.shape(3).back();
  if (call.shape(0) != result) {
    call.fail_shape("the gradient has not the result's shape", "");
  }
  output.dtype = call.input(0).dtype;
  output.shape = Shape{q.product() + call.shape(2).product() + call.shape(3).product()};
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

/// The operands of a call; `first`: which input is q.
template <class T>
class Heads {
 public:
  Heads(const KernelCall& call, int first)
      : scores_(scores_of(call, first)),
        q_(call.inputs[first]),
        k_(call.inputs[first + 1]),
        v_(call.inputs[first + 2]) {}

  const kernels::Scores& scores() const { return scores_; }
  std::int64_t count() const { return q_.count(); }
  kernels::Head<T> operator[](std::int64_t matrix) const { return {matrix, q_[matrix], k_[matrix], v_[matrix]}; }

 private:
  static kernels::Scores scores_of(const KernelCall& call, int first) {
    const auto& a = *static_cast<const SoftmaxAttributes*>(call.attributes);
    const Operand* q = &call.inputs[first];
    return kernels::scores_of(scores_shape(q->type->shape, q[1].type->shape), a.scale, a.is_causal,
                              call.input_count > first + 3 ? &q[3] : nullptr);
  }

  kernels::Scores scores_;
  MatrixStack<T> q_, k_, v_;
};

/// Of one head on one thread, roughly.
template <class T>
double nanoseconds(const Heads<T>& heads) {
  constexpr double kOfScore = 0.5;  // its exponential
  const kernels::Head<T> head = heads[0];
  const kernels::Scores& scores = heads.scores();
  return (kernels::nanoseconds_of_product<T>(scores.rows, scores.columns, head.q.columns + head.v.columns) +
          kOfScore * static_cast<double>(scores.rows * scores.columns)) /
         (scores.is_causal ? 2 : 1);
}

void attention_kernel(const KernelCall& call) {
  if (call.output.type->shape.contains(0)) {
    return;
  }
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    const Heads<T> heads(call, 0);
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
                     kernels::attention(heads.scores(), head, {row, std::min(step, rows - row)},
                                        out + (i / ranges * rows + row) * head.v.columns);
                   }
                 });
  });
}

void backward_kernel(const KernelCall& call) {
  if (call.output.type->shape.contains(0)) {
    return;
  }
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    const Heads<T> heads(call, 1);
    const MatrixStack<T> gradients(call.inputs[0]);
    T* const dq = static_cast<T*>(call.output.data);
    T* const dk = dq + call.inputs[1].type->shape.product();
    T* const dv = dk + call.inputs[2].type->shape.product();
    constexpr double kLonger = 2.5;  // than the forward pass
    parallel_for(heads.count(), kLonger * nanoseconds(heads), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const kernels::Head<T> head = heads[i];
        kernels::attention_backward(heads.scores(), head, gradients[i], dq + i * head.q.rows * head.q.columns,
                                    dk + i * head.k.rows * head.k.columns, dv + i * head.v.rows * head.v.columns);
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

/// With the gradient in front for attention_backward.
std::vector<Sample> samples(bool has_gradient) {
  std::vector<Sample> result;
  for (const DType dtype : {DType::float32, DType::float64}) {
    const auto in = [&](const Shape& shape) { return sample(dtype, shape, -1, 1); };
    const auto add = [&](std::vector<SampleInput> inputs, double scale, bool is_causal) {
      if (has_gradient) {
        Shape shape = inputs[0].type.shape;
        shape[shape.rank() - 1] = inputs[2].type.shape.back();
        inputs.insert(inputs.begin(), in(shape));
      }
      result.push_back(with(std::move(inputs), SoftmaxAttributes{scale, is_causal}));
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

Tensor weights_of(const Tensor& q, const Tensor& k, const Tensor& mask, const SoftmaxAttributes& a) {
  return masked_softmax(matmul(q, transpose(k)), mask, a.is_causal, a.scale);
}

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

const Op kAttentionBackward{contraction_op(
    {.name = "attention_backward",
     .doc = "The gradients of attention by q, k and v, one behind the other; inputs: that by the result, q, k, v, mask",
     .inputs = 5,
     .least_inputs = 4,
     .attributes = &attribute_type<SoftmaxAttributes>,
     .infer = infer_backward,
     .kernel = backward_kernel,
     .vjp = [](const VjpCall& i) -> Gradients {
       const auto& a = i.as<SoftmaxAttributes>();
       const Tensor& g = i.input(0);
       const Tensor& q = i.input(1);
       const Tensor& k = i.input(2);
       const Tensor& v = i.input(3);
       const Parts c = parts_of(i.cotangent, q.shape(), k.shape(), v.shape());
       const Tensor p = weights_of(q, k, i.input_count > 4 ? i.input(4) : Tensor(), a);
       const Tensor dp = matmul(g, transpose(v));
       const Tensor ds = masked_softmax_backward(dp, p, a);
       // dq = ds k, dk = ds^T q, dv = p^T g
       const Tensor by_ds = add(matmul(c.q, transpose(k)), matmul(q, transpose(c.k)));
       const Tensor by_dp = masked_softmax_backward(by_ds, p, a);
       const Tensor by_p = add(matmul(g, transpose(c.v)), masked_softmax_backward_by_result(by_ds, dp, p, dp, p, a));
       const Tensor by_scores = masked_softmax_backward(by_p, p, a);
       Gradients gradients;
       gradients[0] = add(matmul(by_dp, v), matmul(p, c.v));
       gradients[1] = add(matmul(by_scores, k), matmul(ds, c.k));
       gradients[2] = add(matmul(transpose(by_scores), q), matmul(transpose(ds), c.q));
       gradients[3] = matmul(transpose(by_dp), g);
       if (i.needs(4)) {
         gradients[4] = masked_softmax_backward(by_p, p, {1, a.is_causal});
       }
       return gradients;
     },
     .saves = {.inputs = 31},
     .jvp = [](const JvpCall& j) -> Tensor {
       const auto& a = j.as<SoftmaxAttributes>();
       const Tensor& g = j.input(0);
       const Tensor& q = j.input(1);
       const Tensor& k = j.input(2);
       const Tensor& v = j.input(3);
       const Tensor tg = tangent_or_zeros(j.tangent(0), g);
       const Tensor tq = tangent_or_zeros(j.tangent(1), q);
       const Tensor tk = tangent_or_zeros(j.tangent(2), k);
       const Tensor tv = tangent_or_zeros(j.tangent(3), v);
       const Tensor p = weights_of(q, k, j.input_count > 4 ? j.input(4) : Tensor(), a);
       const Tensor dp = matmul(g, transpose(v));
       const Tensor ds = masked_softmax_backward(dp, p, a);
       Tensor tp = masked_softmax_backward(add(matmul(tq, transpose(k)), matmul(q, transpose(tk))), p, a);
       if (j.input_count > 4 && j.tangent(4).defined() && is_floating(j.input(4).dtype())) {
         tp = add(tp, masked_softmax_backward(expand(j.tangent(4), p.shape()), p, {1, a.is_causal}));
       }
       const Tensor tdp = add(matmul(tg, transpose(v)), matmul(g, transpose(tv)));
       const Tensor tds =
           add(masked_softmax_backward(tdp, p, a), masked_softmax_backward_by_result(tp, dp, p, p, dp, a));
       const auto flat = [](const Tensor& x) { return reshape(x, {x.shape().product()}); };
       return concat(
           {flat(add(matmul(tds, k), matmul(ds, tk))), flat(add(matmul(transpose(tds), q), matmul(transpose(ds), tq))),
            flat(add(matmul(transpose(tp), g), matmul(transpose(p), tg)))},
           0);
     },
     .flops = [](const InferCall& call, const TensorType&) { return scores_flops(call, 1, 6, 4, 26); },
     .samples = [] { return samples(true); },
     .family = "matmul"})};

const Op kAttention{contraction_op(
    {.name = "attention",
     .doc = "softmax(scale q k^T + mask) v; the scores stay in the cache",
     .inputs = 4,
     .least_inputs = 3,
     .attributes = &attribute_type<SoftmaxAttributes>,
     .infer = infer_attention,
     .kernel = attention_kernel,
     .vjp = [](const VjpCall& i) -> Gradients {
       const auto& a = i.as<SoftmaxAttributes>();
       const Tensor& q = i.input(0);
       const Tensor& k = i.input(1);
       const Tensor& v = i.input(2);
       const Tensor mask = i.input_count > 3 ? i.input(3) : Tensor();
       Gradients gradients;
       if (i.needs(0) || i.needs(1) || i.needs(2)) {
         const Tensor flat = mask.defined()
                                 ? apply_op(kAttentionBackward, &a, Location::current(), i.cotangent, q, k, v, mask)
                                 : apply_op(kAttentionBackward, &a, Location::current(), i.cotangent, q, k, v);
         const Parts parts = parts_of(flat, q.shape(), k.shape(), v.shape());
         gradients[0] = parts.q;
         gradients[1] = parts.k;
         gradients[2] = parts.v;
       }
       if (i.needs(3)) {  // the engine sums it to the mask
         gradients[3] =
             masked_softmax_backward(matmul(i.cotangent, transpose(v)), weights_of(q, k, mask, a), {1, a.is_causal});
       }
       return gradients;
     },
     .saves = {.inputs = 15},
     .jvp = [](const JvpCall& j) -> Tensor {
       const auto& a = j.as<SoftmaxAttributes>();
       const Tensor& q = j.input(0);
       const Tensor& k = j.input(1);
       const Tensor& v = j.input(2);
       const Tensor p = weights_of(q, k, j.input_count > 3 ? j.input(3) : Tensor(), a);
       Tensor scores;
       if (j.tangent(0).defined()) {
         scores = matmul(j.tangent(0), transpose(k));
       }
       if (j.tangent(1).defined()) {
         scores = added(scores, matmul(q, transpose(j.tangent(1))));
       }
       Tensor weights = scores.defined() ? masked_softmax_backward(scores, p, a) : Tensor();
       if (j.input_count > 3 && j.tangent(3).defined() && is_floating(j.input(3).dtype())) {
         weights = added(weights, masked_softmax_backward(expand(j.tangent(3), p.shape()), p, {1, a.is_causal}));
       }
       Tensor tangent = weights.defined() ? matmul(weights, v) : Tensor();
       return j.tangent(2).defined() ? added(tangent, matmul(p, j.tangent(2))) : tangent;
     },
     .flops = [](const InferCall& call, const TensorType&) { return scores_flops(call, 0, 2, 2, 21); },
     .samples = [] { return samples(false); },
     .family = "matmul"})};

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
}  // namespace op

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                    Location where) {
  if (!fit(q.shape(), k.shape(), v.shape())) {
    throw ShapeError(fmt::format("scaled_dot_product_attention: q {}, k {} and v {} don't fit", to_string(q.type()),
                                 to_string(k.type()), to_string(v.type())),
                     where, "give q of [..., L, E], k of [..., S, E] and v of [..., S, F]");
  }
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
    return mask.defined() ? apply_op(kAttention, &attributes, where, q, k, v, mask)
                          : apply_op(kAttention, &attributes, where, q, k, v);
  }
  const Tensor scores = matmul(q, transpose(k, -2, -1, where), where);
  return matmul(masked_softmax(scores, mask, options.is_causal, scale, where), v, where);
}

}  // namespace diptych
