// Activation functions, each with its backward as one pass over memory: an op of (cotangent, x), or of (cotangent, y)
// where the output says enough, that gives cotangent * f'(x). Backward ops have no public functions.

#include "framework/ops/activation.h"

#include <cmath>

#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"

namespace diptych {
namespace {

using namespace ops;

Tensor call(const OpDef& op, const void* attributes, const Tensor& a, const Tensor& b) {
  const std::array<const Tensor*, 2> inputs{&a, &b};
  return apply(op, inputs, attributes, Location::current());
}

/// The op that gives cotangent * f'(x): linear in the cotangent, so that its gradient by the cotangent is itself.
/// `Fn::curvature(v)` is f''(x) of input 1, in public ops; without it f'' is 0 wherever f has one.
template <class Fn, class Attributes = void>
OpDef derivative(const char* name, const char* doc, CostFn flops) {
  constexpr bool is_curved = requires(const VjpCall& v) { Fn::curvature(v); };
  OpDef op{.name = name,
           .doc = doc,
           .inputs = 2,
           .infer = infer_binary<Domain::floating>,
           .kernel = kernels::elementwise,
           .loops = loops<Fn, Domain::floating, 2, Attributes>(),
           .vjp = [](const VjpCall& v) -> Gradients {
             Gradients gradients;
             if (v.needs(0)) {
               gradients[0] = call(v.op, v.attributes, v.cotangent, v.input(1));
             }
             if constexpr (is_curved) {
               if (v.needs(1)) {
                 gradients[1] = v.cotangent * v.input(0) * Fn::curvature(v);
               }
             }
             return gradients;
           },
           .saves = {.inputs = is_curved ? 3U : 2U},
           .flops = flops,
           .samples = [] { return binary_samples(kFloats, -2, 2); }};
  if constexpr (!std::is_void_v<Attributes>) {
    op.attributes = &attribute_type<Attributes>;
    op.samples = [] {
      std::vector<Sample> samples = binary_samples(kFloats, -2, 2);
      for (Sample& sample : samples) {
        sample = with(std::move(sample.inputs), Attributes::example());
      }
      return samples;
    };
    op.infer = [](const InferCall& c, TensorType& output) {
      c.as<Attributes>().check(c);
      infer_binary<Domain::floating>(c, output);
    };
  }
  return op;
}

/// What the entries of activations share.
template <class Fn, class Attributes = void, Domain domain = Domain::floating>
OpDef activation(const char* name, const char* doc, Vjp vjp, Saves saves, CostFn flops) {
  OpDef op{.name = name,
           .doc = doc,
           .inputs = 1,
           .infer = infer_unary<domain>,
           .kernel = kernels::elementwise,
           .loops = loops<Fn, domain, 1, Attributes>(),
           .vjp = vjp,
           .saves = saves,
           .flops = flops,
           .samples = [] { return unary_samples(domain == Domain::floating ? kFloats : kNumbers, -4, 4); }};
  if constexpr (!std::is_void_v<Attributes>) {
    op.attributes = &attribute_type<Attributes>;
    op.samples = [] {
      std::vector<Sample> samples = unary_samples(domain == Domain::floating ? kFloats : kNumbers, -4, 4);
      for (Sample& sample : samples) {
        sample = with(std::move(sample.inputs), Attributes::example());
      }
      return samples;
    };
    op.infer = [](const InferCall& c, TensorType& output) {
      c.as<Attributes>().check(c);
      infer_unary<domain>(c, output);
    };
  }
  return op;
}

/// One number that the function takes, besides x.
void check_finite(const InferCall& c, double value, const char* what) {
  if (!std::isfinite(value)) [[unlikely]] {
    throw Error(std::string(c.op.name) + ": " + what + " is not a finite number", c.where, "");
  }
}

// tanh and sigmoid: the output says it all.

struct TanhBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T y) {
    return dy * (T(1) - y * y);
  }
  static Tensor curvature(const VjpCall& v) { return v.input(1) * -2.0; }
};
const Op kTanhBackward{derivative<TanhBackward>("tanh_backward", "The gradient of tanh from its output: dy (1 - y^2)",
                                                flops_per_element<3>)};
