// var, std and norm: reductions that make more than one pass over their elements.

#include <cmath>

#include <fmt/format.h>

#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduce.h"
#include "framework/ops/reduction.h"
#include "framework/ops/reduction_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

void infer_variance(const InferCall& call, TensorType& output) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  const double correction = call.as<VarianceAttributes>().correction;
  if (!(correction >= 0) || std::isinf(correction)) {
    call.fail_shape(fmt::format("the correction {} is no number from 0 on", correction),
                    "0 divides by the number of elements, 1 by one less");
  }
  output.dtype = call.input(0).dtype;
  output.shape = reduced_shape<VarianceAttributes>(call);
}

/// The divisor of the sum of squared deviations; 0 if there are too few elements.
double degrees_of_freedom(std::int64_t elements, double correction) {
  const double degrees = static_cast<double>(elements) - correction;
  return degrees > 0 ? degrees : 0;
}

/// Computes the mean first, then the squared deviations from it, in double. The mean of doubles is itself rounded,
/// which the sum of their deviations corrects [Chan, Golub & LeVeque 1983, the corrected two-pass algorithm].
template <bool root>
struct Variance {
  template <class Elements, class T>
  DIPTYCH_INLINE static void run(const Elements& elements, const void* attributes, T* out) {
    using kernels::SumCombine;
    const double count = static_cast<double>(elements.n);
    const double left = count - static_cast<const VarianceAttributes*>(attributes)->correction;
    const double degrees = left > 0 ? left : 0;
    double means[Elements::kWidth];
    double sums[Elements::kWidth];
    double rounding[Elements::kWidth] = {};
    elements.template pass<SumCombine, double>([](T x, int) { return static_cast<double>(x); }, means);
    for (int w = 0; w < elements.width(); ++w) {
      means[w] = means[w] / count;
    }
    if constexpr (std::is_same_v<T, double>) {
      elements.template pass<SumCombine, double>([&](T x, int w) { return x - means[w]; }, rounding);
    }
    elements.template pass<SumCombine, double>(
        [&](T x, int w) {
          const double deviation = static_cast<double>(x) - means[w];
          return deviation * deviation;
        },
        sums);
    for (int w = 0; w < elements.width(); ++w) {
      const double variance = (sums[w] - rounding[w] * rounding[w] / count) / degrees;
      out[w] = static_cast<T>(root ? math::sqrt(variance) : variance);
    }
  }
};

Tensor mean_over(const Tensor& x, const Axes& axes) { return axes.empty() ? x : mean(x, axes, true); }

/// d var / dx = 2 (x - mean) / degrees
Tensor variance_slope(const Tensor& x, const VarianceAttributes& attributes) {
  std::int64_t elements = 1;
  for (std::int64_t axis : attributes.axes) {
    elements *= x.shape()[static_cast<int>(axis)];
  }
  const Tensor deviation = sub(x, mean_over(x, attributes.axes));
  return mul(deviation, full_like(x, 2 / degrees_of_freedom(elements, attributes.correction), Shape{}));
}

/// 1 / (2 std), and 0 where std is 0
Tensor root_slope(const Tensor& deviation) {
  const Tensor zero = full_like(deviation, 0.0, Shape{});
  const Tensor flat = equal(deviation, zero);
  const Tensor safe = where(flat, full_like(deviation, 1.0, Shape{}), deviation);
  return where(flat, zero, div(full_like(deviation, 0.5, Shape{}), safe));
}

std::vector<Sample> variance_samples() {
  std::vector<Sample> samples = reduction_samples(kFloats, VarianceAttributes{});
  samples.push_back(with({sample(DType::float64, {3, 40}, 999, 1001)}, VarianceAttributes{{1}, false, 0}));
  samples.push_back(with({sample(DType::float32, {4500, 300})}, VarianceAttributes{{0}, true, 1.5}));
  samples.push_back(with({sample(DType::float64, {3, 0})}, VarianceAttributes{{0}, false, 1}));
  return samples;
}

