// Binary elementwise ops and comparisons: one entry each, the scalar function first.

#include <functional>

#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"

namespace diptych {
namespace {

using namespace ops;

constexpr Saves kBoth{.inputs = 3};

/// Integers wrap around, as two's complement does.
template <template <class> class Function>
struct Wrapping {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(Function<U>()(static_cast<U>(a), static_cast<U>(b)));
    } else {
      return Function<T>()(a, b);
    }
  }
};

const Op kAdd{{.name = "add",
               .doc = "a + b",
               .inputs = 2,
               .infer = infer_binary<Domain::numeric>,
               .kernel = kernels::elementwise,
               .loops = loops<Wrapping<std::plus>, Domain::numeric, 2>(),
               .vjp = [](const VjpCall& v) -> Gradients {
                 return {v.cotangent, v.cotangent};
               },
               .flops = flops_per_element<1>,
               .samples = [] { return binary_samples(kNumbers, -3, 3); }}};

const Op kSub{{.name = "sub",
               .doc = "a - b",
               .inputs = 2,
               .infer = infer_binary<Domain::numeric>,
               .kernel = kernels::elementwise,
               .loops = loops<Wrapping<std::minus>, Domain::numeric, 2>(),
               .vjp = [](const VjpCall& v) -> Gradients {
                 return {v.cotangent, v.needs(1) ? neg(v.cotangent) : Tensor()};
               },
               .flops = flops_per_element<1>,
               .samples = [] { return binary_samples(kNumbers, -3, 3); }}};

const Op kMul{{.name = "mul",
               .doc = "a * b",
               .inputs = 2,
               .infer = infer_binary<Domain::numeric>,
               .kernel = kernels::elementwise,
               .loops = loops<Wrapping<std::multiplies>, Domain::numeric, 2>(),
               .vjp = [](const VjpCall& v) -> Gradients {
                 return {v.needs(0) ? mul(v.cotangent, v.input(1)) : Tensor(),
                         v.needs(1) ? mul(v.cotangent, v.input(0)) : Tensor()};
               },
               .saves = kBoth,
               .flops = flops_per_element<1>,
               .samples = [] { return binary_samples(kNumbers, -3, 3); }}};

struct Div {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return a / b;
  }
};
const Op kDiv{{.name = "div",
               .doc = "a / b",
               .inputs = 2,
               .infer = infer_binary<Domain::floating>,
               .kernel = kernels::elementwise,
               .loops = loops<Div, Domain::floating, 2>(),
               .vjp = [](const VjpCall& v) -> Gradients {
                 const Tensor quotient = div(v.cotangent, v.input(1));
                 return {quotient, v.needs(1) ? neg(mul(quotient, v.output)) : Tensor()};
               },
               .saves = {.inputs = 2, .output = true},
               .flops = flops_per_element<1>,
               .samples = [] { return binary_samples(kFloats, 0.5, 3); }}};

/// The gradient of maximum and minimum goes to the one that was taken; equal ones share it.
Gradients pick_gradient(const VjpCall& v, const Tensor& first_taken) {
  const Tensor zero = full_like(v.cotangent, 0.0, Shape{});
  const Tensor half = v.cotangent * 0.5;
  const Tensor tie = equal(v.input(0), v.input(1));
  return {where(tie, half, where(first_taken, v.cotangent, zero)),
          where(tie, half, where(first_taken, zero, v.cotangent))};
}

struct Maximum {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::maximum(a, b);
  }
};
const Op kMaximum{{.name = "maximum",
                   .doc = "The larger of a and b; NaN if either is",
                   .inputs = 2,
                   .infer = infer_binary<Domain::numeric>,
                   .kernel = kernels::elementwise,
                   .loops = loops<Maximum, Domain::numeric, 2>(),
                   .vjp = [](const VjpCall& v) { return pick_gradient(v, greater(v.input(0), v.input(1))); },
                   .saves = kBoth,
                   .flops = flops_per_element<1>,
                   .samples = [] { return binary_samples(kNumbers, -3, 3); }}};

struct Minimum {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::minimum(a, b);
  }
};
const Op kMinimum{{.name = "minimum",
                   .doc = "The smaller of a and b; NaN if either is",
                   .inputs = 2,
                   .infer = infer_binary<Domain::numeric>,
                   .kernel = kernels::elementwise,
                   .loops = loops<Minimum, Domain::numeric, 2>(),
                   .vjp = [](const VjpCall& v) { return pick_gradient(v, less(v.input(0), v.input(1))); },
                   .saves = kBoth,
                   .flops = flops_per_element<1>,
                   .samples = [] { return binary_samples(kNumbers, -3, 3); }}};