struct Tanh {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::tanh(x);
  }
};
const Op kTanh{activation<Tanh>(
    "tanh", "The hyperbolic tangent",
    [](const VjpCall& v) -> Gradients { return {call(*kTanhBackward, nullptr, v.cotangent, v.output)}; }, kOutput,
    flops_per_element<18>)};

struct SigmoidBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T y) {
    return dy * (y * (T(1) - y));
  }
  static Tensor curvature(const VjpCall& v) { return 1.0 - v.input(1) * 2.0; }
};
const Op kSigmoidBackward{derivative<SigmoidBackward>(
    "sigmoid_backward", "The gradient of sigmoid from its output: dy y (1 - y)", flops_per_element<3>)};
struct Sigmoid {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::sigmoid(x);
  }
};
const Op kSigmoid{activation<Sigmoid>(
    "sigmoid", "1 / (1 + e^-x)",
    [](const VjpCall& v) -> Gradients { return {call(*kSigmoidBackward, nullptr, v.cotangent, v.output)}; }, kOutput,
    flops_per_element<18>)};

// relu and its relatives.

struct ReluBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T y) {
    return y > T(0) ? dy : T(0);
  }
};
const Op kReluBackward{derivative<ReluBackward>("relu_backward", "The gradient of relu from its output: dy where y > 0",
                                                flops_per_element<1>)};
struct Relu {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return x < T(0) ? T(0) : x;  // NaN stays NaN
  }
};
const Op kRelu{activation<Relu, void, Domain::numeric>(
    "relu", "x where x > 0, else 0; its gradient at 0 is 0",
    [](const VjpCall& v) -> Gradients { return {call(*kReluBackward, nullptr, v.cotangent, v.output)}; }, kOutput,
    flops_per_element<1>)};

struct LeakyReluAttributes {
  double slope = 0.01;
  static constexpr auto fields() { return std::tuple(field("slope", &LeakyReluAttributes::slope)); }
  static LeakyReluAttributes example() { return {0.2}; }
  void check(const InferCall& c) const { check_finite(c, slope, "the slope"); }
};
struct LeakyReluBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(const LeakyReluAttributes& a, T dy, T x) {
    return x > T(0) ? dy : dy * static_cast<T>(a.slope);
  }
};
const Op kLeakyReluBackward{derivative<LeakyReluBackward, LeakyReluAttributes>(
    "leaky_relu_backward", "The gradient of leaky_relu: dy where x > 0, else slope dy", flops_per_element<1>)};
struct LeakyRelu {
  template <class T>
  DIPTYCH_INLINE static T apply(const LeakyReluAttributes& a, T x) {
    return x > T(0) ? x : x * static_cast<T>(a.slope);
  }
};
const Op kLeakyRelu{activation<LeakyRelu, LeakyReluAttributes>(
    "leaky_relu", "x where x > 0, else slope x; its gradient at 0 is the slope",
    [](const VjpCall& v) -> Gradients { return {call(*kLeakyReluBackward, v.attributes, v.cotangent, v.input(0))}; },
    kInput, flops_per_element<1>)};

struct EluAttributes {
  double alpha = 1;
  static constexpr auto fields() { return std::tuple(field("alpha", &EluAttributes::alpha)); }
  static EluAttributes example() { return {0.7}; }
  void check(const InferCall& c) const { check_finite(c, alpha, "alpha"); }
};
struct EluBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(const EluAttributes& a, T dy, T x) {
    return x > T(0) ? dy : dy * (static_cast<T>(a.alpha) * math::exp(x));
  }
  static Tensor curvature(const VjpCall& v) {
    const Tensor& x = v.input(1);
    const Tensor zero = Term(0.0).like(x);
    // minimum: the exponential of what isn't taken must not overflow
    return where(greater(x, zero), zero, exp(minimum(x, zero)) * v.as<EluAttributes>().alpha);
  }
};
const Op kEluBackward{derivative<EluBackward, EluAttributes>(
    "elu_backward", "The gradient of elu: dy where x > 0, else dy alpha e^x", flops_per_element<18>)};
