// Random numbers of continuous distributions: uniform, normal, truncated normal.

#include <cmath>

#include "framework/math/normal_quantile.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/drawn.h"

namespace diptych {
namespace {

using namespace ops;

// uniform

template <class T>
struct UniformDraw {
  using Bits = std::conditional_t<std::is_same_v<T, double>, std::uint64_t, std::uint32_t>;
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

  DIPTYCH_INLINE static T apply(const UniformAttributes& a, Bits bits) {
    const Real low = static_cast<Real>(a.low);
    const Real high = static_cast<Real>(a.high);
    const T number = T(low + (high - low) * unit(bits));
    // Rounding may have produced the upper end, which is excluded.
    return static_cast<Real>(number) < static_cast<Real>(T(high)) ? number : T(low);
  }
  DIPTYCH_INLINE static Real unit(Bits bits) {
    if constexpr (std::is_same_v<T, double>) {
      return whole(bits >> 12U) * 0x1p-52;
    } else if constexpr (std::is_same_v<T, float>) {
      return whole(bits >> 8U) * 0x1p-24F;
    } else {
      return whole(bits >> 24U) * 0x1p-8F;
    }
  }
};

const Op kUniform{random_op({.name = "random_uniform",
                             .doc = "Uniform numbers in [low, high) by a generator's state",
                             .inputs = 1,
                             .attributes = &attribute_type<UniformAttributes>,
                             .infer =
                                 [](const InferCall& call, TensorType& output) {
                                   const auto& a = call.as<UniformAttributes>();
                                   check_floating(call, a.dtype);
                                   if (!std::isfinite(a.low) || !std::isfinite(a.high) || a.low > a.high) {
                                     fail_parameter(call, "low and high must be finite, and low not above high");
                                   }
                                   infer_drawn(call, a.shape, a.dtype, output);
                                 },
                             .kernel =
                                 [](const KernelCall& call) {
                                   visit_floating(call.output.type->dtype, [&]<class T>() {
                                     draw_into<UniformDraw, T>(call,
                                                               *static_cast<const UniformAttributes*>(call.attributes));
                                   });
                                 },
                             .flops = flops_per_element<2>,
                             .samples =
                                 [] {
                                   return drawn_samples<UniformAttributes>({{{3, 37}, DType::float32, -2, 3},
                                                                            {{1100}, DType::float32, 0, 1},
                                                                            {{531}, DType::float64, 0, 1},
                                                                            {{5, 7}, DType::bfloat16, 0, 1},
                                                                            {{}, DType::float32, 0, 1},
                                                                            {{0, 4}, DType::float64, 0, 1}});
                                 },
                             .family = "random"})};

// normal

/// By inversion, with one bit for the sign, so that both tails are as finely resolved as the numbers near 0.
template <class T>
struct NormalDraw {
  using Bits = std::conditional_t<std::is_same_v<T, double>, std::uint64_t, std::uint32_t>;

  DIPTYCH_INLINE static T apply(const NormalAttributes& a, Bits bits) {
    if constexpr (std::is_same_v<T, double>) {
      constexpr std::uint64_t kMost = 0xFFFFFFFFFFFFFULL;
      const double centre = (whole(bits & kMost) + 0.5) * 0x1p-53;
      const double tail = (whole(~bits & kMost) + 0.5) * 0x1p-53;
      return a.mean + a.deviation * math::copy_sign(math::normal_quantile(centre, tail), std::bit_cast<double>(bits));
    } else {
      constexpr std::uint32_t kMost = 0x7FFFFFFFU;
      const float centre = (whole(bits & kMost) + 0.5F) * 0x1p-32F;
      const float tail = (whole(~bits & kMost) + 0.5F) * 0x1p-32F;
      const float z = math::copy_sign(math::normal_quantile(centre, tail), std::bit_cast<float>(bits));
      return T(static_cast<float>(a.mean) + static_cast<float>(a.deviation) * z);
    }
  }
};

const Op kNormal{
    random_op({.name = "random_normal",
               .doc = "Normal numbers by a generator's state",
               .inputs = 1,
               .attributes = &attribute_type<NormalAttributes>,
               .infer =
                   [](const InferCall& call, TensorType& output) {
                     const auto& a = call.as<NormalAttributes>();
                     check_floating(call, a.dtype);
                     if (!std::isfinite(a.mean) || !std::isfinite(a.deviation) || a.deviation < 0) {
                       fail_parameter(call, "the mean must be finite, and the deviation finite and not negative");
                     }
                     infer_drawn(call, a.shape, a.dtype, output);
                   },
               .kernel =
                   [](const KernelCall& call) {
                     visit_floating(call.output.type->dtype, [&]<class T>() {
                       draw_into<NormalDraw, T>(call, *static_cast<const NormalAttributes*>(call.attributes));
                     });
                   },
               .flops = flops_per_element<45>,
               .samples =
                   [] {
                     return drawn_samples<NormalAttributes>({{{3, 37}, DType::float32, -2, 3},
                                                             {{1100}, DType::float32, 0, 1},
                                                             {{531}, DType::float64, 0, 1},
                                                             {{5, 7}, DType::bfloat16, 0, 1},
                                                             {{}, DType::float64, 0, 1},
                                                             {{0, 4}, DType::float32, 0, 1}});
                   },
               .family = "random"})};

// truncated normal

/// Phi(x) for x <= 0, precise in the tail, where it uses the continued fraction of erfc [Abramowitz & Stegun 26.2.14].
double lower_tail(double x) {
  if (x > -3) {
    return 0.5 * (1 - math::erf(-x * 0.70710678118654752440));
  }
  double fraction = -x;
  for (int k = 100; k > 0; --k) {
    fraction = -x + k / fraction;
  }
  return math::exp(-0.5 * x * x) * 0.39894228040143267794 / fraction;
}

struct TruncatedNormalParameters {
  double from = 0;  ///< Phi at the ends, with the distribution mirrored so that the ends lie in its lower half
  double width = 0;
  double sign = 1;
  TruncatedNormalAttributes attributes;

