// Exponentials, logarithms, sine and cosine, the error function: one entry each, the scalar function first.

#include "framework/kernels/trigonometry.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"

namespace diptych {
namespace {

using namespace ops;

struct Exp {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::exp(x);
  }
};
const Op kExp{{.name = "exp",
               .doc = "e to the power x",
               .inputs = 1,
               .infer = infer_unary<Domain::floating>,
               .kernel = kernels::elementwise,
               .loops = loops<Exp, Domain::floating, 1>(),
               .vjp = [](const VjpCall& v) -> Gradients { return {mul(v.cotangent, v.output)}; },
               .saves = kOutput,
               .flops = flops_per_element<16>,
               .samples = [] { return unary_samples(kFloats, -4, 4); }}};

struct Log {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::log(x);
  }
};
const Op kLog{{.name = "log",
               .doc = "The natural logarithm",
               .inputs = 1,
               .infer = infer_unary<Domain::floating>,
               .kernel = kernels::elementwise,
               .loops = loops<Log, Domain::floating, 1>(),
               .vjp = [](const VjpCall& v) -> Gradients { return {div(v.cotangent, v.input(0))}; },
               .saves = kInput,
               .flops = flops_per_element<20>,
               .samples = [] { return unary_samples(kFloats, 0.1, 4); }}};

struct Expm1 {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::expm1(x);
  }
};
const Op kExpm1{{.name = "expm1",
                 .doc = "e to the power x, minus 1, precise near 0",
                 .inputs = 1,
                 .infer = infer_unary<Domain::floating>,
                 .kernel = kernels::elementwise,
                 .loops = loops<Expm1, Domain::floating, 1>(),
                 .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (v.output + 1.0)}; },
                 .saves = kOutput,
                 .flops = flops_per_element<18>,
                 .samples = [] { return unary_samples(kFloats, -3, 3); }}};

struct Log1p {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::log1p(x);
  }
};
const Op kLog1p{{.name = "log1p",
                 .doc = "log(1 + x), precise near 0",
                 .inputs = 1,
                 .infer = infer_unary<Domain::floating>,
                 .kernel = kernels::elementwise,
                 .loops = loops<Log1p, Domain::floating, 1>(),
                 .vjp = [](const VjpCall& v) -> Gradients { return {div(v.cotangent, v.input(0) + 1.0)}; },
                 .saves = kInput,
                 .flops = flops_per_element<24>,
                 .samples = [] { return unary_samples(kFloats, -0.5, 3); }}};

/// Beyond the common range the reduction of the argument is done in integers.
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
const Op kSin{{.name = "sin",
               .doc = "The sine of x in radians",
               .inputs = 1,
               .infer = infer_unary<Domain::floating>,
               .kernel = kernels::elementwise,
               .loops = loops<Sin, Domain::floating, 1>(),
               .vjp = [](const VjpCall& v) -> Gradients { return {mul(v.cotangent, cos(v.input(0)))}; },
               .saves = kInput,
               .flops = flops_per_element<34>,
               .samples = [] { return unary_samples(kFloats, -6, 6); }}};

struct Cos : InCommonTurn {
  using Common = CosCommon;
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::cos(x);
  }
};
const Op kCos{{.name = "cos",
               .doc = "The cosine of x in radians",
               .inputs = 1,
               .infer = infer_unary<Domain::floating>,
               .kernel = kernels::elementwise,
               .loops = loops<Cos, Domain::floating, 1>(),
               .vjp = [](const VjpCall& v) -> Gradients { return {neg(mul(v.cotangent, sin(v.input(0))))}; },
               .saves = kInput,
               .flops = flops_per_element<34>,
               .samples = [] { return unary_samples(kFloats, -6, 6); }}};

struct Erf {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::erf(x);
  }
};
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
const Op kErf{
    {.name = "erf",
     .doc = "The error function",
     .inputs = 1,
     .infer = infer_unary<Domain::floating>,
     .kernel = kernels::elementwise,
     .loops = loops<Erf, Domain::floating, 1>(),
     .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (exp(-square(v.input(0))) * kTwoOverSqrtPi)}; },
     .saves = kInput,
     .flops = flops_per_element<34>,
     .samples = [] { return unary_samples(kFloats, -3, 3); }}};

}  // namespace

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& x, Location where) { return apply_op(op, nullptr, where, x); }
DIPTYCH_PUBLIC(exp, kExp)
DIPTYCH_PUBLIC(expm1, kExpm1)
DIPTYCH_PUBLIC(log, kLog)
DIPTYCH_PUBLIC(log1p, kLog1p)
DIPTYCH_PUBLIC(sin, kSin)
DIPTYCH_PUBLIC(cos, kCos)
DIPTYCH_PUBLIC(erf, kErf)
#undef DIPTYCH_PUBLIC

}  // namespace diptych