struct Elu {
  template <class T>
  DIPTYCH_INLINE static T apply(const EluAttributes& a, T x) {
    return x > T(0) ? x : static_cast<T>(a.alpha) * math::expm1(x);
  }
};
const Op kElu{activation<Elu, EluAttributes>(
    "elu", "x where x > 0, else alpha (e^x - 1) [Clevert et al. 2015]",
    [](const VjpCall& v) -> Gradients { return {call(*kEluBackward, v.attributes, v.cotangent, v.input(0))}; }, kInput,
    flops_per_element<18>)};

struct SoftplusAttributes {
  double beta = 1;
  static constexpr auto fields() { return std::tuple(field("beta", &SoftplusAttributes::beta)); }
  static SoftplusAttributes example() { return {1.5}; }
  void check(const InferCall& c) const {
    check_finite(c, beta, "beta");
    if (!(beta > 0)) {
      throw Error(std::string(c.op.name) + ": beta is not above 0", c.where, "");
    }
  }
};
struct SoftplusBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(const SoftplusAttributes& a, T dy, T x) {
    return dy * math::sigmoid(static_cast<T>(a.beta) * x);
  }
  static Tensor curvature(const VjpCall& v) {
    const double beta = v.as<SoftplusAttributes>().beta;
    const Tensor s = sigmoid(v.input(1) * beta);
    return s * (1.0 - s) * beta;
  }
};
const Op kSoftplusBackward{derivative<SoftplusBackward, SoftplusAttributes>(
    "softplus_backward", "The gradient of softplus: dy sigmoid(beta x)", flops_per_element<20>)};
struct Softplus {
  template <class T>
  DIPTYCH_INLINE static T apply(const SoftplusAttributes& a, T x) {
    const T beta = static_cast<T>(a.beta);
    return (x < T(0) ? T(0) : x) + math::softplus_tail(beta * x) / beta;
  }
};
const Op kSoftplus{activation<Softplus, SoftplusAttributes>(
    "softplus", "log(1 + e^(beta x)) / beta, stable for every x",
    [](const VjpCall& v) -> Gradients { return {call(*kSoftplusBackward, v.attributes, v.cotangent, v.input(0))}; },
    kInput, flops_per_element<44>)};

struct HardSigmoidBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T x) {
    return x > T(-3) && x < T(3) ? dy / T(6) : T(0);
  }
};
const Op kHardSigmoidBackward{derivative<HardSigmoidBackward>(
    "hard_sigmoid_backward", "The gradient of hard_sigmoid: dy / 6 where |x| < 3", flops_per_element<1>)};

/// clip(x / 6 + 1/2, 0, 1); NaN stays NaN.
template <class T>
DIPTYCH_INLINE T hard_step(T x) {
  const T shifted = x + T(3);
  const T low = shifted < T(0) ? T(0) : shifted;
  return (low > T(6) ? T(6) : low) / T(6);
}
struct HardSigmoid {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return hard_step(x);
  }
};
const Op kHardSigmoid{activation<HardSigmoid>(
    "hard_sigmoid", "x / 6 + 1/2, clipped to [0, 1]",
    [](const VjpCall& v) -> Gradients { return {call(*kHardSigmoidBackward, nullptr, v.cotangent, v.input(0))}; },
    kInput, flops_per_element<4>)};

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
    [](const VjpCall& v) -> Gradients { return {call(*kHardSwishBackward, nullptr, v.cotangent, v.input(0))}; }, kInput,
    flops_per_element<5>)};

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
    [](const VjpCall& v) -> Gradients { return {call(*kSiluBackward, nullptr, v.cotangent, v.input(0))}; }, kInput,
    flops_per_element<19>)};

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
    [](const VjpCall& v) -> Gradients { return {call(*kGeluBackward, nullptr, v.cotangent, v.input(0))}; }, kInput,
    flops_per_element<38>)};

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
  /// With u the argument of tanh: (1 - t^2) (u' + x (u'' / 2 - t u'^2)).
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
    [](const VjpCall& v) -> Gradients { return {call(*kGeluTanhBackward, nullptr, v.cotangent, v.input(0))}; }, kInput,
    flops_per_element<26>)};

