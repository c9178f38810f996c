// Exponentials, logarithms, sine and cosine, the error function. Each entry starts with its scalar function.

#include "framework/math/trigonometry.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {
namespace {

using namespace ops;

struct Exp {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::exp(x);
  }
};
const Op kExp{elementwise_op<Exp, Domain::floating, 1>(
    {.name = "exp",
     .doc = "e to the power x",
     .vjp = [](const VjpCall& v) -> Gradients { return {mul(v.cotangent, v.output)}; },
     .saves = kOutput,
     .flops = flops_per_element<16>,
     .samples = [] { return unary_samples(kFloats, -4, 4); }})};

struct Log {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::log(x);
  }
};
const Op kLog{elementwise_op<Log, Domain::floating, 1>(
    {.name = "log",
     .doc = "The natural logarithm",
     .vjp = [](const VjpCall& v) -> Gradients { return {div(v.cotangent, v.input(0))}; },
     .saves = kInput,
     .flops = flops_per_element<20>,
     .samples = [] { return unary_samples(kFloats, 0.1, 4); }})};

struct Expm1 {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::expm1(x);
  }
};
const Op kExpm1{elementwise_op<Expm1, Domain::floating, 1>(
    {.name = "expm1",
     .doc = "e to the power x, minus 1, precise near 0",
     .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (v.output + 1.0)}; },
     .saves = kOutput,
     .flops = flops_per_element<18>,
     .samples = [] { return unary_samples(kFloats, -3, 3); }})};

struct Log1p {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::log1p(x);
  }
};
const Op kLog1p{elementwise_op<Log1p, Domain::floating, 1>(
    {.name = "log1p",
     .doc = "log(1 + x), precise near 0",
     .vjp = [](const VjpCall& v) -> Gradients { return {div(v.cotangent, v.input(0) + 1.0)}; },
     .saves = kInput,
     .flops = flops_per_element<24>,
     .samples = [] { return unary_samples(kFloats, -0.5, 3); }})};

/// Beyond the common range the argument is reduced in integer arithmetic.
struct InCommonTurn {
  template <class T>
  DIPTYCH_INLINE static bool is_common(T x) {
    return !(math::abs(x) > math::kCommonTurn<T>);
  }
};
struct SinCommon {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::sin_common(x);
  }
};
struct CosCommon {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::cos_common(x);
  }
};

struct Sin : InCommonTurn {
  using Common = SinCommon;
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::sin(x);
  }
};
const Op kSin{elementwise_op<Sin, Domain::floating, 1>(
    {.name = "sin",
     .doc = "The sine of x in radians",
     .vjp = [](const VjpCall& v) -> Gradients { return {mul(v.cotangent, cos(v.input(0)))}; },
     .saves = kInput,
     .flops = flops_per_element<34>,
     .samples = [] { return unary_samples(kFloats, -6, 6); }})};

struct Cos : InCommonTurn {
  using Common = CosCommon;
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::cos(x);
  }
};
const Op kCos{elementwise_op<Cos, Domain::floating, 1>(
    {.name = "cos",
     .doc = "The cosine of x in radians",
     .vjp = [](const VjpCall& v) -> Gradients { return {neg(mul(v.cotangent, sin(v.input(0))))}; },
     .saves = kInput,
     .flops = flops_per_element<34>,
     .samples = [] { return unary_samples(kFloats, -6, 6); }})};

struct Atan {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::atan(x);
  }
};
const Op kAtan{elementwise_op<Atan, Domain::floating, 1>(
    {.name = "atan",
     .doc = "The angle in radians, from -pi/2 to pi/2, whose tangent is x",
     .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent / (square(v.input(0)) + 1.0)}; },
     .saves = kInput,
     .flops = flops_per_element<26>,
     .samples = [] { return unary_samples(kFloats, -4, 4); }})};

struct Erf {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::erf(x);
  }
};
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
const Op kErf{elementwise_op<Erf, Domain::floating, 1>(
    {.name = "erf",
     .doc = "The error function",
     .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (exp(-square(v.input(0))) * kTwoOverSqrtPi)}; },
     .saves = kInput,
     .flops = flops_per_element<34>,
     .samples = [] { return unary_samples(kFloats, -3, 3); }})};

}  // namespace

namespace op {
const OpDef& exp = *kExp;
const OpDef& log = *kLog;
const OpDef& expm1 = *kExpm1;
const OpDef& log1p = *kLog1p;
const OpDef& sin = *kSin;
const OpDef& cos = *kCos;
const OpDef& atan = *kAtan;
const OpDef& erf = *kErf;
}  // namespace op

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& x, Location where) { return apply_op(op, nullptr, where, x); }
DIPTYCH_PUBLIC(exp, kExp)
DIPTYCH_PUBLIC(expm1, kExpm1)
DIPTYCH_PUBLIC(log, kLog)
DIPTYCH_PUBLIC(log1p, kLog1p)
DIPTYCH_PUBLIC(sin, kSin)
DIPTYCH_PUBLIC(cos, kCos)
DIPTYCH_PUBLIC(atan, kAtan)
DIPTYCH_PUBLIC(erf, kErf)
#undef DIPTYCH_PUBLIC

}  // namespace diptych
