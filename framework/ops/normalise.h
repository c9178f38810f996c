#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/apply.h"
#include "framework/kernels/dense.h"
#include "framework/kernels/normalisation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/view.h"

/// What the files that define normalisations share. Each is three ops, and a fourth for the statistics that they share:
/// y = N(x, weight, bias); its gradient by x, D(dy, x, weight) = P(dy * weight), where P(g) = rstd * (g - mean(g) - h *
/// mean(g * h)) is the Jacobian of h, which is symmetric; and that by the weight, W(dy, x) = sum(dy * h). The rules of
/// D and W are written with public ops.
namespace diptych::ops {

enum class NormKind : std::uint8_t { layer, rms, batch };

template <NormKind kind>
using NormAttributes = std::conditional_t<kind == NormKind::batch, ChannelAttributes, TrailingAttributes>;

/// The axes that are normalised over; `axes` of them at the end, or all but that of the channels.
template <NormKind kind>
Axes normalised_axes(int rank, const NormAttributes<kind>& attributes) {
  Axes result;
  if constexpr (kind == NormKind::batch) {
    (void)attributes;
    for (int axis = 0; axis < rank; ++axis) {
      if (axis != 1) {
        result.push_back(axis);
      }
    }
  } else {
    for (int axis = rank - static_cast<int>(attributes.axes); axis < rank; ++axis) {
      result.push_back(axis);
    }
  }
  return result;
}

template <NormKind kind>
Shape weight_shape(const Shape& x, const NormAttributes<kind>& attributes) {
  Shape shape;
  if constexpr (kind == NormKind::batch) {
    (void)attributes;
    shape.push_back(x[1]);
  } else {
    for (const std::int64_t axis : normalised_axes<kind>(x.rank(), attributes)) {
      shape.push_back(x[static_cast<int>(axis)]);
    }
  }
  return shape;
}

template <NormKind kind>
kernels::NormShape norm_shape(const Shape& x, const NormAttributes<kind>& attributes) {
  kernels::NormShape shape;
  shape.eps = attributes.eps;
  shape.centred = kind != NormKind::rms;
  shape.columns = 1;
  for (const std::int64_t axis : normalised_axes<kind>(x.rank(), attributes)) {
    shape.columns *= x[static_cast<int>(axis)];
  }
  if constexpr (kind == NormKind::batch) {
    shape.by_channel = true;
    shape.rows = x[1];
    shape.batch = x[0];
    shape.plane = 1;
    for (int axis = 2; axis < x.rank(); ++axis) {
      shape.plane *= x[axis];
    }
    shape.result_pitch = shape.rows * shape.plane;
  } else {
    shape.rows = 1;
    for (int axis = 0; axis < x.rank() - static_cast<int>(attributes.axes); ++axis) {
      shape.rows *= x[axis];
    }
  }
  return shape;
}

/// Of a call with a result like x, whose planes may lie apart (Rows::writes_planes).
template <NormKind kind>
kernels::NormShape norm_shape(const KernelCall& call) {
  kernels::NormShape shape =
      norm_shape<kind>(call.output.type->shape, *static_cast<const NormAttributes<kind>*>(call.attributes));
  if (kind == NormKind::batch && !call.output.contiguous) {
    shape.result_pitch = (*call.output.strides)[0];
  }
  return shape;
}

/// Rows of the last axis, if that alone is normalised over. `inputs` have them: a bit each. Or channels, which all
/// inputs have.
template <NormKind kind, std::uint32_t inputs>
Rows normalised_rows(const InferCall& call, const TensorType& output) {
  if constexpr (kind == NormKind::batch) {
    Rows rows = rows_of_channels(call.shape(0));
    // Of bf16 they are converted from another tensor.
    rows.writes_planes = output.shape == call.shape(0) && output.dtype != DType::bfloat16;
    return rows;
  } else {
    if (call.as<TrailingAttributes>().axes != 1) {
      return {};
    }
    Rows rows = rows_of_last_axis<inputs>(call, output);
    rows.together = 4;
    return rows;
  }
}

template <NormKind kind>
void check_norm(const InferCall& call, int x_input) {
  const Shape& x = call.shape(x_input);
  const auto& attributes = call.as<NormAttributes<kind>>();
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    check_domain<Domain::floating>(call, call.inputs[i]->dtype);
    if (call.inputs[i]->dtype != call.input(0).dtype) {
      call.fail_dtype("element types differ", "cast one of them");
    }
  }
  if constexpr (kind == NormKind::batch) {
    if (x.rank() < 2) {
      call.fail_shape("the input has no channels", "give [N, C, ...]");
    }
  } else if (attributes.axes < 1 || attributes.axes > x.rank()) {
    call.fail_shape(fmt::format("{} normalised axes", attributes.axes), "normalise over at least one of the last axes");
  }
  if (!std::isfinite(attributes.eps)) {
    call.fail_shape("eps is no finite number", "1e-5 is usual");
  }
}

