// Unary elementwise ops: one entry each, the scalar function first.

#include "framework/kernels/strided_copy.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"

namespace diptych {
namespace {

using namespace ops;

constexpr Saves kInput{.inputs = 1};
constexpr Saves kOutput{.output = true};

struct Neg {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(x));
    } else {
      return -x;
    }
  }
};
const Op kNeg{{.name = "neg",
               .doc = "-x",
               .inputs = 1,
               .infer = infer_unary<Domain::numeric>,
               .kernel = kernels::elementwise,
               .loops = loops<Neg, Domain::numeric, 1>(),
               .vjp = [](const VjpCall& v) -> Gradients { return {neg(v.cotangent)}; },
               .flops = flops_per_element<1>,
               .samples = [] { return unary_samples(kNumbers, -3, 3); }}};

struct Abs {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::abs(x);
  }
};
const Op kAbs{{.name = "abs",
               .doc = "The magnitude of x",
               .inputs = 1,
               .infer = infer_unary<Domain::numeric>,
               .kernel = kernels::elementwise,
               .loops = loops<Abs, Domain::numeric, 1>(),
               .vjp = [](const VjpCall& v) -> Gradients { return {mul(v.cotangent, sign(v.input(0)))}; },
               .saves = kInput,
               .flops = flops_per_element<1>,
               .samples = [] { return unary_samples(kNumbers, -3, 3); }}};

struct Sign {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    const T nonzero = x < T(0) ? T(-1) : T(1);
    return x == T(0) || x != x ? x : nonzero;
  }
};
const Op kSign{{.name = "sign",
                .doc = "-1, 0 or 1; its gradient is 0",
                .inputs = 1,
                .infer = infer_unary<Domain::numeric>,
                .kernel = kernels::elementwise,
                .loops = loops<Sign, Domain::numeric, 1>(),
                .vjp = [](const VjpCall&) -> Gradients { return {}; },
                .flops = flops_per_element<1>,
                .samples = [] { return unary_samples(kNumbers, -3, 3); }}};

struct Square {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(x) * static_cast<U>(x));
    } else {
      return x * x;
    }
  }
};
const Op kSquare{{.name = "square",
                  .doc = "x * x",
                  .inputs = 1,
                  .infer = infer_unary<Domain::numeric>,
                  .kernel = kernels::elementwise,
                  .loops = loops<Square, Domain::numeric, 1>(),
                  .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (v.input(0) * 2.0)}; },
                  .saves = kInput,
                  .flops = flops_per_element<1>,
                  .samples = [] { return unary_samples(kNumbers, -3, 3); }}};

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

struct Sqrt {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::sqrt(x);
  }
};
const Op kSqrt{{.name = "sqrt",
                .doc = "The square root",
                .inputs = 1,
                .infer = infer_unary<Domain::floating>,
                .kernel = kernels::elementwise,
                .loops = loops<Sqrt, Domain::floating, 1>(),
                .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * 0.5 / v.output}; },
                .saves = kOutput,
                .flops = flops_per_element<1>,
                .samples = [] { return unary_samples(kFloats, 0.1, 4); }}};

struct Reciprocal {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return T(1) / x;
  }
};
const Op kReciprocal{{.name = "reciprocal",
                      .doc = "1 / x",
                      .inputs = 1,
                      .infer = infer_unary<Domain::floating>,
                      .kernel = kernels::elementwise,
                      .loops = loops<Reciprocal, Domain::floating, 1>(),
                      .vjp = [](const VjpCall& v) -> Gradients { return {-(v.cotangent * square(v.output))}; },
                      .saves = kOutput,
                      .flops = flops_per_element<1>,
                      .samples = [] { return unary_samples(kFloats, 0.5, 3); }}};

struct Tanh {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::tanh(x);
  }
};
const Op kTanh{{.name = "tanh",
                .doc = "The hyperbolic tangent",
                .inputs = 1,
                .infer = infer_unary<Domain::floating>,
                .kernel = kernels::elementwise,
                .loops = loops<Tanh, Domain::floating, 1>(),
                .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (1.0 - square(v.output))}; },
                .saves = kOutput,
                .flops = flops_per_element<18>,
                .samples = [] { return unary_samples(kFloats, -3, 3); }}};

struct Sigmoid {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::sigmoid(x);
  }
};
const Op kSigmoid{{.name = "sigmoid",
                   .doc = "1 / (1 + e^-x)",
                   .inputs = 1,
                   .infer = infer_unary<Domain::floating>,
                   .kernel = kernels::elementwise,
                   .loops = loops<Sigmoid, Domain::floating, 1>(),
                   .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (v.output * (1.0 - v.output))}; },
                   .saves = kOutput,
                   .flops = flops_per_element<18>,
                   .samples = [] { return unary_samples(kFloats, -4, 4); }}};

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

