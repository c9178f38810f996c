// Normalisations with a weight a channel: batch_norm, with the statistics that training gathers, and group_norm.

#include <algorithm>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/kernels/dense.h"
#include "framework/kernels/normalisation.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/normalisation.h"
#include "framework/ops/normalise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

/// Chooses the means of [2, C].
Tensor mean_row() { return Tensor::from({true, false}, {2, 1}); }

/// Row 0 or 1 of [2, C].
Tensor statistics_row(const Tensor& statistics, bool means) {
  const Tensor zero = full_like(statistics, 0.0, Shape{});
  return sum(means ? where(mean_row(), statistics, zero) : where(mean_row(), zero, statistics), {0});
}

const Op kChannelStatistics{
    {.name = "channel_statistics",
     .doc = "The mean and the biased variance of each channel of x[N, C, ...], as [2, C]",
     .inputs = 1,
     .infer =
         [](const InferCall& call, TensorType& output) {
           check_domain<Domain::floating>(call, call.input(0).dtype);
           if (call.shape(0).rank() < 2) {
             call.fail_shape("the input has no channels", "give [N, C, ...]");
           }
           output = {call.input(0).dtype == DType::bfloat16 ? DType::float32 : call.input(0).dtype,
                     {2, call.shape(0)[1]}};
         },
     .kernel = kernels::through_float<[](const KernelCall& call) {
       const kernels::Dense x(call.inputs[0]);
       kernels::normalise_statistics(norm_shape<NormKind::batch>(call.inputs[0].type->shape, {0.0}),
                                     call.output.type->dtype, x.data(), call.output.data);
     }>,
     .vjp = [](const VjpCall& v) -> Gradients {
       const Tensor& x = v.input(0);
       const ChannelAttributes none{0};
       const NormRules<NormKind::batch> rules{x, none};
       const Tensor cotangent = cast(v.cotangent, x.dtype());
       const double share =
           static_cast<double>(x.shape()[1]) / static_cast<double>(std::max<std::int64_t>(x.numel(), 1));
       const Tensor by_mean = rules.spread(statistics_row(cotangent, true));
       const Tensor by_variance = rules.spread(statistics_row(cotangent, false));
       return {(by_mean + by_variance * 2.0 * (x - rules.mean_of(x))) * share};
     },
     .saves = {.inputs = 1},
     .jvp = [](const JvpCall& j) -> Tensor {
       const Tensor& x = j.input(0);
       const ChannelAttributes none{0};
       const NormRules<NormKind::batch> rules{x, none};
       const Shape row{1, x.shape()[1]};
       const Tensor mean_moved = reshape(rules.mean_of(j.tangent(0)), row);
       const Tensor variance_moved = reshape(rules.mean_of((x - rules.mean_of(x)) * j.tangent(0) * 2.0), row);
       return cast(where(mean_row(), mean_moved, variance_moved), j.output.dtype());
     },
     .flops = [](const InferCall& call,
                 const TensorType& /*output*/) { return 6 * static_cast<double>(call.shape(0).product()); },
     .samples =
         [] {
           std::vector<Sample> samples;
           for (const DType dtype : kFloats) {
             samples.push_back({{sample(dtype, {3, 4})}, {}});
             samples.push_back({{sample(dtype, {2, 3, 2, 5})}, {}});
             samples.push_back({{transposed(sample(dtype, {2, 3, 5}))}, {}});
             samples.push_back({{sample(dtype, {2, 0, 3})}, {}});
           }
           return samples;
         },
     .family = "normalisation"}};

/// [C] as it broadcasts with x[N, C, ...].
Tensor per_channel(const Tensor& t, const Tensor& x, Location where) {
  Shape shape = Shape::filled(x.rank() - 1, 1);
  shape[0] = x.shape()[1];
  return reshape(t, shape, where);
}

void check_channels(const Tensor& t, const Tensor& x, const char* op, const char* what, Location where) {
  if (t.defined() && t.shape() != Shape{x.shape()[1]}) {
    throw ShapeError(fmt::format("{}: {} {} for {}", op, what, to_string(t.type()), to_string(x.type())), where,
                     "give one element a channel");
  }
}