template <NormKind kind>
void check_weight(const InferCall& call, int input, const Shape& x) {
  const Shape wanted = weight_shape<kind>(x, call.as<NormAttributes<kind>>());
  if (input < static_cast<int>(call.inputs.size()) && call.shape(input) != wanted) {
    call.fail_shape(fmt::format("input {} has not shape {}", input, to_string(wanted)),
                    kind == NormKind::batch ? "give one weight a channel" : "give one weight a normalised element");
  }
}

template <NormKind kind>
Shape statistics_shape(const Shape& x, const NormAttributes<kind>& attributes) {
  return {norm_shape<kind>(x, attributes).rows, kind == NormKind::batch ? 4 : 3};
}
/// If there is an input of that number.
template <NormKind kind>
void check_statistics(const InferCall& call, int input, const TensorType& x) {
  if (input < static_cast<int>(call.inputs.size())) {
    const Shape wanted = statistics_shape<kind>(x.shape, call.as<NormAttributes<kind>>());
    if (x.dtype == DType::bfloat16 || call.shape(input) != wanted) {
      call.fail_shape(fmt::format("input {} isn't statistics of {}", input, to_string(x)), "leave it out");
    }
  }
}

/// An optional input of a kernel.
class MaybeDense {
 public:
  MaybeDense(const KernelCall& call, int input) {
    if (call.input_count > input) {
      dense_.emplace(call.inputs[input]);
    }
  }
  const void* data() const { return dense_ ? dense_->data() : nullptr; }

 private:
  std::optional<kernels::Dense> dense_;
};

/// The ops of a kind: y, and its gradients by x and by the weight.
template <NormKind kind>
const OpDef& norm_op() {
  return kind == NormKind::layer ? op::layer_norm : kind == NormKind::rms ? op::rms_norm : op::batch_norm;
}
template <NormKind kind>
const OpDef& input_gradient_op() {
  return kind == NormKind::layer ? op::layer_norm_input_gradient
         : kind == NormKind::rms ? op::rms_norm_input_gradient
                                 : op::batch_norm_input_gradient;
}
template <NormKind kind>
const OpDef& weight_gradient_op() {
  return kind == NormKind::layer ? op::layer_norm_weight_gradient
         : kind == NormKind::rms ? op::rms_norm_weight_gradient
                                 : op::batch_norm_weight_gradient;
}
/// What a norm and its gradients share.
template <NormKind kind>
const OpDef& statistics_op() {
  return kind == NormKind::layer ? op::layer_norm_statistics
         : kind == NormKind::rms ? op::rms_norm_statistics
                                 : op::batch_norm_statistics;
}
/// The input of norm_op() that its statistics are, if it has all before it.
template <NormKind kind>
inline constexpr int kStatisticsInput = kind == NormKind::rms ? 2 : 3;
/// apply_op() for one of them; undefined tensors are left out.
template <class... Tensors>
Tensor apply_norm(const OpDef& op, const void* attributes, Location where, const Tensors&... tensors) {
  std::array<const Tensor*, sizeof...(tensors)> inputs;
  std::size_t count = 0;
  ((tensors.defined() ? void(inputs[count++] = &tensors) : void()), ...);
  return apply(op, {inputs.data(), count}, attributes, where);
}

/// The parts of the rules, for one x.
template <NormKind kind>
struct NormRules {
  const Tensor& x;
  const NormAttributes<kind>& attributes;

