#include "framework/ops/masked_softmax.h"

#include <algorithm>

#include "framework/core/parallel.h"
#include "framework/kernels/dense.h"
#include "framework/kernels/masked_softmax.h"
#include "framework/kernels/wide_float.h"
#include "framework/ops/attention.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;
using kernels::Scores;

Scores scores_of(const KernelCall& call, const Operand* mask) {
  const auto& a = *static_cast<const SoftmaxAttributes*>(call.attributes);
  return kernels::scores_of(call.output.type->shape, a.scale, a.is_causal, mask);
}

/// Calls run(rows of a matrix as a part, offset of its elements) for all rows of dense scores.
template <class Run>
void for_each_part(const Scores& scores, const Run& run) {
  constexpr double kNanosecondsOfScore = 0.5;
  const double of_row = kNanosecondsOfScore * static_cast<double>(scores.columns);
  parallel_for(scores.matrices * scores.rows, of_row, [&](std::int64_t first, std::int64_t last) {
    while (first < last) {
      const std::int64_t matrix = first / scores.rows;
      const std::int64_t row = first % scores.rows;
      const std::int64_t rows = std::min(scores.rows - row, last - first);
      run(kernels::ScorePart{matrix, row, rows, scores.columns, scores.columns}, first * scores.columns);
      first += rows;
    }
  });
}

void masked_softmax_kernel(const KernelCall& call) {
  const Scores scores = scores_of(call, call.input_count > 1 ? &call.inputs[1] : nullptr);
  const kernels::Dense in(call.inputs[0]);
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    for_each_part(scores, [&](const kernels::ScorePart& part, std::int64_t at) {
      kernels::masked_softmax(scores, part, static_cast<const T*>(in.data()) + at,
                              static_cast<T*>(call.output.data) + at);
    });
  });
}

void softmax_backward_kernel(const KernelCall& call) {
  const Scores scores = scores_of(call, nullptr);
  const kernels::Dense gradient(call.inputs[0]);
  const kernels::Dense result(call.inputs[1]);
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    for_each_part(scores, [&](const kernels::ScorePart& part, std::int64_t at) {
      kernels::masked_softmax_backward(scores, part, static_cast<const T*>(gradient.data()) + at,
                                       static_cast<const T*>(result.data()) + at,
                                       static_cast<T*>(call.output.data) + at);
    });
  });
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
  check_mask(call, 1, output);
}

/// The part of x that causal rows may attend to; all of x without is_causal.
Tensor attended(const Tensor& x, const SoftmaxAttributes& a) { return a.is_causal ? tril(x) : x; }

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
            .overwrites = 3,
            .vjp = [](const VjpCall& v) -> Gradients {
              const auto& a = v.as<SoftmaxAttributes>();
              const Tensor& c = v.cotangent;
              Gradients gradients;
              if (v.needs(0)) {
                gradients[0] = masked_softmax_backward(c, v.input(1), a);
              }
              if (v.needs(1)) {
                gradients[1] = masked_softmax_backward_by_result(c, v.input(0), v.input(1), v.input(0), v.input(1), a);
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
                tangent = masked_softmax_backward(j.tangent(0), p, a);
              }
              if (j.tangent(1).defined()) {
                const Tensor part = masked_softmax_backward_by_result(j.tangent(1), g, p, p, g, a);
                tangent = tangent.defined() ? add(tangent, part) : part;
              }
              return tangent;
            },
            .flops = flops_per_element<5>,
            .samples = backward_samples,
            .family = "normalisation"})};

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
    // As finite differences would have it: a mask of one column, always the same.
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
            .overwrites = 1,
            .vjp = [](const VjpCall& v) -> Gradients {
              const auto& a = v.as<SoftmaxAttributes>();
              Gradients gradients;
              if (v.needs(0)) {
                gradients[0] = masked_softmax_backward(v.cotangent, v.output, a);
              }
              if (v.needs(1)) {  // the engine sums it to the mask
                gradients[1] = masked_softmax_backward(v.cotangent, v.output, {1, a.is_causal});
              }
              return gradients;
            },
            .saves = {.output = true},
            .jvp = [](const JvpCall& j) -> Tensor {
              const auto& a = j.as<SoftmaxAttributes>();
              Tensor tangent;
              if (j.tangent(0).defined()) {
                tangent = masked_softmax_backward(j.tangent(0), j.output, a);
              }
              if (j.input_count > 1 && j.tangent(1).defined() && is_floating(j.input(1).dtype())) {
                const Tensor part =
                    masked_softmax_backward(expand(j.tangent(1), j.output.shape()), j.output, {1, a.is_causal});
                tangent = tangent.defined() ? add(tangent, part) : part;
              }
              return tangent;
            },
            .flops = flops_per_element<21>,
            .samples = masked_softmax_samples,
            .family = "normalisation"})};

}  // namespace

namespace ops {

void check_mask(const InferCall& call, std::size_t mask, const TensorType& scores) {
  if (call.inputs.size() <= mask) {
    return;
  }
  const TensorType& type = *call.inputs[mask];
  if (type.dtype != DType::boolean && type.dtype != scores.dtype) {
    call.fail_dtype("the mask is neither bool nor of the scores' type", "compare it with 0, or cast it");
  }
  Shape common;
  if (!broadcast(scores.shape, type.shape, common) || common != scores.shape) {
    call.fail_shape("the mask doesn't broadcast to the scores", "align the shapes from the right");
  }
}

Tensor masked_softmax_backward(const Tensor& gradient, const Tensor& result, const SoftmaxAttributes& attributes) {
  return apply_op(kMaskedSoftmaxBackward, &attributes, Location::current(), gradient, result);
}

Tensor masked_softmax_backward_by_result(const Tensor& t, const Tensor& g, const Tensor& p, const Tensor& beside,
                                         const Tensor& with, const SoftmaxAttributes& a) {
  const Tensor inner = sum(attended(mul(g, p), a), {-1}, true);
  const Tensor along = sum(attended(mul(t, with), a), {-1}, true);
  return attended(sub(mul(t, sub(g, inner)), mul(beside, along)), a) * a.scale;
}

}  // namespace ops

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

}  // namespace diptych
