#include "framework/ops/attention.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/kernels/softmax_row.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/matmul.h"
#include "framework/ops/reduction.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

/// The rows of dense scores, and where the mask's element for each score lies.
struct ScoreRows {
  std::int64_t matrices = 0;
  std::int64_t rows = 0;     ///< of one matrix
  std::int64_t columns = 0;  ///< of one row
  double scale = 1;
  bool is_causal = false;

  const void* mask = nullptr;
  int batch_rank = 0;
  std::int64_t batch[kMaxRank] = {};
  std::int64_t mask_batch[kMaxRank] = {};  ///< strides in elements; 0 where it broadcasts
  std::int64_t mask_row = 0;
  std::int64_t mask_column = 0;

  /// How many columns row `row` may attend to.
  DIPTYCH_INLINE std::int64_t attended(std::int64_t row) const {
    return is_causal && row + 1 < columns ? row + 1 : columns;
  }
  std::int64_t mask_offset(std::int64_t matrix) const {
    std::int64_t offset = 0;
    for (int axis = batch_rank - 1; axis >= 0; --axis) {
      offset += matrix % batch[axis] * mask_batch[axis];
      matrix /= batch[axis];
    }
    return offset;
  }
};

ScoreRows rows_of(const KernelCall& call) {
  const auto& a = *static_cast<const SoftmaxAttributes*>(call.attributes);
  const Shape& shape = call.output.type->shape;
  ScoreRows rows;
  rows.columns = shape.back();
  rows.rows = shape[shape.rank() - 2];
  rows.matrices = shape.contains(0) ? 0 : shape.product() / (rows.rows * rows.columns);
  rows.scale = a.scale;
  rows.is_causal = a.is_causal;
  rows.batch_rank = shape.rank() - 2;
  for (int i = 0; i < rows.batch_rank; ++i) {
    rows.batch[i] = shape[i];
  }
  return rows;
}

void add_mask(ScoreRows& rows, const Operand& mask, int rank) {
  rows.mask = mask.data;
  const Shape& shape = mask.type->shape;
  const auto stride = [&](int axis) {
    const int own = axis - (rank - shape.rank());
    return own < 0 || shape[own] == 1 ? 0 : (*mask.strides)[own];
  };
  rows.mask_column = stride(rank - 1);
  rows.mask_row = stride(rank - 2);
  for (int i = 0; i < rows.batch_rank; ++i) {
    rows.mask_batch[i] = stride(i);
  }
}

/// Mask: void (none), bool, or T.
template <class T, class Mask>
struct MaskedSoftmax {
  DIPTYCH_INLINE static T masked(T score, const Mask* mask, std::int64_t i) {
    if constexpr (std::is_void_v<Mask>) {
      return score;
    } else if constexpr (std::is_same_v<Mask, bool>) {
      return mask[i] ? score : -std::numeric_limits<T>::infinity();
    } else {
      return score + mask[i];
    }
  }

  DIPTYCH_INLINE static void scaled_and_masked(std::int64_t n, T scale, const T* in, const Mask* mask,
                                               std::int64_t mask_stride, T* out) {
    if (std::is_void_v<Mask> || mask_stride == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = masked(in[i] * scale, mask, i);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = masked(in[i] * scale, mask, i * mask_stride);
      }
    }
  }

  DIPTYCH_INLINE static void row(std::int64_t n, T scale, const T* in, const Mask* mask, std::int64_t mask_stride,
                                 T* out, std::int64_t columns) {
    if (std::is_void_v<Mask> && scale >= T(0)) {
      // Rounding is monotonic: the largest product is that of the largest score. This saves one pass.
      kernels::exponentials(n, in, scale, kernels::reduce_dense<kernels::MaxCombine>(in, n) * scale, out);
    } else {
      scaled_and_masked(n, scale, in, mask, mask_stride, out);
      kernels::exponentials(n, static_cast<const T*>(out), T(1),
                            kernels::reduce_dense<kernels::MaxCombine>(static_cast<const T*>(out), n), out);
    }
    const T rest = kernels::divide_by_sum(n, out) * T(0);  // 0, or NaN as in the rest of the row
    for (std::int64_t i = n; i < columns; ++i) {
      out[i] = rest;
    }
  }

  DIPTYCH_INLINE static void run(const ScoreRows* rows, const T* in, T* out) {
    const T scale = static_cast<T>(rows->scale);
    for (std::int64_t matrix = 0; matrix < rows->matrices; ++matrix) {
      const Mask* mask = static_cast<const Mask*>(rows->mask);
      if constexpr (!std::is_void_v<Mask>) {
        mask += rows->mask_offset(matrix);
      }
      for (std::int64_t i = 0; i < rows->rows; ++i, in += rows->columns, out += rows->columns) {
        row(rows->attended(i), scale, in, mask, rows->mask_column, out, rows->columns);
        if constexpr (!std::is_void_v<Mask>) {
          mask += rows->mask_row;
        }
      }
    }
  }
};

