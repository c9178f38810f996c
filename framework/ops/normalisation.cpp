#include "framework/ops/normalisation.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/kernels/dense.h"
#include "framework/kernels/normalisation.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"

// Each normalisation is three ops: y = N(x, weight, bias); its gradient by x, D(dy, x, weight) = P(dy * weight), where
// P(g) = rstd * (g - mean(g) - h * mean(g * h)) is the Jacobian of h, which is symmetric; and that by the weight,
// W(dy, x) = sum(dy * h). The rules of D and W are written with public ops.

namespace diptych {
namespace {

using namespace ops;

enum class Kind : std::uint8_t { layer, rms, batch };

struct TrailingAttributes {
  std::int64_t axes = 1;  ///< the last ones
  double eps = 1e-5;
  static constexpr auto fields() {
    return std::tuple(field("axes", &TrailingAttributes::axes), field("eps", &TrailingAttributes::eps));
  }
};
struct ChannelAttributes {
  double eps = 1e-5;
  static constexpr auto fields() { return std::tuple(field("eps", &ChannelAttributes::eps)); }
};
template <Kind kind>
using NormAttributes = std::conditional_t<kind == Kind::batch, ChannelAttributes, TrailingAttributes>;

/// The axes that are normalised over; `axes` of them at the end, or all but that of the channels.
template <Kind kind>
Axes normalised_axes(int rank, const NormAttributes<kind>& attributes) {
  Axes result;
  if constexpr (kind == Kind::batch) {
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

template <Kind kind>
Shape weight_shape(const Shape& x, const NormAttributes<kind>& attributes) {
  Shape shape;
  if constexpr (kind == Kind::batch) {
    (void)attributes;
    shape.push_back(x[1]);
  } else {
    for (const std::int64_t axis : normalised_axes<kind>(x.rank(), attributes)) {
      shape.push_back(x[static_cast<int>(axis)]);
    }
  }
  return shape;
}

template <Kind kind>
kernels::NormShape norm_shape(const Shape& x, const NormAttributes<kind>& attributes) {
  kernels::NormShape shape;
  shape.eps = attributes.eps;
  shape.centred = kind != Kind::rms;
  shape.columns = 1;
  for (const std::int64_t axis : normalised_axes<kind>(x.rank(), attributes)) {
    shape.columns *= x[static_cast<int>(axis)];
  }
  if constexpr (kind == Kind::batch) {
    shape.by_channel = true;
    shape.rows = x[1];
    shape.batch = x[0];
    shape.plane = 1;
    for (int axis = 2; axis < x.rank(); ++axis) {
      shape.plane *= x[axis];
    }
  } else {
    shape.rows = 1;
    for (int axis = 0; axis < x.rank() - static_cast<int>(attributes.axes); ++axis) {
      shape.rows *= x[axis];
    }
  }
  return shape;
}

template <Kind kind>
void check_norm(const InferCall& call, int x_input) {
  const Shape& x = call.shape(x_input);
  const auto& attributes = call.as<NormAttributes<kind>>();
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    check_domain<Domain::floating>(call, call.inputs[i]->dtype);
    if (call.inputs[i]->dtype != call.input(0).dtype) {
      call.fail_dtype("element types differ", "cast one of them");
    }
  }
  if constexpr (kind == Kind::batch) {
    if (x.rank() < 2) {
      call.fail_shape("the input has no channels", "give [N, C, ...]");
    }
  } else if (attributes.axes < 1 || attributes.axes > x.rank()) {
    call.fail_shape(fmt::format("{} normalised axes", attributes.axes), "normalise over at least one of the last axes");
  }
  if (!(attributes.eps >= 0) || std::isinf(attributes.eps)) {
    call.fail_shape("eps is no number from 0 on", "1e-5 is usual");
  }
}

template <Kind kind>
void check_weight(const InferCall& call, int input, const Shape& x) {
  const Shape wanted = weight_shape<kind>(x, call.as<NormAttributes<kind>>());
  if (input < static_cast<int>(call.inputs.size()) && call.shape(input) != wanted) {
    call.fail_shape(fmt::format("input {} has not shape {}", input, to_string(wanted)),
                    kind == Kind::batch ? "give one weight a channel" : "give one weight a normalised element");
  }
}

template <Kind kind>
void infer_norm(const InferCall& call, TensorType& output) {
  check_norm<kind>(call, 0);
  check_weight<kind>(call, 1, call.shape(0));
  check_weight<kind>(call, 2, call.shape(0));
  output = call.input(0);
}
template <Kind kind>
void infer_input_gradient(const InferCall& call, TensorType& output) {
  check_norm<kind>(call, 1);
  if (call.shape(0) != call.shape(1)) {
    call.fail_shape("dy and x differ in shape", "");
  }
  check_weight<kind>(call, 2, call.shape(1));
  output = call.input(1);
}
template <Kind kind>
void infer_weight_gradient(const InferCall& call, TensorType& output) {
  check_norm<kind>(call, 1);
  if (call.shape(0) != call.shape(1)) {
    call.fail_shape("dy and x differ in shape", "");
  }
  output = {call.input(1).dtype, weight_shape<kind>(call.shape(1), call.as<NormAttributes<kind>>())};
}

template <Kind kind>
void norm_kernel(const KernelCall& call) {
  const kernels::Dense x(call.inputs[0]);
  std::optional<kernels::Dense> weight;
  std::optional<kernels::Dense> bias;
  if (call.input_count > 1) {
    weight.emplace(call.inputs[1]);
  }
  if (call.input_count > 2) {
    bias.emplace(call.inputs[2]);
  }
  kernels::normalise(
      norm_shape<kind>(call.output.type->shape, *static_cast<const NormAttributes<kind>*>(call.attributes)),
      call.output.type->dtype, x.data(), weight ? weight->data() : nullptr, bias ? bias->data() : nullptr,
      call.output.data);
}
template <Kind kind>
void input_gradient_kernel(const KernelCall& call) {
  const kernels::Dense dy(call.inputs[0]);
  const kernels::Dense x(call.inputs[1]);
  std::optional<kernels::Dense> weight;
  if (call.input_count > 2) {
    weight.emplace(call.inputs[2]);
  }
  kernels::normalise_input_gradient(
      norm_shape<kind>(call.output.type->shape, *static_cast<const NormAttributes<kind>*>(call.attributes)),
      call.output.type->dtype, dy.data(), x.data(), weight ? weight->data() : nullptr, call.output.data);
}
template <Kind kind>
void weight_gradient_kernel(const KernelCall& call) {
  const kernels::Dense dy(call.inputs[0]);
  const kernels::Dense x(call.inputs[1]);
  kernels::normalise_weight_gradient(
      norm_shape<kind>(call.inputs[1].type->shape, *static_cast<const NormAttributes<kind>*>(call.attributes)),
      call.output.type->dtype, dy.data(), x.data(), call.output.data);
}

template <Kind kind>
const Op& norm_op();
template <Kind kind>
const Op& input_gradient_op();
template <Kind kind>
const Op& weight_gradient_op();

/// The parts of the rules, for one x.
template <Kind kind>
struct Rules {
  const Tensor& x;
  const NormAttributes<kind>& attributes;

  Tensor mean_of(const Tensor& t) const { return mean(t, normalised_axes<kind>(x.rank(), attributes), true); }
  Tensor normalised() const { return apply_op(norm_op<kind>(), &attributes, {}, x); }
  Tensor rstd() const {
    const Tensor centred = kind == Kind::rms ? x : sub(x, mean_of(x));
    return reciprocal(sqrt(mean_of(square(centred)) + attributes.eps));
  }
  /// P(g).
  Tensor jacobian(const Tensor& g) const { return apply_op(input_gradient_op<kind>(), &attributes, {}, g, x); }
  Tensor jacobian(const Tensor& g, const Tensor& weight) const {
    return apply_op(input_gradient_op<kind>(), &attributes, {}, g, x, weight);
  }
  Tensor weight_gradient(const Tensor& dy) const {
    return apply_op(weight_gradient_op<kind>(), &attributes, {}, dy, x);
  }
  /// A weight as it broadcasts with x.
  Tensor spread(const Tensor& weight) const {
    if constexpr (kind == Kind::batch) {
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

/// The transpose of Rules::spread. `x`: the type only.
template <Kind kind>
Tensor sum_to_weight(const Tensor& t, const NormAttributes<kind>& attributes) {
  if constexpr (kind == Kind::batch) {
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

Tensor plus(const Tensor& total, const Tensor& part) { return total.defined() ? add(total, part) : part; }

template <Kind kind>
Gradients norm_vjp(const VjpCall& v) {
  const auto& a = v.as<NormAttributes<kind>>();
  const Rules<kind> rules{v.input(0), a};
  Gradients gradients;
  if (v.needs(0)) {
    gradients[0] = v.input_count > 1 ? rules.jacobian(v.cotangent, v.input(1)) : rules.jacobian(v.cotangent);
  }
  if (v.needs(1)) {
    gradients[1] = rules.weight_gradient(v.cotangent);
  }
  if (v.needs(2)) {
    gradients[2] = sum_to_weight<kind>(v.cotangent, a);
  }
  return gradients;
}

template <Kind kind>
Tensor norm_jvp(const JvpCall& j) {
  const Rules<kind> rules{j.input(0), j.as<NormAttributes<kind>>()};
  Tensor total;
  if (j.tangent(0).defined()) {
    const Tensor moved = rules.jacobian(j.tangent(0));
    total = j.input_count > 1 ? mul(moved, rules.spread(j.input(1))) : moved;
  }
  if (j.input_count > 1 && j.tangent(1).defined()) {
    total = plus(total, mul(rules.normalised(), rules.spread(j.tangent(1))));
  }
  if (j.input_count > 2 && j.tangent(2).defined()) {
    total = plus(total, rules.spread(j.tangent(2)));
  }
  return total;
}

/// Of D(dy, x, weight) = P(g). With the cotangent c, <c, P(g)> = rstd * S, n the elements that are normalised together:
///   S / n = mean(c g) - mean(c) mean(g) - mean(c h) mean(g h)
///   d rstd / dx = -rstd^2 h / n,  dS / dh = -(c mean(g h) + g mean(c h)),  dh / dx = P
template <Kind kind>
Gradients input_gradient_vjp(const VjpCall& v) {
  const Tensor& dy = v.input(0);
  const Tensor& c = v.cotangent;
  const Rules<kind> rules{v.input(1), v.as<NormAttributes<kind>>()};
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
    if constexpr (kind != Kind::rms) {
      s = s - rules.mean_of(c) * rules.mean_of(g);
    }
    gradients[1] = -(rstd * (rstd * s * h + rules.jacobian(c * g_along + g * c_along)));
  }
  if (v.needs(2)) {
    gradients[2] = sum_to_weight<kind>(mul(dy, p), v.as<NormAttributes<kind>>());
  }
  return gradients;
}

template <Kind kind>
Tensor input_gradient_jvp(const JvpCall& j) {
  const Rules<kind> rules{j.input(1), j.as<NormAttributes<kind>>()};
  const bool weighted = j.input_count > 2;
  Tensor total;
  if (j.tangent(0).defined()) {
    total = weighted ? rules.jacobian(j.tangent(0), j.input(2)) : rules.jacobian(j.tangent(0));
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

template <Kind kind>
Gradients weight_gradient_vjp(const VjpCall& v) {
  const Rules<kind> rules{v.input(1), v.as<NormAttributes<kind>>()};
  return {v.needs(0) ? mul(rules.normalised(), rules.spread(v.cotangent)) : Tensor(),
          v.needs(1) ? rules.jacobian(v.input(0), v.cotangent) : Tensor()};
}

template <Kind kind>
Tensor weight_gradient_jvp(const JvpCall& j) {
  const Rules<kind> rules{j.input(1), j.as<NormAttributes<kind>>()};
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

template <Kind kind>
struct NormCase {
  Shape x;
  NormAttributes<kind> attributes;
};
template <Kind kind>
std::vector<NormCase<kind>> norm_cases() {
  if constexpr (kind == Kind::batch) {
    return {{{5, 3}, {1e-5}}, {{2, 3, 7}, {1e-3}}, {{2, 2, 3, 3}, {1e-5}}, {{1, 2, 17}, {1e-5}}, {{0, 3, 2}, {1e-5}}};
  } else {
    return {
        {{4, 9}, {1, 1e-5}}, {{2, 3, 5}, {2, 1e-3}}, {{2, 17}, {2, 1e-5}}, {{70, 3}, {1, 1e-5}}, {{0, 4}, {1, 1e-5}}};
  }
}

/// `before`: inputs of x's shape; `weights`: at most so many of the weight's.
template <Kind kind>
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

template <Kind kind>
OpDef norm_definition(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .inputs = kind == Kind::rms ? 2 : 3,
          .least_inputs = 1,
          .attributes = &attribute_type<NormAttributes<kind>>,
          .infer = infer_norm<kind>,
          .kernel = kernels::through_float<norm_kernel<kind>>,
          .vjp = norm_vjp<kind>,
          .saves = {.inputs = 3},
          .jvp = norm_jvp<kind>,
          .flops = flops_per_element<10>,
          .samples = [] { return norm_samples<kind>(1, kind == Kind::rms ? 1 : 2); },
          .family = "normalisation"};
}
template <Kind kind>
OpDef input_gradient_definition(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .inputs = 3,
          .least_inputs = 2,
          .attributes = &attribute_type<NormAttributes<kind>>,
          .infer = infer_input_gradient<kind>,
          .kernel = kernels::through_float<input_gradient_kernel<kind>>,
          .vjp = input_gradient_vjp<kind>,
          .saves = {.inputs = 7},
          .jvp = input_gradient_jvp<kind>,
          .flops = flops_per_element<20>,
          .samples = [] { return norm_samples<kind>(2, 1); },
          .family = "normalisation"};
}
template <Kind kind>
OpDef weight_gradient_definition(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .inputs = 2,
          .attributes = &attribute_type<NormAttributes<kind>>,
          .infer = infer_weight_gradient<kind>,
          .kernel = kernels::through_float<weight_gradient_kernel<kind>>,
          .vjp = weight_gradient_vjp<kind>,
          .saves = {.inputs = 3},
          .jvp = weight_gradient_jvp<kind>,
          .flops = [](const InferCall& call,
                      const TensorType& /*output*/) { return 12 * static_cast<double>(call.shape(1).product()); },
          .samples = [] { return norm_samples<kind>(2, 0); },
          .family = "normalisation"};
}

const Op kLayerNorm(norm_definition<Kind::layer>("layer_norm",
                                                 "(x - mean) / sqrt(variance + eps) over the last axes, "
                                                 "times a weight, plus a bias"));
const Op kLayerNormInput(input_gradient_definition<Kind::layer>("layer_norm_input_gradient",
                                                                "The gradient of layer_norm by x, from dy, x, weight"));
const Op kLayerNormWeight(weight_gradient_definition<Kind::layer>(
    "layer_norm_weight_gradient", "The gradient of layer_norm by its weight, from dy and x"));
const Op kRmsNorm(norm_definition<Kind::rms>("rms_norm",
                                             "x / sqrt(mean(x^2) + eps) over the last axes, times a weight"));
const Op kRmsNormInput(input_gradient_definition<Kind::rms>("rms_norm_input_gradient",
                                                            "The gradient of rms_norm by x, from dy, x, weight"));
const Op kRmsNormWeight(weight_gradient_definition<Kind::rms>("rms_norm_weight_gradient",
                                                              "The gradient of rms_norm by its weight, from dy and x"));
const Op kBatchNorm(norm_definition<Kind::batch>("batch_norm", "layer_norm over all but axis 1, the channels"));
const Op kBatchNormInput(input_gradient_definition<Kind::batch>("batch_norm_input_gradient",
                                                                "The gradient of batch_norm by x, from dy, x, weight"));
const Op kBatchNormWeight(weight_gradient_definition<Kind::batch>(
    "batch_norm_weight_gradient", "The gradient of batch_norm by its weight, from dy and x"));

template <Kind kind>
const Op& norm_op() {
  return kind == Kind::layer ? kLayerNorm : kind == Kind::rms ? kRmsNorm : kBatchNorm;
}
template <Kind kind>
const Op& input_gradient_op() {
  return kind == Kind::layer ? kLayerNormInput : kind == Kind::rms ? kRmsNormInput : kBatchNormInput;
}
template <Kind kind>
const Op& weight_gradient_op() {
  return kind == Kind::layer ? kLayerNormWeight : kind == Kind::rms ? kRmsNormWeight : kBatchNormWeight;
}

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
       kernels::normalise_statistics(norm_shape<Kind::batch>(call.inputs[0].type->shape, {0.0}),
                                     call.output.type->dtype, x.data(), call.output.data);
     }>,
     .vjp = [](const VjpCall& v) -> Gradients {
       const Tensor& x = v.input(0);
       const ChannelAttributes none{0};
       const Rules<Kind::batch> rules{x, none};
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
       const Rules<Kind::batch> rules{x, none};
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

/// With a bias but no weight the op has none, and the bias is added.
template <Kind kind>
Tensor normalise(const Tensor& x, const Tensor& weight, const Tensor& bias, const NormAttributes<kind>& attributes,
                 Location where) {
  const Op& op = norm_op<kind>();
  if (!weight.defined()) {
    const Tensor h = apply_op(op, &attributes, where, x);
    return bias.defined() ? add(h, Rules<kind>{x, attributes}.spread(bias), where) : h;
  }
  return bias.defined() ? apply_op(op, &attributes, where, x, weight, bias)
                        : apply_op(op, &attributes, where, x, weight);
}

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
    return normalise<Kind::batch>(as_type(x, common, where), as_type(weight, common, where),
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

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias, double eps,
                  Location where) {
  const DType common = common_type({&x, &weight, &bias});
  return normalise<Kind::layer>(cast(x, common, where), as_type(weight, common, where), as_type(bias, common, where),
                                {trailing_axes(x, normalized_shape, "layer_norm", where), eps}, where);
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
  Tensor y = reshape(normalise<Kind::layer>(rows, {}, {}, {1, eps}, where), x.shape(), where);
  if (weight.defined()) {
    y = mul(y, per_channel(cast(weight, common, where), x, where), where);
  }
  return bias.defined() ? add(y, per_channel(cast(bias, common, where), x, where), where) : y;
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, double eps, Location where) {
  const DType common = common_type({&x, &weight});
  return normalise<Kind::rms>(cast(x, common, where), as_type(weight, common, where), {},
                              {trailing_axes(x, normalized_shape, "rms_norm", where), eps}, where);
}

}  // namespace diptych
