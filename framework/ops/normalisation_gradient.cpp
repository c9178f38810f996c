// The gradients of normalisations as ops, by x and by the weight, with rules of their own: they have gradients too.
// Both take the statistics of the rows, or of the channels, as their last input, if those have been found before: the
// same bits in less time.

#include "framework/kernels/dense.h"
#include "framework/kernels/normalisation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/normalise.h"
#include "framework/ops/row_ops.h"

namespace diptych {
namespace {

using namespace ops;

template <NormKind kind>
void infer_statistics(const InferCall& call, TensorType& output) {
  check_norm<kind>(call, 0);
  if (call.input(0).dtype == DType::bfloat16) {
    call.fail_dtype("statistics need more than a bf16's digits", "cast x to f32");
  }
  output = {call.input(0).dtype, statistics_shape<kind>(call.shape(0), call.as<NormAttributes<kind>>())};
}
template <NormKind kind>
void infer_input_gradient(const InferCall& call, TensorType& output) {
  check_norm<kind>(call, 1);
  if (call.shape(0) != call.shape(1)) {
    call.fail_shape("dy and x differ in shape", "");
  }
  check_weight<kind>(call, 2, call.shape(1));
  check_statistics<kind>(call, 3, call.input(1));
  output = call.input(1);
}
template <NormKind kind>
void infer_weight_gradient(const InferCall& call, TensorType& output) {
  check_norm<kind>(call, 1);
  if (call.shape(0) != call.shape(1)) {
    call.fail_shape("dy and x differ in shape", "");
  }
  check_statistics<kind>(call, 2, call.input(1));
  output = {call.input(1).dtype, weight_shape<kind>(call.shape(1), call.as<NormAttributes<kind>>())};
}

template <NormKind kind>
void statistics_kernel(const KernelCall& call) {
  const kernels::Dense x(call.inputs[0]);
  const auto find = kind == NormKind::batch ? kernels::normalise_channel_statistics : kernels::normalise_row_statistics;
  find(norm_shape<kind>(call.inputs[0].type->shape, *static_cast<const NormAttributes<kind>*>(call.attributes)),
       call.output.type->dtype, x.data(), call.output.data);
}
template <NormKind kind>
void input_gradient_kernel(const KernelCall& call) {
  const kernels::Dense dy(call.inputs[0]);
  const kernels::Dense x(call.inputs[1]);
  const MaybeDense weight(call, 2);
  const MaybeDense statistics(call, 3);
  kernels::normalise_input_gradient(norm_shape<kind>(call), call.output.type->dtype, dy.data(), x.data(), weight.data(),
                                    statistics.data(), call.output.data);
}
template <NormKind kind>
void weight_gradient_kernel(const KernelCall& call) {
  const kernels::Dense dy(call.inputs[0]);
  const kernels::Dense x(call.inputs[1]);
  const MaybeDense statistics(call, 2);
  kernels::normalise_weight_gradient(
      norm_shape<kind>(call.inputs[1].type->shape, *static_cast<const NormAttributes<kind>*>(call.attributes)),
      call.output.type->dtype, dy.data(), x.data(), statistics.data(), call.output.data);
}

/// Of D(dy, x, weight) = P(g). With the cotangent c, <c, P(g)> = rstd * S, n the elements that are normalised together:
///   S / n = mean(c g) - mean(c) mean(g) - mean(c h) mean(g h)
///   d rstd / dx = -rstd^2 h / n,  dS / dh = -(c mean(g h) + g mean(c h)),  dh / dx = P
template <NormKind kind>
Gradients input_gradient_vjp(const VjpCall& v) {
  const Tensor& dy = v.input(0);
  const Tensor& c = v.cotangent;
  const NormRules<kind> rules{v.input(1), v.as<NormAttributes<kind>>()};
  const bool weighted = v.input_count > 2;
  const Tensor p = rules.jacobian(c);
  Gradients gradients;
  if (v.needs(0)) {
    gradients[0] = weighted ? mul(p, rules.spread(v.input(2))) : p;
  }
  if (v.needs(1)) {
    const Tensor g = weighted ? mul(dy, rules.spread(v.input(2))) : dy;
    const Tensor h = rules.normalised();
    const Tensor rstd = rules.rstd();
    const Tensor c_along = rules.mean_of(c * h);
    const Tensor g_along = rules.mean_of(g * h);
    Tensor s = rules.mean_of(c * g) - c_along * g_along;
    if constexpr (kind != NormKind::rms) {
      s = s - rules.mean_of(c) * rules.mean_of(g);
    }
    gradients[1] = -(rstd * (rstd * s * h + rules.jacobian(c * g_along + g * c_along)));
  }
  if (v.needs(2)) {
    gradients[2] = sum_to_weight<kind>(mul(dy, p), v.as<NormAttributes<kind>>());
  }
  return gradients;
}

template <NormKind kind>
Tensor input_gradient_jvp(const JvpCall& j) {
  const NormRules<kind> rules{j.input(1), j.as<NormAttributes<kind>>()};
  const bool weighted = j.input_count > 2;
  Tensor total;
  if (j.tangent(0).defined()) {
    total = rules.jacobian(j.tangent(0), weighted ? j.input(2) : Tensor());
  }
  if (weighted && j.tangent(2).defined()) {
    total = plus(total, rules.jacobian(j.input(0), j.tangent(2)));
  }
  if (j.tangent(1).defined()) {
    const Tensor g = weighted ? mul(j.input(0), rules.spread(j.input(2))) : j.input(0);
    const Tensor h = rules.normalised();
    const Tensor moved = rules.jacobian(j.tangent(1));
    const Tensor part =
        rules.mean_of(h * j.tangent(1)) * j.output + moved * rules.mean_of(g * h) + h * rules.mean_of(g * moved);
    total = plus(total, -(rules.rstd() * part));
  }
  return total;
}

template <NormKind kind>
Gradients weight_gradient_vjp(const VjpCall& v) {
  const NormRules<kind> rules{v.input(1), v.as<NormAttributes<kind>>()};
  return {v.needs(0) ? mul(rules.normalised(), rules.spread(v.cotangent)) : Tensor(),
          v.needs(1) ? rules.jacobian(v.input(0), v.cotangent) : Tensor()};
}

template <NormKind kind>
Tensor weight_gradient_jvp(const JvpCall& j) {
  const NormRules<kind> rules{j.input(1), j.as<NormAttributes<kind>>()};
  Tensor total;
  if (j.tangent(0).defined()) {
    total = rules.weight_gradient(j.tangent(0));
  }
  if (j.tangent(1).defined()) {
    total =
        plus(total, sum_to_weight<kind>(mul(j.input(0), rules.jacobian(j.tangent(1))), j.as<NormAttributes<kind>>()));
  }
  return total;
}

template <NormKind kind>
OpDef statistics_definition(const char* name, const char* doc) {
  return row_op({.name = name,
                 .doc = doc,
                 .inputs = 1,
                 .attributes = &attribute_type<NormAttributes<kind>>,
                 .infer = infer_statistics<kind>,
                 .kernel = statistics_kernel<kind>,
                 .rows = normalised_rows<kind, 1>,
                 // Who reads them counts them as a part of x (NormRules::statistics).
                 .jvp = [](const JvpCall&) { return Tensor(); },
                 .flops = [](const InferCall& call,
                             const TensorType& /*output*/) { return 8 * static_cast<double>(call.shape(0).product()); },
                 .samples =
                     [] {
                       std::vector<Sample> samples = norm_samples<kind>(1, 0);
                       std::erase_if(samples,
                                     [](const Sample& each) { return each.inputs[0].type.dtype == DType::bfloat16; });
                       return samples;
                     },
                 .family = "normalisation"});
}
template <NormKind kind>
OpDef input_gradient_definition(const char* name, const char* doc) {
  return row_op({.name = name,
                 .doc = doc,
                 .inputs = 4,
                 .least_inputs = 2,
                 .attributes = &attribute_type<NormAttributes<kind>>,
                 .infer = infer_input_gradient<kind>,
                 .kernel = kernels::through_float<input_gradient_kernel<kind>>,
                 .rows = normalised_rows<kind, 0b1011>,
                 .overwrites = 3,
                 .vjp = input_gradient_vjp<kind>,
                 .saves = {.inputs = 7},
                 .jvp = input_gradient_jvp<kind>,
                 .flops = flops_per_element<20>,
                 .samples = [] { return norm_samples<kind>(2, 1); },
                 .family = "normalisation"});
}
template <NormKind kind>
OpDef weight_gradient_definition(const char* name, const char* doc) {
  return row_op(
      {.name = name,
       .doc = doc,
       .inputs = 3,
       .least_inputs = 2,
       .attributes = &attribute_type<NormAttributes<kind>>,
       .infer = infer_weight_gradient<kind>,
       .kernel = kernels::through_float<weight_gradient_kernel<kind>>,
       .rows = kind == NormKind::batch ? normalised_rows<kind, 0b111> : nullptr,
       .vjp = weight_gradient_vjp<kind>,
       .saves = {.inputs = 3},
       .jvp = weight_gradient_jvp<kind>,
       .flops = [](const InferCall& call,
                   const TensorType& /*output*/) { return 12 * static_cast<double>(call.shape(1).product()); },
       .samples = [] { return norm_samples<kind>(2, 0); },
       .family = "normalisation"});
}

const Op kLayerNormStatistics(statistics_definition<NormKind::layer>(
    "layer_norm_statistics", "What both gradients of layer_norm need of each row: mean, its rounding error, 1 / std"));
const Op kRmsNormStatistics(statistics_definition<NormKind::rms>(
    "rms_norm_statistics", "What both gradients of rms_norm need of each row, as layer_norm_statistics"));
const Op kBatchNormStatistics(statistics_definition<NormKind::batch>(
    "batch_norm_statistics",
    "What batch_norm and its gradients need of each channel, as layer_norm_statistics, and its biased variance"));
const Op kLayerNormInput(input_gradient_definition<NormKind::layer>(
    "layer_norm_input_gradient", "The gradient of layer_norm by x, from dy, x, weight"));
const Op kLayerNormWeight(weight_gradient_definition<NormKind::layer>(
    "layer_norm_weight_gradient", "The gradient of layer_norm by its weight, from dy and x"));
const Op kRmsNormInput(input_gradient_definition<NormKind::rms>("rms_norm_input_gradient",
                                                                "The gradient of rms_norm by x, from dy, x, weight"));
const Op kRmsNormWeight(weight_gradient_definition<NormKind::rms>(
    "rms_norm_weight_gradient", "The gradient of rms_norm by its weight, from dy and x"));
const Op kBatchNormInput(input_gradient_definition<NormKind::batch>(
    "batch_norm_input_gradient", "The gradient of batch_norm by x, from dy, x, weight"));
const Op kBatchNormWeight(weight_gradient_definition<NormKind::batch>(
    "batch_norm_weight_gradient", "The gradient of batch_norm by its weight, from dy and x"));

}  // namespace

namespace op {
const OpDef& layer_norm_statistics = *kLayerNormStatistics;
const OpDef& rms_norm_statistics = *kRmsNormStatistics;
const OpDef& batch_norm_statistics = *kBatchNormStatistics;
const OpDef& layer_norm_input_gradient = *kLayerNormInput;
const OpDef& layer_norm_weight_gradient = *kLayerNormWeight;
const OpDef& rms_norm_input_gradient = *kRmsNormInput;
const OpDef& rms_norm_weight_gradient = *kRmsNormWeight;
const OpDef& batch_norm_input_gradient = *kBatchNormInput;
const OpDef& batch_norm_weight_gradient = *kBatchNormWeight;
}  // namespace op

}  // namespace diptych