template <class T>
void masked_softmax_rows(const ScoreRows& rows, const KernelCall& call, const void* scores) {
  const auto* in = static_cast<const T*>(scores);
  auto* out = static_cast<T*>(call.output.data);
  if (call.input_count == 1) {
    PerIsa<MaskedSoftmax<T, void>>::active()(&rows, in, out);
  } else if (call.inputs[1].type->dtype == DType::boolean) {
    PerIsa<MaskedSoftmax<T, bool>>::active()(&rows, in, out);
  } else {
    PerIsa<MaskedSoftmax<T, T>>::active()(&rows, in, out);
  }
}

void masked_softmax_kernel(const KernelCall& call) {
  ScoreRows rows = rows_of(call);
  if (call.input_count > 1) {
    add_mask(rows, call.inputs[1], call.output.type->shape.rank());
  }
  const kernels::Dense scores(call.inputs[0]);
  if (call.output.type->dtype == DType::float32) {
    masked_softmax_rows<float>(rows, call, scores.data());
  } else {
    masked_softmax_rows<double>(rows, call, scores.data());
  }
}

/// scale p (g - sum(g p)) per row: from the gradient with respect to the result p to that with respect to the scores.
template <class T>
struct SoftmaxBackward {
  DIPTYCH_INLINE static void run(const ScoreRows* rows, const T* gradient, const T* result, T* out) {
    const T scale = static_cast<T>(rows->scale);
    const std::int64_t columns = rows->columns;
    for (std::int64_t row = 0; row < rows->matrices * rows->rows; ++row) {
      const T* g = gradient + row * columns;
      const T* p = result + row * columns;
      T* to = out + row * columns;
      const std::int64_t n = rows->attended(row % rows->rows);
      T inner;
      kernels::detail::reduce<kernels::SumCombine, T, 1>(
          n, [=](std::int64_t i, int) { return g[i] * p[i]; }, &inner);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = scale * (p[i] * (g[i] - inner));
      }
      for (std::int64_t i = n; i < columns; ++i) {
        to[i] = T(0);
      }
    }
  }
};

void softmax_backward_kernel(const KernelCall& call) {
  const ScoreRows rows = rows_of(call);
  const kernels::Dense gradient(call.inputs[0]);
  const kernels::Dense result(call.inputs[1]);
  const auto run = [&]<class T>(T* out) {
    PerIsa<SoftmaxBackward<T>>::active()(&rows, static_cast<const T*>(gradient.data()),
                                         static_cast<const T*>(result.data()), out);
  };
  if (call.output.type->dtype == DType::float32) {
    run(static_cast<float*>(call.output.data));
  } else {
    run(static_cast<double*>(call.output.data));
  }
}

void infer_scores(const InferCall& call, TensorType& output) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  if (call.shape(0).rank() < 2) {
    call.fail_shape("needs scores of two axes at least", "unsqueeze them");
  }
  output = call.input(0);
}

void infer_masked_softmax(const InferCall& call, TensorType& output) {
  infer_scores(call, output);
  if (call.inputs.size() < 2) {
    return;
  }
  if (call.input(1).dtype != DType::boolean && call.input(1).dtype != output.dtype) {
    call.fail_dtype("the mask is neither bool nor of the scores' type", "compare it with 0, or cast it");
  }
  Shape common;
  if (!broadcast(call.shape(0), call.shape(1), common) || common != output.shape) {
    call.fail_shape("the mask doesn't broadcast to the scores", "align the shapes from the right");
  }
}

