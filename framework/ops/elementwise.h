#pragma once

#include <type_traits>

#include "framework/core/variable.h"
#include "framework/ops/activation.h"

/// Elementwise ops. Binary ones broadcast (NumPy's rule) and promote (DType's table); docs/ops.md lists all of them.
namespace diptych {

Tensor neg(const Tensor& x, Location where = Location::current());
Tensor abs(const Tensor& x, Location where = Location::current());
Tensor sign(const Tensor& x, Location where = Location::current());
Tensor square(const Tensor& x, Location where = Location::current());
Tensor exp(const Tensor& x, Location where = Location::current());
Tensor expm1(const Tensor& x, Location where = Location::current());
Tensor log(const Tensor& x, Location where = Location::current());
Tensor log1p(const Tensor& x, Location where = Location::current());
Tensor sqrt(const Tensor& x, Location where = Location::current());
Tensor rsqrt(const Tensor& x, Location where = Location::current());
Tensor reciprocal(const Tensor& x, Location where = Location::current());
/// In radians, of any magnitude.
Tensor sin(const Tensor& x, Location where = Location::current());
Tensor cos(const Tensor& x, Location where = Location::current());
Tensor atan(const Tensor& x, Location where = Location::current());
Tensor erf(const Tensor& x, Location where = Location::current());
Tensor floor(const Tensor& x, Location where = Location::current());
Tensor ceil(const Tensor& x, Location where = Location::current());
/// To the nearest integer, ties to even.
Tensor round(const Tensor& x, Location where = Location::current());
Tensor isnan(const Tensor& x, Location where = Location::current());
Tensor isinf(const Tensor& x, Location where = Location::current());
Tensor isfinite(const Tensor& x, Location where = Location::current());
Tensor logical_not(const Tensor& x, Location where = Location::current());
/// The same value, but without gradient flow.
Tensor stop_gradient(const Tensor& x, Location where = Location::current());

Tensor add(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor sub(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor mul(const Tensor& a, const Tensor& b, Location where = Location::current());
/// Integers are divided as f32.
Tensor div(const Tensor& a, const Tensor& b, Location where = Location::current());
/// The remainder with the divisor's sign: a - floor(a / b) * b without rounding, like Python's %. Throws Error if an
/// integer is divided by zero; floats give NaN.
Tensor remainder(const Tensor& a, const Tensor& b, Location where = Location::current());
/// Integer division that rounds towards zero, like C's /. Throws Error for a division by zero, DTypeError for floats.
Tensor quotient(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor maximum(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor minimum(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor logical_and(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor logical_or(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor logical_xor(const Tensor& a, const Tensor& b, Location where = Location::current());

Tensor equal(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor not_equal(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor less(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor less_equal(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor greater(const Tensor& a, const Tensor& b, Location where = Location::current());
Tensor greater_equal(const Tensor& a, const Tensor& b, Location where = Location::current());

/// `a` where `condition` (bool), else `b`.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Location location = Location::current());
/// Float to integer truncates, saturates at the ends and maps NaN to 0; integer to integer wraps around.
Tensor cast(const Tensor& x, DType dtype, Location where = Location::current());
Tensor copy(const Tensor& x, Location where = Location::current());
/// The tensor itself if it is dense, else a dense copy.
Tensor contiguous(const Tensor& x, Location where = Location::current());

/// The right side of an operator: a tensor, or a number that takes the left side's type. It records the caller's line,
/// which an operator can't.
class Term {
 public:
  // NOLINTBEGIN(google-explicit-constructor): conversions are what it is for.
  Term(const Tensor& tensor, Location where = Location::current()) : tensor_(&tensor), where_(where) {}
  Term(const Variable& variable, Location where = Location::current())
      : owned_(variable.value()), tensor_(&owned_), where_(where) {}
  template <class T>
  requires std::is_arithmetic_v<T> Term(T number, Location where = Location::current())
      : number_(static_cast<double>(number)), where_(where) {}
  // NOLINTEND(google-explicit-constructor)
  Term(const Term&) = delete;
  Term& operator=(const Term&) = delete;
  ~Term() = default;

  Location where() const { return where_; }
  double number() const { return number_; }
  /// Null for a number.
  const Tensor* tensor() const { return tensor_; }
  Tensor like(const Tensor& other) const;

 private:
  Tensor owned_;
  const Tensor* tensor_ = nullptr;
  double number_ = 0;
  Location where_;
};

#define DIPTYCH_OPERATOR(symbol, function)                                                                  \
  inline Tensor operator symbol(const Tensor& a, const Term& b) {                                           \
    return b.tensor() != nullptr ? function(a, *b.tensor(), b.where()) : function(a, b.like(a), b.where()); \
  }                                                                                                         \
  template <class T>                                                                                        \
  requires std::is_arithmetic_v<T> Tensor operator symbol(T a, const Term& b) {                             \
    return function(Term(a, b.where()).like(*b.tensor()), *b.tensor(), b.where());                          \
  }
DIPTYCH_OPERATOR(+, add)
DIPTYCH_OPERATOR(-, sub)
DIPTYCH_OPERATOR(*, mul)
DIPTYCH_OPERATOR(/, div)
#undef DIPTYCH_OPERATOR

/// base to the power exponent, like C's pow for floats. Integers wrap around, and their negative powers are 0 (except
/// those of 1 and -1). A number takes the other side's type.
Tensor pow(const Tensor& base, const Term& exponent);
template <class T>
requires std::is_arithmetic_v<T> Tensor pow(T base, const Term& exponent) {
  return pow(Term(base, exponent.where()).like(*exponent.tensor()), exponent);
}

inline Tensor operator-(const Term& x) { return neg(*x.tensor(), x.where()); }

}  // namespace diptych