template <template <class> class Function>
struct Comparison {
  template <class T>
  DIPTYCH_INLINE static bool apply(T a, T b) {
    return Function<T>()(a, b);
  }
};

template <template <class> class Function>
OpDef comparison(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .inputs = 2,
          .infer = infer_comparison,
          .kernel = kernels::elementwise,
          .loops = loops<Comparison<Function>, Domain::any, 2>(),
          .flops = flops_per_element<1>,
          .samples = [] { return binary_samples(kAll, -2, 2); }};
}

const Op kEqual{comparison<std::equal_to>("equal", "a == b")};
const Op kNotEqual{comparison<std::not_equal_to>("not_equal", "a != b")};
const Op kLess{comparison<std::less>("less", "a < b")};
const Op kLessEqual{comparison<std::less_equal>("less_equal", "a <= b")};
const Op kGreater{comparison<std::greater>("greater", "a > b")};
const Op kGreaterEqual{comparison<std::greater_equal>("greater_equal", "a >= b")};

struct And {
  DIPTYCH_INLINE static bool apply(bool a, bool b) {
    return static_cast<bool>(static_cast<int>(a) & static_cast<int>(b));
  }
};
struct Or {
  DIPTYCH_INLINE static bool apply(bool a, bool b) {
    return static_cast<bool>(static_cast<int>(a) | static_cast<int>(b));
  }
};

template <class Function>
OpDef logical(const char* name, const char* doc) {
  std::array<LoopSet, kDTypeCount> table{};
  table[static_cast<std::size_t>(DType::boolean)] = kernels::loop_set<Function, void, bool, bool>();
  return {.name = name,
          .doc = doc,
          .inputs = 2,
          .infer =
              [](const InferCall& call, TensorType& output) {
                if (call.input(0).dtype != DType::boolean) {
                  call.fail_dtype("needs bool elements", "compare with 0 first");
                }
                infer_comparison(call, output);
              },
          .kernel = kernels::elementwise,
          .loops = table,
          .samples = [] { return binary_samples({DType::boolean}, 0, 2); }};
}

const Op kLogicalAnd{logical<And>("logical_and", "true where both are")};
const Op kLogicalOr{logical<Or>("logical_or", "true where at least one is")};

Tensor binary(const Op& op, const Tensor& a, const Tensor& b, Location where) {
  if (a.defined() && b.defined() && a.dtype() != b.dtype()) [[unlikely]] {
    const DType common = promote(a.dtype(), b.dtype());
    return apply_op(op, nullptr, where, cast(a, common, where), cast(b, common, where));
  }
  return apply_op(op, nullptr, where, a, b);
}

}  // namespace

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& a, const Tensor& b, Location where) { return binary(op, a, b, where); }
DIPTYCH_PUBLIC(add, kAdd)
DIPTYCH_PUBLIC(sub, kSub)
DIPTYCH_PUBLIC(mul, kMul)
DIPTYCH_PUBLIC(maximum, kMaximum)
DIPTYCH_PUBLIC(minimum, kMinimum)
DIPTYCH_PUBLIC(equal, kEqual)
DIPTYCH_PUBLIC(not_equal, kNotEqual)
DIPTYCH_PUBLIC(less, kLess)
DIPTYCH_PUBLIC(less_equal, kLessEqual)
DIPTYCH_PUBLIC(greater, kGreater)
DIPTYCH_PUBLIC(greater_equal, kGreaterEqual)
DIPTYCH_PUBLIC(logical_and, kLogicalAnd)
DIPTYCH_PUBLIC(logical_or, kLogicalOr)
#undef DIPTYCH_PUBLIC

Tensor div(const Tensor& a, const Tensor& b, Location where) {
  if (a.defined() && b.defined() && !is_floating(a.dtype()) && !is_floating(b.dtype())) {
    return binary(kDiv, cast(a, DType::float32, where), cast(b, DType::float32, where), where);
  }
  return binary(kDiv, a, b, where);
}

Tensor Term::like(const Tensor& other) const {
  const bool whole = number_ == static_cast<double>(static_cast<std::int64_t>(number_));
  const DType dtype = is_floating(other.dtype())        ? other.dtype()
                      : !whole                          ? DType::float32
                      : other.dtype() == DType::boolean ? DType::int64
                                                        : other.dtype();
  return full(Shape{}, number_, dtype, where_);
}

}  // namespace diptych