void move_running(const Tensor& x, const Variable& running_mean, const Variable& running_var,
                  const BatchNormOptions& options, Location where) {
  const NoGrad guard;
  const Tensor statistics = apply_op(kChannelStatistics, nullptr, where, x);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.shape()[1]);
  const auto move = [&](Variable variable, std::int64_t row, double factor) {
    if (!variable.defined()) {
      return;
    }
    const Tensor now = cast(reshape(slice(statistics, 0, row, row + 1, 1, where), {x.shape()[1]}, where),
                            variable.type().dtype, where);
    variable.assign(variable.value() * Term(1 - options.momentum, where) + now * Term(options.momentum * factor, where),
                    where);
  };
  move(running_mean, 0, 1);
  move(running_var, 1, count / (count - 1));
}

}  // namespace

namespace op {
const OpDef& channel_statistics = *kChannelStatistics;
}  // namespace op

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Variable& running_mean,
                  const Variable& running_var, const BatchNormOptions& options, Location where) {
  if (x.rank() < 2) {
    throw ShapeError(fmt::format("batch_norm: {} has no channels", to_string(x.type())), where, "give [N, C, ...]");
  }
  const bool tracked = running_mean.defined() || running_var.defined();
  if (!options.training && tracked != (running_mean.defined() && running_var.defined())) {
    throw Error("batch_norm: only one of the running statistics is there", where, "give both, or none");
  }
  for (const Variable& variable : {running_mean, running_var}) {
    check_channels(variable.defined() ? variable.value() : Tensor(), x, "batch_norm", "running statistics", where);
  }
  check_channels(weight, x, "batch_norm", "weight", where);
  check_channels(bias, x, "batch_norm", "bias", where);
  const DType common = common_type({&x, &weight, &bias});
  if (options.training || !tracked) {
    if (options.training && x.numel() == x.shape()[1] && x.numel() > 0) {
      throw ShapeError(fmt::format("batch_norm: {} has one element a channel", to_string(x.type())), where,
                       "a variance needs more: enlarge the batch, or don't train");
    }
    if (options.training && tracked && x.numel() > 0) {
      move_running(x, running_mean, running_var, options, where);
    }
    return normalise<NormKind::batch>(as_type(x, common, where), as_type(weight, common, where),
                                      as_type(bias, common, where), {options.eps}, where);
  }
  Tensor scale = reciprocal(sqrt(running_var.value() + Term(options.eps, where), where), where);
  if (weight.defined()) {
    scale = mul(scale, weight, where);
  }
  const Tensor centred = sub(x, per_channel(cast(running_mean.value(), common, where), x, where), where);
  const Tensor scaled = mul(centred, per_channel(cast(scale, common, where), x, where), where);
  return bias.defined() ? add(scaled, per_channel(cast(bias, common, where), x, where), where) : scaled;
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps,
                  Location where) {
  if (x.rank() < 2 || groups < 1 || x.shape()[1] % groups != 0) {
    throw ShapeError(fmt::format("group_norm: {} in {} groups", to_string(x.type()), groups), where,
                     "the input is [N, C, ...], and C a multiple of the groups");
  }
  check_channels(weight, x, "group_norm", "weight", where);
  check_channels(bias, x, "group_norm", "bias", where);
  const DType common = common_type({&x, &weight, &bias});
  std::int64_t length = x.shape()[1] / groups;
  for (int axis = 2; axis < x.rank(); ++axis) {
    length *= x.shape()[axis];
  }
  const Tensor rows = reshape(cast(x, common, where), {x.shape()[0], groups, length}, where);
  Tensor y = reshape(normalise<NormKind::layer>(rows, {}, {}, {1, eps}, where), x.shape(), where);
  if (weight.defined()) {
    y = mul(y, per_channel(cast(weight, common, where), x, where), where);
  }
  return bias.defined() ? add(y, per_channel(cast(bias, common, where), x, where), where) : y;
}

}  // namespace diptych