const Op kVar{reduction_op(
    {.name = "var",
     .doc = "The variance over axes",
     .inputs = 1,
     .attributes = &attribute_type<VarianceAttributes>,
     .infer = infer_variance,
     .kernel = kernels::through_float<floating_kernel<Variance<false>, VarianceAttributes>>,
     .rows = reduced_rows<VarianceAttributes>,
     .vjp = [](const VjpCall& v) -> Gradients {
       return {mul(variance_slope(v.input(0), v.as<VarianceAttributes>()),
                   with_kept_axes<VarianceAttributes>(v.cotangent, v))};
     },
     .saves = {.inputs = 1},
     .jvp = [](const JvpCall& v) -> Tensor {
       const auto& attributes = v.as<VarianceAttributes>();
       return sum_over(mul(variance_slope(v.input(0), attributes), v.tangent(0)), attributes.axes, attributes.keepdims);
     },
     .flops = [](const InferCall& call, const TensorType& output) { return 4 * reduce_flops(call, output); },
     .samples = variance_samples,
     .family = "reduction"})};

const Op kStd{reduction_op(
    {.name = "std",
     .doc = "The square root of the variance over axes",
     .inputs = 1,
     .attributes = &attribute_type<VarianceAttributes>,
     .infer = infer_variance,
     .kernel = kernels::through_float<floating_kernel<Variance<true>, VarianceAttributes>>,
     .rows = reduced_rows<VarianceAttributes>,
     .vjp = [](const VjpCall& v) -> Gradients {
       const Tensor slope = mul(v.cotangent, root_slope(v.output));
       return {
           mul(variance_slope(v.input(0), v.as<VarianceAttributes>()), with_kept_axes<VarianceAttributes>(slope, v))};
     },
     .saves = {.inputs = 1, .output = true},
     .jvp = [](const JvpCall& v) -> Tensor {
       const auto& attributes = v.as<VarianceAttributes>();
       return mul(root_slope(v.output), sum_over(mul(variance_slope(v.input(0), attributes), v.tangent(0)),
                                                 attributes.axes, attributes.keepdims));
     },
     .flops = [](const InferCall& call, const TensorType& output) { return 4 * reduce_flops(call, output); },
     .samples = variance_samples,
     .family = "reduction"})};

/// f(sum), and 0 where the sum is 0: there f has no useful derivative.
template <class Fn>
Tensor zero_at_zero(const Tensor& total, const Fn& f, Location location) {
  const Tensor zero = full_like(total, 0.0, Shape{}, location);
  const Tensor nothing = equal(total, zero, location);
  return where(nothing, zero, f(where(nothing, full_like(total, 1.0, Shape{}, location), total, location)), location);
}

Tensor power(const Tensor& positive, double exponent, Location where) {
  return exp(mul(log(positive, where), full_like(positive, exponent, Shape{}, where), where), where);
}

}  // namespace

namespace op {
const OpDef& var = *kVar;
const OpDef& std = *kStd;
}  // namespace op

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keepdims, Location where) {
  const VarianceAttributes attributes{reduced_axes(x, axes, "var", where), keepdims, correction};
  return apply_op(kVar, &attributes, where, as_floating(x, where));
}
Tensor std(const Tensor& x, const Axes& axes, double correction, bool keepdims, Location where) {
  const VarianceAttributes attributes{reduced_axes(x, axes, "std", where), keepdims, correction};
  return apply_op(kStd, &attributes, where, as_floating(x, where));
}
Tensor norm(const Tensor& input, double p, const Axes& axes, bool keepdims, Location where) {
  if (!(p > 0)) {
    throw ShapeError(fmt::format("norm: p is {}", p), where, "give p > 0, or infinity for the largest magnitude");
  }
  const Tensor x = as_floating(input, where);
  if (std::isinf(p)) {
    return max(abs(x, where), axes, keepdims, where);
  }
  if (p == 1) {
    return sum(abs(x, where), axes, keepdims, where);
  }
  if (p == 2) {
    return zero_at_zero(
        sum(square(x, where), axes, keepdims, where), [&](const Tensor& total) { return sqrt(total, where); }, where);
  }
  const Tensor powers = zero_at_zero(
      abs(x, where), [&](const Tensor& magnitude) { return power(magnitude, p, where); }, where);
  return zero_at_zero(
      sum(powers, axes, keepdims, where), [&](const Tensor& total) { return power(total, 1 / p, where); }, where);
}

}  // namespace diptych