  explicit TruncatedNormalParameters(const TruncatedNormalAttributes& a) : attributes(a) {
    double low = (a.low - a.mean) / a.deviation;
    double high = (a.high - a.mean) / a.deviation;
    if (low > 0) {
      sign = -1;
      std::swap(low, high);
      low = -low;
      high = -high;
    }
    from = lower_tail(low);
    width = (high > 0 ? 1 - lower_tail(-high) : lower_tail(high)) - from;
  }
};

template <class T>
struct TruncatedNormalDraw {
  using Bits = std::uint64_t;
  DIPTYCH_INLINE static T apply(const TruncatedNormalParameters& p, std::uint64_t bits) {
    const TruncatedNormalAttributes& a = p.attributes;
    const double probability = p.from + p.width * ((whole(bits >> 12U) + 0.5) * 0x1p-52);
    double tail = probability < 0.5 ? probability : 1 - probability;
    tail = tail > 0 ? tail : std::numeric_limits<double>::min();
    const double centre = probability - 0.5;
    const double z = p.sign * math::copy_sign(math::normal_quantile(math::abs(centre), tail), centre);
    const double number = a.mean + a.deviation * z;
    const double raised = number < a.low ? a.low : number;
    const double clipped = raised > a.high ? a.high : raised;
    if constexpr (std::is_same_v<T, bfloat16>) {
      return T(static_cast<float>(clipped));
    } else {
      return static_cast<T>(clipped);
    }
  }
};

const Op kTruncatedNormal{random_op(
    {.name = "random_truncated_normal",
     .doc = "Normal numbers between low and high by a generator's state",
     .inputs = 1,
     .attributes = &attribute_type<TruncatedNormalAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           const auto& a = call.as<TruncatedNormalAttributes>();
           check_floating(call, a.dtype);
           if (!std::isfinite(a.mean) || !std::isfinite(a.deviation) || a.deviation <= 0 || !(a.low < a.high)) {
             fail_parameter(call, "the mean must be finite, the deviation above 0, and low below high");
           }
           infer_drawn(call, a.shape, a.dtype, output);
         },
     .kernel =
         [](const KernelCall& call) {
           const TruncatedNormalParameters parameters(*static_cast<const TruncatedNormalAttributes*>(call.attributes));
           visit_floating(call.output.type->dtype,
                          [&]<class T>() { draw_into<TruncatedNormalDraw, T>(call, parameters); });
         },
     .flops = flops_per_element<70>,
     .samples =
         [] {
           return drawn_samples<TruncatedNormalAttributes>({{{3, 37}, DType::float32, 0, 1, -2, 2},
                                                            {{531}, DType::float64, 1, 2, 3, 9},
                                                            {{5, 7}, DType::bfloat16, 0, 0.02, -0.04, 0.04},
                                                            {{0, 4}, DType::float32, 0, 1, -2, 2}});
         },
     .family = "random"})};

}  // namespace

namespace op {
const OpDef& random_uniform = *kUniform;
const OpDef& random_normal = *kNormal;
const OpDef& random_truncated_normal = *kTruncatedNormal;
}  // namespace op

Tensor uniform(const Shape& shape, double low, double high, DType dtype, const Generator& generator, Location where) {
  return drawn(kUniform, UniformAttributes{shape, dtype, low, high}, generator, where);
}
Tensor rand(const Shape& shape, DType dtype, const Generator& generator, Location where) {
  return uniform(shape, 0, 1, dtype, generator, where);
}
Tensor rand_like(const Tensor& like, const Generator& generator, Location where) {
  return rand(like.shape(), like.dtype(), generator, where);
}
Tensor normal(const Shape& shape, double mean, double deviation, DType dtype, const Generator& generator,
              Location where) {
  return drawn(kNormal, NormalAttributes{shape, dtype, mean, deviation}, generator, where);
}
Tensor randn(const Shape& shape, DType dtype, const Generator& generator, Location where) {
  return normal(shape, 0, 1, dtype, generator, where);
}
Tensor randn_like(const Tensor& like, const Generator& generator, Location where) {
  return randn(like.shape(), like.dtype(), generator, where);
}
Tensor truncated_normal(const Shape& shape, double mean, double deviation, double low, double high, DType dtype,
                        const Generator& generator, Location where) {
  return drawn(kTruncatedNormal, TruncatedNormalAttributes{shape, dtype, mean, deviation, low, high}, generator, where);
}

}  // namespace diptych
