// Normalisations of all kinds as ops, and those over the last axes as functions: layer_norm and rms_norm. The gradients
// are ops of normalisation_gradient.cpp; channel_norm.cpp has the functions with a weight a channel.

#include "framework/ops/normalisation.h"

#include <fmt/format.h>

#include "framework/kernels/normalisation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/normalise.h"
#include "framework/ops/row_ops.h"

namespace diptych {
namespace {

using namespace ops;

template <NormKind kind>
void infer_norm(const InferCall& call, TensorType& output) {
  check_norm<kind>(call, 0);
  check_weight<kind>(call, 1, call.shape(0));
  if constexpr (kind != NormKind::rms) {
    check_weight<kind>(call, 2, call.shape(0));
  }
  check_statistics<kind>(call, kStatisticsInput<kind>, call.input(0));
  output = call.input(0);
}

template <NormKind kind>
void norm_kernel(const KernelCall& call) {
  const kernels::Dense x(call.inputs[0]);
  const MaybeDense weight(call, 1);
  const MaybeDense bias(call, kind == NormKind::rms ? kMaxInputs : 2);
  const MaybeDense statistics(call, kStatisticsInput<kind>);
  kernels::normalise(norm_shape<kind>(call), call.output.type->dtype, x.data(), weight.data(), bias.data(),
                     statistics.data(), call.output.data);
}

template <NormKind kind>
Gradients norm_vjp(const VjpCall& v) {
  const auto& a = v.as<NormAttributes<kind>>();
  const NormRules<kind> rules{v.input(0), a};
  Gradients gradients;
  Tensor statistics;
  if (v.input_count > kStatisticsInput<kind>) {
    statistics = v.input(kStatisticsInput<kind>);
  } else if (v.needs(0) && v.needs(1)) {
    statistics = rules.statistics();
  }
  if (v.needs(0)) {
    gradients[0] = rules.jacobian(v.cotangent, v.input_count > 1 ? v.input(1) : Tensor(), statistics);
  }
  if (v.needs(1)) {
    gradients[1] = rules.weight_gradient(v.cotangent, statistics);
  }
  if (kind != NormKind::rms && v.needs(2)) {
    gradients[2] = sum_to_weight<kind>(v.cotangent, a);
  }
  return gradients;
}

template <NormKind kind>
Tensor norm_jvp(const JvpCall& j) {
  const NormRules<kind> rules{j.input(0), j.as<NormAttributes<kind>>()};
  Tensor total;
  if (j.tangent(0).defined()) {
    const Tensor moved = rules.jacobian(j.tangent(0));
    total = j.input_count > 1 ? mul(moved, rules.spread(j.input(1))) : moved;
  }
  if (j.input_count > 1 && j.tangent(1).defined()) {
    total = plus(total, mul(rules.normalised(), rules.spread(j.tangent(1))));
  }
  if (kind != NormKind::rms && j.input_count > 2 && j.tangent(2).defined()) {
    total = plus(total, rules.spread(j.tangent(2)));
  }
  return total;
}

template <NormKind kind>
OpDef norm_definition(const char* name, const char* doc) {
  return row_op({.name = name,
                 .doc = doc,
                 .inputs = kind == NormKind::rms ? 3 : 4,
                 .least_inputs = 1,
                 .attributes = &attribute_type<NormAttributes<kind>>,
                 .infer = infer_norm<kind>,
                 .kernel = kernels::through_float<norm_kernel<kind>>,
                 .rows = normalised_rows<kind, 1U | 1U << kStatisticsInput<kind>>,
                 .overwrites = 1,
                 .vjp = norm_vjp<kind>,
                 .saves = {.inputs = 3U | 1U << kStatisticsInput<kind>},
                 .jvp = norm_jvp<kind>,
                 .flops = flops_per_element<10>,
                 .samples = [] { return norm_samples<kind>(1, kind == NormKind::rms ? 1 : 2); },
                 .family = "normalisation"});
}

const Op kLayerNorm(norm_definition<NormKind::layer>("layer_norm",
                                                     "(x - mean) / sqrt(variance + eps) over the last axes, "
                                                     "times a weight, plus a bias"));
const Op kRmsNorm(norm_definition<NormKind::rms>("rms_norm",
                                                 "x / sqrt(mean(x^2) + eps) over the last axes, times a weight"));
const Op kBatchNorm(norm_definition<NormKind::batch>("batch_norm", "layer_norm over all but axis 1, the channels"));

/// How many last axes of x `normalized_shape` names.
std::int64_t trailing_axes(const Tensor& x, const Shape& normalized_shape, const char* op, Location where) {
  const int first = x.rank() - normalized_shape.rank();
  bool fits = first >= 0 && !normalized_shape.empty();
  for (int axis = 0; fits && axis < normalized_shape.rank(); ++axis) {
    fits = x.shape()[first + axis] == normalized_shape[axis];
  }
  if (!fits) {
    throw ShapeError(fmt::format("{}: {} doesn't end in {}", op, to_string(x.type()), to_string(normalized_shape)),
                     where, "normalized_shape must be the lengths of the last axes");
  }
  return normalized_shape.rank();
}

}  // namespace

namespace op {
const OpDef& layer_norm = *kLayerNorm;
const OpDef& rms_norm = *kRmsNorm;
const OpDef& batch_norm = *kBatchNorm;
}  // namespace op

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias, double eps,
                  Location where) {
  const DType common = common_type({&x, &weight, &bias});
  return normalise<NormKind::layer>(cast(x, common, where), as_type(weight, common, where),
                                    as_type(bias, common, where),
                                    {trailing_axes(x, normalized_shape, "layer_norm", where), eps}, where);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, double eps, Location where) {
  const DType common = common_type({&x, &weight});
  return normalise<NormKind::rms>(cast(x, common, where), as_type(weight, common, where), {},
                                  {trailing_axes(x, normalized_shape, "rms_norm", where), eps}, where);
}

}  // namespace diptych
