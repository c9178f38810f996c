// Activation functions. The backward of each is one pass over memory: an op of (cotangent, x), or of (cotangent, y)
// where the output suffices, that computes cotangent * f'(x). Backward ops have no public functions.

#include "framework/ops/activation.h"

#include <cmath>

#include "framework/math/simple_functions.h"
#include "framework/ops/define_activation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {
namespace ops {
namespace {

/// A parameter of the function besides x.
void check_finite(const InferCall& c, double value, const char* what) {
  if (!std::isfinite(value)) [[unlikely]] {
    throw Error(std::string(c.op.name) + ": " + what + " is not a finite number", c.where, "");
  }
}

}  // namespace

void LeakyReluAttributes::check(const InferCall& call) const { check_finite(call, slope, "the slope"); }
void EluAttributes::check(const InferCall& call) const { check_finite(call, alpha, "alpha"); }
void SoftplusAttributes::check(const InferCall& call) const {
  check_finite(call, beta, "beta");
  if (!(beta > 0)) {
    throw Error(std::string(call.op.name) + ": beta is not above 0", call.where, "");
  }
}
void ClipAttributes::check(const InferCall& call) const {
  if (std::isnan(low) || std::isnan(high)) {
    throw Error(std::string(call.op.name) + ": a bound is NaN", call.where, "");
  }
}

}  // namespace ops

namespace {

using namespace ops;
using math::Relu;

// tanh and sigmoid: the gradient needs the output only.

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
    [](const VjpCall& v) -> Gradients { return {apply_backward(*kTanhBackward, nullptr, v.cotangent, v.output)}; },
    kOutput, flops_per_element<18>)};

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
    [](const VjpCall& v) -> Gradients { return {apply_backward(*kSigmoidBackward, nullptr, v.cotangent, v.output)}; },
    kOutput, flops_per_element<18>)};

// relu and its relatives.

struct ReluBackward {
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T y) {
    return y > T(0) ? dy : T(0);
  }
};
const Op kReluBackward{derivative<ReluBackward>("relu_backward", "The gradient of relu from its output: dy where y > 0",
                                                flops_per_element<1>)};
const Op kRelu{activation<Relu, void, Domain::numeric>(
    "relu", "x where x > 0, else 0; its gradient at 0 is 0",
    [](const VjpCall& v) -> Gradients { return {apply_backward(*kReluBackward, nullptr, v.cotangent, v.output)}; },
    kOutput, flops_per_element<1>)};

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
    [](const VjpCall& v) -> Gradients {
      return {apply_backward(*kLeakyReluBackward, v.attributes, v.cotangent, v.input(0))};
    },
    kInput, flops_per_element<1>)};

struct EluBackward {
  static constexpr bool kFixedInBlocks = true;
  template <class T>
  DIPTYCH_INLINE static T apply(const EluAttributes& a, T dy, T x) {
    return x > T(0) ? dy : dy * (static_cast<T>(a.alpha) * math::exp(x));
  }
  static Tensor curvature(const VjpCall& v) {
    const Tensor& x = v.input(1);
    const Tensor zero = Term(0.0).like(x);
    // minimum: the exponential must not overflow where it isn't selected
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
    [](const VjpCall& v) -> Gradients {
      return {apply_backward(*kEluBackward, v.attributes, v.cotangent, v.input(0))};
    },
    kInput, flops_per_element<18>)};

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
    [](const VjpCall& v) -> Gradients {
      return {apply_backward(*kSoftplusBackward, v.attributes, v.cotangent, v.input(0))};
    },
    kInput, flops_per_element<44>)};

struct HardSigmoidBackward {
  static constexpr bool kRoundedFixedInBlocks = true;
  template <class T>
  DIPTYCH_INLINE static T apply(T dy, T x) {
    return x > T(-3) && x < T(3) ? dy / T(6) : T(0);
  }
};
const Op kHardSigmoidBackward{derivative<HardSigmoidBackward>(
    "hard_sigmoid_backward", "The gradient of hard_sigmoid: dy / 6 where |x| < 3", flops_per_element<1>)};

struct HardSigmoid {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return hard_step(x);
  }
};
const Op kHardSigmoid{activation<HardSigmoid>(
    "hard_sigmoid", "x / 6 + 1/2, clipped to [0, 1]",
    [](const VjpCall& v) -> Gradients {
      return {apply_backward(*kHardSigmoidBackward, nullptr, v.cotangent, v.input(0))};
    },
    kInput, flops_per_element<4>)};

// clip

struct ClipBackward {
  static constexpr bool kRoundedFixedInBlocks = true;
  template <class T>
  DIPTYCH_INLINE static T apply(const ClipAttributes& a, T dy, T x) {
    return x < static_cast<T>(a.low) || x > static_cast<T>(a.high) ? T(0) : dy;
  }
};
const Op kClipBackward{derivative<ClipBackward, ClipAttributes>(
    "clip_backward", "The gradient of clip: dy where x is within the bounds", flops_per_element<2>)};
/// Called once per loop: inlined, its branches would keep the loop from being vectorised.
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
    [](const VjpCall& v) -> Gradients {
      return {apply_backward(*kClipBackward, v.attributes, v.cotangent, v.input(0))};
    },
    kInput, flops_per_element<2>)};

}  // namespace

namespace op {
const OpDef& tanh_backward = *kTanhBackward;
const OpDef& tanh = *kTanh;
const OpDef& sigmoid_backward = *kSigmoidBackward;
const OpDef& sigmoid = *kSigmoid;
const OpDef& relu_backward = *kReluBackward;
const OpDef& relu = *kRelu;
const OpDef& leaky_relu_backward = *kLeakyReluBackward;
const OpDef& leaky_relu = *kLeakyRelu;
const OpDef& elu_backward = *kEluBackward;
const OpDef& elu = *kElu;
const OpDef& softplus_backward = *kSoftplusBackward;
const OpDef& softplus = *kSoftplus;
const OpDef& hard_sigmoid_backward = *kHardSigmoidBackward;
const OpDef& hard_sigmoid = *kHardSigmoid;
const OpDef& clip_backward = *kClipBackward;
const OpDef& clip = *kClip;
}  // namespace op

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& x, Location where) { return apply_op(op, nullptr, where, x); }
DIPTYCH_PUBLIC(tanh, kTanh)
DIPTYCH_PUBLIC(sigmoid, kSigmoid)
DIPTYCH_PUBLIC(relu, kRelu)
DIPTYCH_PUBLIC(hard_sigmoid, kHardSigmoid)
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
