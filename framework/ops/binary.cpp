// Binary elementwise ops on numbers. Each entry starts with its scalar function.

#include "framework/ops/binary.h"

#include <cmath>
#include <functional>

#include "framework/dispatch/element_error.h"
#include "framework/math/power.h"
#include "framework/math/simple_functions.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/storage_types.h"

namespace diptych {
namespace {

using namespace ops;
using math::Wrapping;

constexpr Saves kBoth{.inputs = 3};

const Op kAdd{elementwise_op<Wrapping<std::plus>, Domain::numeric, 2>(
    {.name = "add",
     .doc = "a + b",
     .vjp = [](const VjpCall& v) -> Gradients {
       return {v.cotangent, v.cotangent};
     },
     .flops = flops_per_element<1>,
     .samples = [] { return binary_samples(kNumbers, -3, 3); }})};

const Op kSub{elementwise_op<Wrapping<std::minus>, Domain::numeric, 2>(
    {.name = "sub",
     .doc = "a - b",
     .vjp = [](const VjpCall& v) -> Gradients {
       return {v.cotangent, v.needs(1) ? neg(v.cotangent) : Tensor()};
     },
     .flops = flops_per_element<1>,
     .samples = [] { return binary_samples(kNumbers, -3, 3); }})};

const Op kMul{elementwise_op<Wrapping<std::multiplies>, Domain::numeric, 2>(
    {.name = "mul",
     .doc = "a * b",
     .vjp = [](const VjpCall& v) -> Gradients {
       return {v.needs(0) ? mul(v.cotangent, v.input(1)) : Tensor(),
               v.needs(1) ? mul(v.cotangent, v.input(0)) : Tensor()};
     },
     .saves = kBoth,
     .flops = flops_per_element<1>,
     .samples = [] { return binary_samples(kNumbers, -3, 3); }})};

struct Div {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return a / b;
  }
};
const Op kDiv{
    elementwise_op<Div, Domain::floating, 2>({.name = "div",
                                              .doc = "a / b",
                                              .vjp = [](const VjpCall& v) -> Gradients {
                                                const Tensor quotient = div(v.cotangent, v.input(1));
                                                return {quotient, v.needs(1) ? neg(mul(quotient, v.output)) : Tensor()};
                                              },
                                              .saves = {.inputs = 2, .output = true},
                                              .flops = flops_per_element<1>,
                                              .samples = [] { return binary_samples(kFloats, 0.5, 3); }})};

/// Twice the exponent is `n`.
template <int n>
struct HalfPower {
  static constexpr double kSecond = 0.5 * n;
  static constexpr bool kOnlyFloats = n < 0 || n % 2 != 0;
  /// Products, quotients and roots that the power needs, without error terms.
  static constexpr double kFlops = n == 0 || n == 2 ? 0 : n == 4 || n == 1 || n == -2 ? 1 : n == -3 ? 3 : 2;
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return math::integer_pow(x, static_cast<T>(n / 2));
    } else {
      return math::half_power<n>(x);
    }
  }
};
constexpr int kFlopsOfLongPow = 90;
struct LongPow {
  static constexpr bool kFixedInBlocks = true;
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return math::integer_pow(a, b);
    } else {
      return math::long_pow(a, b);
    }
  }
};
struct Pow {
  using Short = kernels::Functions<HalfPower<4>, HalfPower<2>, HalfPower<6>, HalfPower<8>, HalfPower<0>, HalfPower<1>,
                                   HalfPower<-1>, HalfPower<-2>, HalfPower<-3>, HalfPower<-4>>;
  using Long = LongPow;
  template <class One>
  using Shortened = One;
  static constexpr bool kFixedInBlocks = true;
  template <class T>
  DIPTYCH_INLINE static bool may_be_short(T b) {
    return math::may_be_short_power(b);
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return math::integer_pow(a, b);
    } else {
      return math::pow(a, b);
    }
  }
};
const Op kPow{elementwise_op<Pow, Domain::numeric, 2>(
    {.name = "pow",
     .doc = "a to the power b, as C's pow for floats; integers wrap around",
     .vjp = [](const VjpCall& v) -> Gradients {
       const Tensor& a = v.input(0);
       const Tensor& b = v.input(1);
       const Tensor zero = full_like(b, 0.0, Shape{});
       Gradients gradients;
       if (v.needs(0)) {  // 0, not 0 * inf, where b = 0
         gradients[0] = where(equal(b, zero), zero, v.cotangent * (b * pow(a, b - 1.0)));
       }
       if (v.needs(1)) {  // 0, not 0 * log(0), where a = 0
         const Tensor flat = logical_and(equal(a, zero), greater_equal(b, zero));
         gradients[1] = where(flat, zero, v.cotangent * (v.output * log(where(flat, full_like(a, 1.0, Shape{}), a))));
       }
       return gradients;
     },
     .saves = {.inputs = 3, .output = true},
     .flops = flops_per_element<kFlopsOfLongPow>,  // of numbers: flops_of_pow()
     .samples =
         [] {
           std::vector<Sample> samples = binary_samples(kNumbers, 0.5, 3);
           for (Sample& sample : samples) {
             sample.inputs[1].low = is_floating(sample.inputs[1].type.dtype) ? -2 : 0;
             sample.inputs[0].low = sample.inputs[0].type.dtype == DType::int32 ? -4 : sample.inputs[0].low;
           }
           return samples;
         }})};