Tensor softmax_backward(const Tensor& gradient, const Tensor& result, double scale, bool is_causal);

/// The part of x that causal rows may attend to; all of x without is_causal.
Tensor attended(const Tensor& x, const SoftmaxAttributes& a) { return a.is_causal ? tril(x) : x; }

/// The derivative of softmax_backward with respect to p, along `t` (forward) or against a cotangent `t` (reverse). The
/// two differ in what the inner product is taken with and in what it multiplies: g and p forward, p and g in reverse.
Tensor backward_by_result(const Tensor& t, const Tensor& g, const Tensor& p, const Tensor& beside, const Tensor& with,
                          const SoftmaxAttributes& a) {
  const Tensor inner = sum(attended(mul(g, p), a), {-1}, true);
  const Tensor along = sum(attended(mul(t, with), a), {-1}, true);
  return attended(sub(mul(t, sub(g, inner)), mul(beside, along)), a) * a.scale;
}

std::vector<Sample> backward_samples() {
  std::vector<Sample> samples;
  for (DType dtype : kFloats) {
    const auto add = [&](SampleInput g, SampleInput p, bool is_causal) {
      samples.push_back(with({std::move(g), std::move(p)}, SoftmaxAttributes{0.7, is_causal}));
    };
    add(sample(dtype, {2, 3, 5}), sample(dtype, {2, 3, 5}, 0, 1), false);
    add(sample(dtype, {2, 3, 5}), sample(dtype, {2, 3, 5}, 0, 1), true);
    add(transposed(sample(dtype, {17, 4})), sample(dtype, {17, 4}, 0, 1), true);
    add(sample(dtype, {0, 4}), sample(dtype, {0, 4}, 0, 1), false);
  }
  return samples;
}

const Op kMaskedSoftmaxBackward{
    row_op({.name = "masked_softmax_backward",
            .doc = "scale p (g - sum(g p)) along the last axis, for a gradient g and a result p of masked_softmax",
            .inputs = 2,
            .attributes = &attribute_type<SoftmaxAttributes>,
            .infer =
                [](const InferCall& call, TensorType& output) {
                  infer_scores(call, output);
                  if (call.input(1) != output) {
                    call.fail_shape("the gradient has not the result's type", "");
                  }
                },
            .kernel = kernels::through_float<softmax_backward_kernel>,
            .vjp = [](const VjpCall& v) -> Gradients {
              const auto& a = v.as<SoftmaxAttributes>();
              const Tensor& c = v.cotangent;
              Gradients gradients;
              if (v.needs(0)) {
                gradients[0] = softmax_backward(c, v.input(1), a.scale, a.is_causal);
              }
              if (v.needs(1)) {
                gradients[1] = backward_by_result(c, v.input(0), v.input(1), v.input(0), v.input(1), a);
              }
              return gradients;
            },
            .saves = {.inputs = 3},
            .jvp = [](const JvpCall& j) -> Tensor {
              const auto& a = j.as<SoftmaxAttributes>();
              const Tensor& g = j.input(0);
              const Tensor& p = j.input(1);
              Tensor tangent;
              if (j.tangent(0).defined()) {
                tangent = softmax_backward(j.tangent(0), p, a.scale, a.is_causal);
              }
              if (j.tangent(1).defined()) {
                const Tensor part = backward_by_result(j.tangent(1), g, p, p, g, a);
                tangent = tangent.defined() ? add(tangent, part) : part;
              }
              return tangent;
            },
            .flops = flops_per_element<5>,
            .samples = backward_samples,
            .family = "normalisation"})};

Tensor softmax_backward(const Tensor& gradient, const Tensor& result, double scale, bool is_causal) {
  const SoftmaxAttributes attributes{scale, is_causal};
  return apply_op(kMaskedSoftmaxBackward, &attributes, Location::current(), gradient, result);
}