struct Relu {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return x < T(0) ? T(0) : x;  // NaN stays NaN
  }
};
const Op kRelu{{.name = "relu",
                .doc = "x where x > 0, else 0; its gradient at 0 is 0",
                .inputs = 1,
                .infer = infer_unary<Domain::numeric>,
                .kernel = kernels::elementwise,
                .loops = loops<Relu, Domain::numeric, 1>(),
                .vjp = [](const VjpCall& v) -> Gradients {
                  const Tensor zero = full_like(v.output, 0.0, Shape{});
                  return {where(greater(v.output, zero), v.cotangent, zero)};
                },
                .saves = kOutput,
                .flops = flops_per_element<1>,
                .samples = [] { return unary_samples(kNumbers, -3, 3); }}};

struct Gelu {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return T(0.5) * x * (T(1) + math::erf(x * T(0.70710678118654752440)));
  }
};
const Op kGelu{{.name = "gelu",
                .doc = "x Phi(x), with the exact normal distribution [Hendrycks & Gimpel 2016]",
                .inputs = 1,
                .infer = infer_unary<Domain::floating>,
                .kernel = kernels::elementwise,
                .loops = loops<Gelu, Domain::floating, 1>(),
                .vjp = [](const VjpCall& v) -> Gradients {
                  const Tensor& x = v.input(0);
                  const Tensor cdf = (erf(x * 0.70710678118654752440) + 1.0) * 0.5;
                  const Tensor density = exp(square(x) * -0.5) * 0.39894228040143267794;
                  return {v.cotangent * (cdf + x * density)};
                },
                .saves = kInput,
                .flops = flops_per_element<38>,
                .samples = [] { return unary_samples(kFloats, -3, 3); }}};

struct LogicalNot {
  DIPTYCH_INLINE static bool apply(bool x) { return !x; }
};
std::array<LoopSet, kDTypeCount> logical_not_loops() {
  std::array<LoopSet, kDTypeCount> table{};
  table[static_cast<std::size_t>(DType::boolean)] = kernels::loop_set<LogicalNot, void, bool>();
  return table;
}
const Op kLogicalNot{{.name = "logical_not",
                      .doc = "true where x is false",
                      .inputs = 1,
                      .infer =
                          [](const InferCall& call, TensorType& output) {
                            if (call.input(0).dtype != DType::boolean) {
                              call.fail_dtype("needs bool elements", "compare with 0 first");
                            }
                            output = call.input(0);
                          },
                      .kernel = kernels::elementwise,
                      .loops = logical_not_loops(),
                      .samples = [] { return unary_samples({DType::boolean}, 0, 2); }}};

struct Copy {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return x;
  }
};
/// By runs and tiles instead of a loop a row. In place there is nothing to do.
void copy_kernel(const KernelCall& call) {
  const Operand& from = call.inputs[0];
  if (from.data != call.output.data) {
    kernels::strided_copy(from.type->shape, size_of(from.type->dtype), from.data, *from.strides, call.output.data,
                          *call.output.strides);
  }
}

const Op kCopy{{.name = "copy",
                .doc = "A dense copy",
                .inputs = 1,
                .infer = infer_unary<Domain::any>,
                .kernel = copy_kernel,
                .loops = loops<Copy, Domain::any, 1>(),
                .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent}; },
                .samples = [] { return unary_samples(kAll, -9, 9); }}};

const Op kStopGradient{
    {.name = "stop_gradient",
     .doc = "x, through which no gradient flows",
     .inputs = 1,
     .infer = infer_unary<Domain::any>,
     .view =
         [](const TensorType&, const Strides& strides, const TensorType&, const void*, Layout& layout) {
           layout.strides = strides;
           return true;
         },
     .write_back = [](const Tensor&, const Tensor& value, const void*) { return value; },
     .kernel = kernels::elementwise,
     .vjp = [](const VjpCall&) -> Gradients { return {}; },
     .jvp = [](const JvpCall&) { return Tensor(); },
     .samples = [] { return unary_samples(kFloats, -2, 2); }}};

}  // namespace

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& x, Location where) { return apply_op(op, nullptr, where, x); }
DIPTYCH_PUBLIC(neg, kNeg)
DIPTYCH_PUBLIC(abs, kAbs)
DIPTYCH_PUBLIC(sign, kSign)
DIPTYCH_PUBLIC(square, kSquare)
DIPTYCH_PUBLIC(exp, kExp)
DIPTYCH_PUBLIC(log, kLog)
DIPTYCH_PUBLIC(sqrt, kSqrt)
DIPTYCH_PUBLIC(reciprocal, kReciprocal)
DIPTYCH_PUBLIC(tanh, kTanh)
DIPTYCH_PUBLIC(sigmoid, kSigmoid)
DIPTYCH_PUBLIC(erf, kErf)
DIPTYCH_PUBLIC(relu, kRelu)
DIPTYCH_PUBLIC(gelu, kGelu)
DIPTYCH_PUBLIC(logical_not, kLogicalNot)
DIPTYCH_PUBLIC(copy, kCopy)
DIPTYCH_PUBLIC(stop_gradient, kStopGradient)
#undef DIPTYCH_PUBLIC

Tensor contiguous(const Tensor& x, Location where) { return x.is_contiguous() ? x : copy(x, where); }

}  // namespace diptych