struct RemainderCommon {
  /// For operands where floor(a / b) is right or one too high, and where subtracting floor(a / b) * b cancels exactly.
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    const T r = math::fma(-math::floor(a / b), b, a);
    return with_sign_of(b, r);
  }
  template <class T>
  DIPTYCH_INLINE static T with_sign_of(T b, T r) {
    const T same_side = (r < T(0)) == (b < T(0)) ? r : r + b;
    return r == T(0) ? math::copy_sign(T(0), b) : same_side;
  }
};
struct Remainder {
  static constexpr bool kFixedInBlocks = true;
  using Common = RemainderCommon;
  template <class T>
  DIPTYCH_INLINE static bool is_common(T a, T b) {
    constexpr T kEnd = std::is_same_v<T, float> ? T(0x1p22) : T(0x1p51);
    return math::abs(a / b) < kEnd && math::abs(b) <= std::numeric_limits<T>::max();
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return RemainderCommon::with_sign_of(b, std::fmod(a, b));  // fmod is exact, so the result is the same everywhere
    } else {
      if (b == T(0)) [[unlikely]] {
        throw ElementError("remainder: an integer is divided by zero", "check the divisor, or cast to f32 for NaN");
      }
      if constexpr (std::is_signed_v<T>) {
        const T r = b == T(-1) ? T(0) : static_cast<T>(a % b);  // the least integer % -1 overflows
        return r != T(0) && (r < T(0)) != (b < T(0)) ? static_cast<T>(r + b) : r;
      } else {
        return static_cast<T>(a % b);
      }
    }
  }
};
const Op kRemainder{elementwise_op<Remainder, Domain::numeric, 2>(
    {.name = "remainder",
     .doc = "a - floor(a / b) * b: the remainder with b's sign; an integer b must not be 0",
     .vjp = [](const VjpCall& v) -> Gradients {
       return {v.cotangent, v.needs(1) ? neg(mul(v.cotangent, floor(div(v.input(0), v.input(1))))) : Tensor()};
     },
     .saves = kBoth,
     .can_fail = true,
     .flops = flops_per_element<5>,
     .samples =
         [] {
           std::vector<Sample> samples = binary_samples(kNumbers, -7, 7);
           for (Sample& sample : samples) {
             sample.inputs[1].low = 1;
           }
           samples.push_back({{sample(DType::int64, {5}, -9, 9), sample(DType::int64, {5}, -9, 0)}, {}});
           samples.push_back({{sample(DType::float64, {5}, -9, 9), sample(DType::float64, {5}, -4, -2)}, {}});
           return samples;
         }})};

struct Quotient {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;  // never runs: inference refuses floats
    } else {
      if (b == T(0)) [[unlikely]] {
        throw ElementError("quotient: an integer is divided by zero",
                           "check the divisor, or cast to f32 for an infinity");
      }
      if constexpr (std::is_signed_v<T>) {
        // The least integer / -1 overflows: it wraps around, as mul does.
        return b == T(-1) ? Wrapping<std::minus>::apply(T(0), a) : static_cast<T>(a / b);
      } else {
        return static_cast<T>(a / b);
      }
    }
  }
};
const Op kQuotient{elementwise_op(
    {.name = "quotient",
     .doc = "a / b for integers, towards zero; b must not be 0",
     .inputs = 2,
     .infer =
         [](const InferCall& call, TensorType& output) {
           if (!is_integral(call.input(0).dtype)) {
             call.fail_dtype("needs integers", "floats are divided by div");
           }
           infer_binary<Domain::numeric>(call, output);
         },
     .loops = loops<Quotient, Domain::numeric, 2>(),
     .can_fail = true,
     .flops = flops_per_element<1>,
     .samples =
         [] {
           std::vector<Sample> samples = binary_samples({DType::uint8, DType::int32, DType::int64}, -7, 7);
           for (Sample& sample : samples) {
             sample.inputs[1].low = 1;
           }
           return samples;
         }})};