// clip

struct ClipAttributes {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  static constexpr auto fields() {
    return std::tuple(field("low", &ClipAttributes::low), field("high", &ClipAttributes::high));
  }
  static ClipAttributes example() { return {-1, 2}; }
  void check(const InferCall& c) const {
    if (std::isnan(low) || std::isnan(high)) {
      throw Error(std::string(c.op.name) + ": a bound is NaN", c.where, "");
    }
  }
};
struct ClipBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(const ClipAttributes& a, T dy, T x) {
    return x < static_cast<T>(a.low) || x > static_cast<T>(a.high) ? T(0) : dy;
  }
};
const Op kClipBackward{derivative<ClipBackward, ClipAttributes>(
    "clip_backward", "The gradient of clip: dy where x is within the bounds", flops_per_element<2>)};
/// Once a loop: inlined, its branches would keep the loop from being vectorised.
template <class T>
[[gnu::noinline, gnu::const]] T clip_bound(double bound) {
  return math::convert<T>(bound);
}
struct Clip {
  template <class T>
  DIPTYCH_INLINE static T apply(const ClipAttributes& a, T x) {
    const T low = clip_bound<T>(a.low);
    const T high = clip_bound<T>(a.high);
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};
const Op kClip{activation<Clip, ClipAttributes, Domain::numeric>(
    "clip", "x, but at least `low` and at most `high`; NaN stays NaN",
    [](const VjpCall& v) -> Gradients { return {call(*kClipBackward, v.attributes, v.cotangent, v.input(0))}; }, kInput,
    flops_per_element<2>)};

}  // namespace

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& x, Location where) { return apply_op(op, nullptr, where, x); }
DIPTYCH_PUBLIC(tanh, kTanh)
DIPTYCH_PUBLIC(sigmoid, kSigmoid)
DIPTYCH_PUBLIC(relu, kRelu)
DIPTYCH_PUBLIC(hard_sigmoid, kHardSigmoid)
DIPTYCH_PUBLIC(hard_swish, kHardSwish)
DIPTYCH_PUBLIC(silu, kSilu)
DIPTYCH_PUBLIC(gelu, kGelu)
DIPTYCH_PUBLIC(gelu_tanh, kGeluTanh)
#undef DIPTYCH_PUBLIC

#define DIPTYCH_PUBLIC(function, op, Attributes)                       \
  Tensor function(const Tensor& x, double parameter, Location where) { \
    const Attributes attributes{parameter};                            \
    return apply_op(op, &attributes, where, x);                        \
  }
DIPTYCH_PUBLIC(leaky_relu, kLeakyRelu, LeakyReluAttributes)
DIPTYCH_PUBLIC(elu, kElu, EluAttributes)
DIPTYCH_PUBLIC(softplus, kSoftplus, SoftplusAttributes)
#undef DIPTYCH_PUBLIC

Tensor clip(const Tensor& x, double low, double high, Location where) {
  const auto fraction = [](double bound) { return std::isfinite(bound) && bound != std::floor(bound); };
  const ClipAttributes attributes{low, high};
  return apply_op(kClip, &attributes, where,
                  !is_floating(x.dtype()) && (fraction(low) || fraction(high)) ? cast(x, DType::float32, where) : x);
}

}  // namespace diptych
