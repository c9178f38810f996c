// Activation functions of the form x times a gate: hard_sigmoid, sigmoid or the normal distribution.

#include "framework/ops/activation.h"
#include "framework/ops/define_activation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {
namespace {

using namespace ops;

struct HardSwishBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T x) {
    const T inner = dy * (x / T(3) + T(0.5));
    const T above = x >= T(3) ? dy : inner;
    return x <= T(-3) ? T(0) : above;
  }
  static Tensor curvature(const VjpCall& v) {
    const Tensor& x = v.input(1);
    return where(less(abs(x), Term(3.0).like(x)), Term(1.0 / 3).like(x), Term(0.0).like(x));
  }
};
const Op kHardSwishBackward{derivative<HardSwishBackward>(
    "hard_swish_backward", "The gradient of hard_swish: dy (x / 3 + 1/2) where |x| < 3", flops_per_element<3>)};
struct HardSwish {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return x * hard_step(x);
  }
};
const Op kHardSwish{activation<HardSwish>(
    "hard_swish", "x hard_sigmoid(x) [Howard et al. 2019]",
    [](const VjpCall& v) -> Gradients {
      return {apply_backward(*kHardSwishBackward, nullptr, v.cotangent, v.input(0))};
    },
    kInput, flops_per_element<5>)};

struct SiluBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T x) {
    const T s = math::sigmoid(x);
    return dy * (s * (T(1) + x * (T(1) - s)));
  }
  static Tensor curvature(const VjpCall& v) {
    const Tensor s = sigmoid(v.input(1));
    return s * (1.0 - s) * (2.0 + v.input(1) * (1.0 - s * 2.0));
  }
};
const Op kSiluBackward{derivative<SiluBackward>(
    "silu_backward", "The gradient of silu: dy s (1 + x (1 - s)), s = sigmoid(x)", flops_per_element<23>)};
struct Silu {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return x / (T(1) + math::exp(-x));
  }
};
const Op kSilu{activation<Silu>(
    "silu", "x sigmoid(x), also called swish",
    [](const VjpCall& v) -> Gradients { return {apply_backward(*kSiluBackward, nullptr, v.cotangent, v.input(0))}; },
    kInput, flops_per_element<19>)};

// gelu [Hendrycks & Gimpel 2016].

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kDensityAtZero = 0.39894228040143267794;  // 1 / sqrt(2 pi)

struct GeluBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T x) {
    const T cdf = T(0.5) * (T(1) + math::erf(x * T(kSqrtHalf)));
    const T density = math::exp(T(-0.5) * (x * x)) * T(kDensityAtZero);
    return dy * (cdf + x * density);
  }
  static Tensor curvature(const VjpCall& v) {
    const Tensor xx = square(v.input(1));
    return exp(xx * -0.5) * kDensityAtZero * (2.0 - xx);
  }
};
const Op kGeluBackward{
    derivative<GeluBackward>("gelu_backward", "The gradient of gelu: dy (Phi(x) + x phi(x))", flops_per_element<58>)};
struct Gelu {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return T(0.5) * x * (T(1) + math::erf(x * T(kSqrtHalf)));
  }
};
const Op kGelu{activation<Gelu>(
    "gelu", "x Phi(x), with the exact normal distribution [Hendrycks & Gimpel 2016]",
    [](const VjpCall& v) -> Gradients { return {apply_backward(*kGeluBackward, nullptr, v.cotangent, v.input(0))}; },
    kInput, flops_per_element<38>)};

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

struct GeluTanhBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T x) {
    const T xx = x * x;
    const T t = math::tanh(T(kSqrtTwoOverPi) * x * (T(1) + T(kCubic) * xx));
    const T inner = T(kSqrtTwoOverPi) * (T(1) + T(3 * kCubic) * xx);
    return dy * (T(0.5) * ((T(1) + t) + x * ((T(1) - t * t) * inner)));
  }
  /// With u, the argument of tanh: (1 - t^2) (u' + x (u'' / 2 - t u'^2)).
  static Tensor curvature(const VjpCall& v) {
    const Tensor& x = v.input(1);
    const Tensor xx = square(x);
    const Tensor t = tanh(x * (xx * kCubic + 1.0) * kSqrtTwoOverPi);
    const Tensor first = (xx * (3 * kCubic) + 1.0) * kSqrtTwoOverPi;
    const Tensor half_second = x * (3 * kCubic * kSqrtTwoOverPi);
    return (1.0 - square(t)) * (first + x * (half_second - t * square(first)));
  }
};
const Op kGeluTanhBackward{
    derivative<GeluTanhBackward>("gelu_tanh_backward", "The gradient of gelu_tanh", flops_per_element<34>)};
struct GeluTanh {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return T(0.5) * x * (T(1) + math::tanh(T(kSqrtTwoOverPi) * x * (T(1) + T(kCubic) * (x * x))));
  }
};
const Op kGeluTanh{activation<GeluTanh>(
    "gelu_tanh", "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which is close to gelu",
    [](const VjpCall& v) -> Gradients {
      return {apply_backward(*kGeluTanhBackward, nullptr, v.cotangent, v.input(0))};
    },
    kInput, flops_per_element<26>)};

}  // namespace

namespace op {
const OpDef& hard_swish_backward = *kHardSwishBackward;
const OpDef& hard_swish = *kHardSwish;
const OpDef& silu_backward = *kSiluBackward;
const OpDef& silu = *kSilu;
const OpDef& gelu_backward = *kGeluBackward;
const OpDef& gelu = *kGelu;
const OpDef& gelu_tanh_backward = *kGeluTanhBackward;
const OpDef& gelu_tanh = *kGeluTanh;
}  // namespace op

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& x, Location where) { return apply_op(op, nullptr, where, x); }
DIPTYCH_PUBLIC(hard_swish, kHardSwish)
DIPTYCH_PUBLIC(silu, kSilu)
DIPTYCH_PUBLIC(gelu, kGelu)
DIPTYCH_PUBLIC(gelu_tanh, kGeluTanh)
#undef DIPTYCH_PUBLIC

}  // namespace diptych