/// The gradient of maximum and minimum goes to the operand that was taken; equal operands share it.
Gradients pick_gradient(const VjpCall& v, const Tensor& first_taken) {
  const Tensor zero = full_like(v.cotangent, 0.0, Shape{});
  const Tensor half = v.cotangent * 0.5;
  const Tensor tie = equal(v.input(0), v.input(1));
  return {v.needs(0) ? where(tie, half, where(first_taken, v.cotangent, zero)) : Tensor(),
          v.needs(1) ? where(tie, half, where(first_taken, zero, v.cotangent)) : Tensor()};
}

struct Maximum {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::maximum(a, b);
  }
};
const Op kMaximum{elementwise_op<Maximum, Domain::numeric, 2>(
    {.name = "maximum",
     .doc = "The larger of a and b; NaN if either is",
     .vjp = [](const VjpCall& v) { return pick_gradient(v, greater(v.input(0), v.input(1))); },
     .saves = kBoth,
     .flops = flops_per_element<1>,
     .samples = [] { return binary_samples(kNumbers, -3, 3); }})};

struct Minimum {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::minimum(a, b);
  }
};
const Op kMinimum{elementwise_op<Minimum, Domain::numeric, 2>(
    {.name = "minimum",
     .doc = "The smaller of a and b; NaN if either is",
     .vjp = [](const VjpCall& v) { return pick_gradient(v, less(v.input(0), v.input(1))); },
     .saves = kBoth,
     .flops = flops_per_element<1>,
     .samples = [] { return binary_samples(kNumbers, -3, 3); }})};

}  // namespace

namespace op {
const OpDef& add = *kAdd;
const OpDef& sub = *kSub;
const OpDef& mul = *kMul;
const OpDef& div = *kDiv;
const OpDef& pow = *kPow;
const OpDef& remainder = *kRemainder;
const OpDef& quotient = *kQuotient;
const OpDef& maximum = *kMaximum;
const OpDef& minimum = *kMinimum;
}  // namespace op

namespace {
template <class... Short>
double flops_of_power(double exponent, kernels::Functions<Short...> /*list*/) {
  double flops = kFlopsOfLongPow;
  ((flops = exponent == Short::kSecond ? Short::kFlops : flops), ...);
  return flops;
}
}  // namespace
double ops::flops_of_pow(double exponent) { return flops_of_power(exponent, Pow::Short()); }

Tensor ops::apply_promoted(const Op& op, const Tensor& a, const Tensor& b, Location where) {
  if (a.defined() && b.defined()) {
    if (a.dtype() != b.dtype()) [[unlikely]] {
      const DType common = promote(a.dtype(), b.dtype());
      return apply_promoted(op, cast(a, common, where), cast(b, common, where), where);
    }
    if (is_storage(a.dtype())) [[unlikely]] {
      return apply_stored(op, a, b, where);
    }
  }
  return apply_op(op, nullptr, where, a, b);
}

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& a, const Tensor& b, Location where) { return ops::apply_promoted(op, a, b, where); }
DIPTYCH_PUBLIC(add, kAdd)
DIPTYCH_PUBLIC(sub, kSub)
DIPTYCH_PUBLIC(mul, kMul)
DIPTYCH_PUBLIC(remainder, kRemainder)
DIPTYCH_PUBLIC(quotient, kQuotient)
DIPTYCH_PUBLIC(maximum, kMaximum)
DIPTYCH_PUBLIC(minimum, kMinimum)
#undef DIPTYCH_PUBLIC

Tensor div(const Tensor& a, const Tensor& b, Location where) {
  if (a.defined() && b.defined() && !is_floating(a.dtype()) && !is_floating(b.dtype())) {
    return ops::apply_promoted(kDiv, cast(a, DType::float32, where), cast(b, DType::float32, where), where);
  }
  return ops::apply_promoted(kDiv, a, b, where);
}

Tensor pow(const Tensor& base, const Term& exponent) {
  if (exponent.tensor() == nullptr && exponent.number() == 2 && base.dtype() != DType::boolean) {
    return square(base, exponent.where());  // exact: both are one product, rounded once
  }
  return ops::apply_promoted(kPow, base, exponent.tensor() != nullptr ? *exponent.tensor() : exponent.like(base),
                             exponent.where());
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