std::vector<Sample> masked_softmax_samples() {
  std::vector<Sample> samples;
  for (DType dtype : kFloats) {
    const auto in = [&](const Shape& shape) { return sample(dtype, shape); };
    const auto add = [&](std::vector<SampleInput> inputs, double scale, bool is_causal) {
      samples.push_back(with(std::move(inputs), SoftmaxAttributes{scale, is_causal}));
    };
    add({in({2, 3, 5})}, 0.5, false);
    add({in({2, 5, 5})}, 0.3, true);
    add({transposed(in({4, 33}))}, -1, true);
    add({in({2, 3, 4, 5}), in({3, 1, 5})}, 0.5, false);
    add({in({2, 4, 19}), transposed(in({4, 19}))}, 0.5, true);
    add({in({2, 4, 5}), in({4, 1})}, 1, false);
    add({in({0, 4}), in({4})}, 1, false);
    add({in({1, 4}), in({})}, 1, false);
    // A bool mask that excludes all of a row gives NaN, which gradient tests can't handle: the mask is one column,
    // always the same.
    add({in({3, 9}), sample(DType::boolean, {3, 1}, 1, 2)}, 1, true);
  }
  return samples;
}

const Op kMaskedSoftmax{
    row_op({.name = "masked_softmax",
            .doc = "softmax(scale x + mask) along the last axis; a bool mask and is_causal leave elements out",
            .inputs = 2,
            .least_inputs = 1,
            .attributes = &attribute_type<SoftmaxAttributes>,
            .infer = infer_masked_softmax,
            .kernel = kernels::through_float<masked_softmax_kernel>,
            .vjp = [](const VjpCall& v) -> Gradients {
              const auto& a = v.as<SoftmaxAttributes>();
              Gradients gradients;
              if (v.needs(0)) {
                gradients[0] = softmax_backward(v.cotangent, v.output, a.scale, a.is_causal);
              }
              if (v.needs(1)) {  // the engine sums it to the mask
                gradients[1] = softmax_backward(v.cotangent, v.output, 1, a.is_causal);
              }
              return gradients;
            },
            .saves = {.output = true},
            .jvp = [](const JvpCall& j) -> Tensor {
              const auto& a = j.as<SoftmaxAttributes>();
              Tensor tangent;
              if (j.tangent(0).defined()) {
                tangent = softmax_backward(j.tangent(0), j.output, a.scale, a.is_causal);
              }
              if (j.input_count > 1 && j.tangent(1).defined() && is_floating(j.input(1).dtype())) {
                const Tensor part = softmax_backward(expand(j.tangent(1), j.output.shape()), j.output, 1, a.is_causal);
                tangent = tangent.defined() ? add(tangent, part) : part;
              }
              return tangent;
            },
            .flops = flops_per_element<21>,
            .samples = masked_softmax_samples,
            .family = "normalisation"})};

}  // namespace

namespace op {
const OpDef& masked_softmax_backward = *kMaskedSoftmaxBackward;
const OpDef& masked_softmax = *kMaskedSoftmax;
}  // namespace op

Tensor masked_softmax(const Tensor& scores, const Tensor& mask, bool is_causal, double scale, Location where) {
  const SoftmaxAttributes attributes{scale, is_causal};
  if (!mask.defined()) {
    return apply_op(kMaskedSoftmax, &attributes, where, scores);
  }
  const bool as_it_is = mask.dtype() == DType::boolean || mask.dtype() == scores.dtype();
  return apply_op(kMaskedSoftmax, &attributes, where, scores,
                  as_it_is || !is_floating(mask.dtype()) ? mask : cast(mask, scores.dtype(), where));
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                    Location where) {
  const bool matrices = q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2;
  if (!matrices || q.shape().back() != k.shape().back() || k.shape()[k.rank() - 2] != v.shape()[v.rank() - 2]) {
    throw ShapeError(fmt::format("scaled_dot_product_attention: q {}, k {} and v {} don't fit", to_string(q.type()),
                                 to_string(k.type()), to_string(v.type())),
                     where, "give q of [..., L, E], k of [..., S, E] and v of [..., S, F]");
  }
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.shape().back()));
  const Tensor scores = matmul(q, transpose(k, -2, -1, where), where);
  return matmul(masked_softmax(scores, options.mask, options.is_causal, scale, where), v, where);
}

}  // namespace diptych
