// Normalisations with a weight a channel: batch_norm, with the statistics that training gathers, and group_norm.

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/normalisation.h"
#include "framework/ops/normalise.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

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

/// Returns the statistics of x, by which the running ones are moved; undefined if x is of bf16.
Tensor move_running(const Tensor& x, const ChannelAttributes& attributes, const Variable& running_mean,
                    const Variable& running_var, const BatchNormOptions& options, Location where) {
  const NoGrad guard;
  const bool is_narrow = x.dtype() == DType::bfloat16;
  const Tensor wide = is_narrow ? cast(x, DType::float32, where) : x;
  const Tensor statistics = NormRules<NormKind::batch>{wide, attributes}.statistics(where);
  const auto column = [&](std::int64_t i) {
    return reshape(slice(statistics, 1, i, i + 1, 1, where), {x.shape()[1]}, where);
  };
  const auto move = [&](Variable variable, const Tensor& now, double factor) {
    const Tensor kept = variable.value() * Term(1 - options.momentum, where);
    const Tensor added = cast(now, variable.type().dtype, where) * Term(options.momentum * factor, where);
    variable.assign(add(kept, added, where), where);
  };
  if (running_mean.defined()) {
    move(running_mean, add(column(0), column(1), where), 1);  // with its rounding error
  }
  if (running_var.defined()) {
    const double count = static_cast<double>(x.numel()) / static_cast<double>(x.shape()[1]);
    move(running_var, column(3), count / (count - 1));
  }
  return is_narrow ? Tensor() : statistics;
}

}  // namespace

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
    const ChannelAttributes attributes{options.eps};
    const Tensor in = as_type(x, common, where);
    Tensor statistics;
    if (options.training && tracked && x.numel() > 0) {
      statistics = move_running(in, attributes, running_mean, running_var, options, where);
    }
    return normalise<NormKind::batch>(in, as_type(weight, common, where), as_type(bias, common, where), attributes,
                                      where, statistics);
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