  Tensor mean_of(const Tensor& t) const { return mean(t, normalised_axes<kind>(x.rank(), attributes), true); }
  Tensor normalised() const { return apply_norm(norm_op<kind>(), &attributes, {}, x); }
  Tensor rstd() const {
    const Tensor centred = kind == NormKind::rms ? x : sub(x, mean_of(x));
    return reciprocal(sqrt(mean_of(square(centred)) + attributes.eps));
  }
  /// Undefined where there are none: the ops then find them for themselves. Rules of an op that takes them count its
  /// dependence on x through them as one on x.
  Tensor statistics(Location where = {}) const {
    const bool has = x.dtype() != DType::bfloat16;  // rounded to bf16 they would be others
    return has ? apply_norm(statistics_op<kind>(), &attributes, where, detached_alias(x)) : Tensor();
  }
  /// P(g * weight). Statistics come with a weight alone.
  Tensor jacobian(const Tensor& g, const Tensor& weight = {}, const Tensor& statistics = {}) const {
    return apply_norm(input_gradient_op<kind>(), &attributes, {}, g, x, weight,
                      weight.defined() ? statistics : Tensor());
  }
  Tensor weight_gradient(const Tensor& dy, const Tensor& statistics = {}) const {
    return apply_norm(weight_gradient_op<kind>(), &attributes, {}, dy, x, statistics);
  }
  /// A weight as it broadcasts with x.
  Tensor spread(const Tensor& weight) const {
    if constexpr (kind == NormKind::batch) {
      Shape shape{x.shape()[1]};
      for (int axis = 2; axis < x.rank(); ++axis) {
        shape.push_back(1);
      }
      return reshape(weight, shape);
    } else {
      return weight;
    }
  }
};

/// The transpose of NormRules::spread. `x`: the type only.
template <NormKind kind>
Tensor sum_to_weight(const Tensor& t, const NormAttributes<kind>& attributes) {
  if constexpr (kind == NormKind::batch) {
    (void)attributes;
    Tensor total = t;
    if (t.rank() > 2) {  // rows first: they are dense
      Axes inner;
      for (int axis = 2; axis < t.rank(); ++axis) {
        inner.push_back(axis);
      }
      total = sum(t, inner);
    }
    return sum(total, {0});
  } else {
    const int leading = t.rank() - static_cast<int>(attributes.axes);
    Axes axes;
    for (int axis = 0; axis < leading; ++axis) {
      axes.push_back(axis);
    }
    return leading == 0 ? t : sum(t, axes);
  }
}

inline Tensor plus(const Tensor& total, const Tensor& part) { return total.defined() ? add(total, part) : part; }

/// With a bias but no weight the op has none, and the bias is added. `statistics`: those found before, if they were.
template <NormKind kind>
Tensor normalise(const Tensor& x, const Tensor& weight, const Tensor& bias, const NormAttributes<kind>& attributes,
                 Location where, Tensor statistics = {}) {
  const OpDef& op = norm_op<kind>();
  if (!weight.defined()) {
    const Tensor h = apply_norm(op, &attributes, where, x);
    return bias.defined() ? add(h, NormRules<kind>{x, attributes}.spread(bias), where) : h;
  }
  if (bias.defined() != (kind != NormKind::rms)) {
    statistics = {};  // they are the last input
  } else if (!statistics.defined() && thread_context.grad_enabled &&
             (x.requires_grad() || weight.requires_grad())) {  // the gradients will need them again
    statistics = NormRules<kind>{x, attributes}.statistics(where);
  }
  return apply_norm(op, &attributes, where, x, weight, bias, statistics);
}

template <NormKind kind>
struct NormCase {
  Shape x;
  NormAttributes<kind> attributes;
};
template <NormKind kind>
std::vector<NormCase<kind>> norm_cases() {
  if constexpr (kind == NormKind::batch) {
    return {{{5, 3}, {1e-5}}, {{2, 3, 7}, {1e-3}}, {{2, 2, 3, 3}, {1e-5}}, {{1, 2, 17}, {1e-5}}, {{0, 3, 2}, {1e-5}}};
  } else {
    return {
        {{4, 9}, {1, 1e-5}}, {{2, 3, 5}, {2, 1e-3}}, {{2, 17}, {2, 1e-5}}, {{70, 3}, {1, 1e-5}}, {{0, 4}, {1, 1e-5}}};
  }
}

/// `before`: inputs of x's shape; `weights`: at most so many of the weight's.
template <NormKind kind>
std::vector<Sample> norm_samples(int before, int weights) {
  std::vector<Sample> samples;
  for (const DType dtype : kFloats) {
    for (const NormCase<kind>& c : norm_cases<kind>()) {
      for (int count = 0; count <= weights; ++count) {
        std::vector<SampleInput> inputs(static_cast<std::size_t>(before), sample(dtype, c.x));
        inputs.resize(inputs.size() + static_cast<std::size_t>(count),
                      sample(dtype, weight_shape<kind>(c.x, c.attributes)));
        samples.push_back(with(inputs, c.attributes));
      }
    }
    std::vector<SampleInput> views(static_cast<std::size_t>(before),
                                   transposed(sample(dtype, norm_cases<kind>()[1].x)));
    samples.push_back(with(views, norm_cases<kind>()[1].attributes));
  }
  return samples;
}

}  // namespace diptych::ops
