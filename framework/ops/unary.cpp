// Unary arithmetic. Each entry starts with its scalar function. See transcendental.cpp and activation.cpp for more.

#include "framework/kernels/dense.h"
#include "framework/math/simple_functions.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/storage_types.h"

namespace diptych {
namespace {

using namespace ops;
using math::Neg;
using math::Square;

const Op kNeg{
    elementwise_op<Neg, Domain::numeric, 1>({.name = "neg",
                                             .doc = "-x",
                                             .vjp = [](const VjpCall& v) -> Gradients { return {neg(v.cotangent)}; },
                                             .flops = flops_per_element<1>,
                                             .samples = [] { return unary_samples(kNumbers, -3, 3); }})};

struct Abs {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::abs(x);
  }
};
const Op kAbs{elementwise_op<Abs, Domain::numeric, 1>(
    {.name = "abs",
     .doc = "The magnitude of x",
     .vjp = [](const VjpCall& v) -> Gradients { return {mul(v.cotangent, sign(v.input(0)))}; },
     .saves = kInput,
     .flops = flops_per_element<1>,
     .samples = [] { return unary_samples(kNumbers, -3, 3); }})};

struct Sign {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    const T nonzero = x < T(0) ? T(-1) : T(1);
    return x == T(0) || x != x ? x : nonzero;
  }
};
const Op kSign{elementwise_op<Sign, Domain::numeric, 1>({.name = "sign",
                                                         .doc = "-1, 0 or 1; its gradient is 0",
                                                         .vjp = [](const VjpCall&) -> Gradients { return {}; },
                                                         .flops = flops_per_element<1>,
                                                         .samples = [] { return unary_samples(kNumbers, -3, 3); }})};

const Op kSquare{elementwise_op<Square, Domain::numeric, 1>(
    {.name = "square",
     .doc = "x * x",
     .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (v.input(0) * 2.0)}; },
     .saves = kInput,
     .flops = flops_per_element<1>,
     .samples = [] { return unary_samples(kNumbers, -3, 3); }})};

struct Sqrt {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return math::sqrt(x);
  }
};
const Op kSqrt{elementwise_op<Sqrt, Domain::floating, 1>(
    {.name = "sqrt",
     .doc = "The square root",
     .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * 0.5 / v.output}; },
     .saves = kOutput,
     .flops = flops_per_element<1>,
     .samples = [] { return unary_samples(kFloats, 0.1, 4); }})};

struct Reciprocal {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return T(1) / x;
  }
};
const Op kReciprocal{elementwise_op<Reciprocal, Domain::floating, 1>(
    {.name = "reciprocal",
     .doc = "1 / x",
     .vjp = [](const VjpCall& v) -> Gradients { return {-(v.cotangent * square(v.output))}; },
     .saves = kOutput,
     .flops = flops_per_element<1>,
     .samples = [] { return unary_samples(kFloats, 0.5, 3); }})};

struct Rsqrt {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return T(1) / math::sqrt(x);
  }
};
const Op kRsqrt{elementwise_op<Rsqrt, Domain::floating, 1>(
    {.name = "rsqrt",
     .doc = "1 / sqrt(x)",
     .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent * (v.output * square(v.output) * -0.5)}; },
     .saves = kOutput,
     .flops = flops_per_element<2>,
     .samples = [] { return unary_samples(kFloats, 0.5, 4); }})};

struct Floor {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return math::floor(x);
    }
  }
};
struct Ceil {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return -math::floor(-x);
    }
  }
};
struct Round {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return math::round_even(x);
    }
  }
};

/// Step functions: constant except for their jumps.
template <class Fn>
OpDef step(const char* name, const char* doc) {
  return elementwise_op<Fn, Domain::numeric, 1>({.name = name,
                                                 .doc = doc,
                                                 .vjp = [](const VjpCall&) -> Gradients { return {}; },
                                                 .flops = flops_per_element<1>,
                                                 .samples = [] { return unary_samples(kNumbers, -5, 5); }});
}
const Op kFloor{step<Floor>("floor", "The largest integer that is at most x; its gradient is 0")};
const Op kCeil{step<Ceil>("ceil", "The smallest integer that is at least x; its gradient is 0")};
const Op kRound{step<Round>("round", "The nearest integer, ties to even; its gradient is 0")};

struct IsNan {
  template <class T>
  DIPTYCH_INLINE static bool apply(T x) {
    return x != x;
  }
};
struct IsInf {
  template <class T>
  DIPTYCH_INLINE static bool apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return false;
    } else {
      return math::abs(x) == std::numeric_limits<T>::infinity();
    }
  }
};
struct IsFinite {
  template <class T>
  DIPTYCH_INLINE static bool apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return true;
    } else {
      return math::abs(x) <= std::numeric_limits<T>::max();
    }
  }
};

template <class Fn>
OpDef classification(const char* name, const char* doc) {
  return elementwise_op<Fn, Domain::any, 1>({.name = name,
                                             .doc = doc,
                                             .infer =
                                                 [](const InferCall& call, TensorType& output) {
                                                   output.dtype = DType::boolean;
                                                   output.shape = call.shape(0);
                                                 },
                                             .flops = flops_per_element<1>,
                                             .samples = [] { return unary_samples(kAll, -3, 3); }});
}
const Op kIsNan{classification<IsNan>("isnan", "true where x is NaN")};
const Op kIsInf{classification<IsInf>("isinf", "true where x is an infinity")};
const Op kIsFinite{classification<IsFinite>("isfinite", "true where x is neither an infinity nor NaN")};

struct LogicalNot {
  DIPTYCH_INLINE static bool apply(bool x) { return !x; }
};
std::array<LoopSet, kDTypeCount> logical_not_loops() {
  std::array<LoopSet, kDTypeCount> table{};
  table[static_cast<std::size_t>(DType::boolean)] = kernels::loop_set<LogicalNot, void, bool>();
  return table;
}
const Op kLogicalNot{elementwise_op({.name = "logical_not",
                                     .doc = "true where x is false",
                                     .inputs = 1,
                                     .infer =
                                         [](const InferCall& call, TensorType& output) {
                                           if (call.input(0).dtype != DType::boolean) {
                                             call.fail_dtype("needs bool elements", "compare with 0 first");
                                           }
                                           output = call.input(0);
                                         },
                                     .loops = logical_not_loops(),
                                     .samples = [] { return unary_samples({DType::boolean}, 0, 2); }})};

struct Copy {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return x;
  }
  template <class Bits>
  static constexpr LoopSet of() {
    return kernels::loop_set<Copy, void, Bits>();
  }
};
/// Copies by runs and tiles instead of one loop per row. In place there is nothing to do.
void strided_copy_kernel(const KernelCall& call) {
  const Operand& from = call.inputs[0];
  if (from.data != call.output.data) {
    kernels::strided_copy(from, call.output.data, *call.output.strides);
  }
}

const Op kCopy{elementwise_op({.name = "copy",
                               .doc = "A dense copy",
                               .inputs = 1,
                               .infer = infer_unary<Domain::any>,
                               .kernel = strided_copy_kernel,
                               .stores = true,
                               .own_walk = true,
                               .loops = bit_loops<Copy>(),
                               .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent}; },
                               .samples = [] { return unary_samples(kEvery, -9, 9); }})};

const Op kStopGradient{
    view_op({.name = "stop_gradient",
             .doc = "x, through which no gradient flows",
             .inputs = 1,
             .infer = infer_unary<Domain::any>,
             .view =
                 [](const TensorType&, const Strides& strides, const TensorType&, const void*, Layout& layout) {
                   layout.strides = strides;
                   return true;
                 },
             .write_back = [](const Tensor&, const Tensor& value, const void*) { return value; },
             .kernel = strided_copy_kernel,
             .vjp = [](const VjpCall&) -> Gradients { return {}; },
             .jvp = [](const JvpCall&) { return Tensor(); },
             .samples = [] { return unary_samples(kFloats, -2, 2); }})};

}  // namespace

namespace op {
const OpDef& neg = *kNeg;
const OpDef& abs = *kAbs;
const OpDef& sign = *kSign;
const OpDef& square = *kSquare;
const OpDef& sqrt = *kSqrt;
const OpDef& reciprocal = *kReciprocal;
const OpDef& rsqrt = *kRsqrt;
const OpDef& floor = *kFloor;
const OpDef& ceil = *kCeil;
const OpDef& round = *kRound;
const OpDef& isnan = *kIsNan;
const OpDef& isinf = *kIsInf;
const OpDef& isfinite = *kIsFinite;
const OpDef& logical_not = *kLogicalNot;
const OpDef& copy = *kCopy;
const OpDef& stop_gradient = *kStopGradient;
}  // namespace op

#define DIPTYCH_PUBLIC(function, op)                                                 \
  Tensor function(const Tensor& x, Location where) {                                 \
    const bool is_stored = x.defined() && is_storage(x.dtype());                     \
    return is_stored ? apply_stored(op, x, where) : apply_op(op, nullptr, where, x); \
  }
DIPTYCH_PUBLIC(neg, kNeg)
DIPTYCH_PUBLIC(abs, kAbs)
DIPTYCH_PUBLIC(sign, kSign)
DIPTYCH_PUBLIC(square, kSquare)
DIPTYCH_PUBLIC(sqrt, kSqrt)
DIPTYCH_PUBLIC(reciprocal, kReciprocal)
DIPTYCH_PUBLIC(rsqrt, kRsqrt)
DIPTYCH_PUBLIC(floor, kFloor)
DIPTYCH_PUBLIC(ceil, kCeil)
DIPTYCH_PUBLIC(round, kRound)
DIPTYCH_PUBLIC(isnan, kIsNan)
DIPTYCH_PUBLIC(isinf, kIsInf)
DIPTYCH_PUBLIC(isfinite, kIsFinite)
#undef DIPTYCH_PUBLIC

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& x, Location where) { return apply_op(op, nullptr, where, x); }
DIPTYCH_PUBLIC(logical_not, kLogicalNot)
DIPTYCH_PUBLIC(copy, kCopy)
DIPTYCH_PUBLIC(stop_gradient, kStopGradient)
#undef DIPTYCH_PUBLIC

Tensor contiguous(const Tensor& x, Location where) { return x.is_contiguous() ? x : copy(x, where); }

}  // namespace diptych
