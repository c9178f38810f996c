#include "framework/ops/storage_types.h"

#include <algorithm>
#include <array>
#include <limits>

#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {

using namespace ops;

namespace {

Tensor number(std::int64_t value) { return Tensor::scalar(value); }
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

bool is_one_of(const OpDef& op, std::initializer_list<const OpDef*> list) {
  return std::find(list.begin(), list.end(), &op) != list.end();
}

/// a / b of u64, as i64 of the same bits. A divisor from 2^63 on goes at most once. Below it, half of a has a sign:
/// twice its quotient is at most one too small.
Tensor unsigned_quotient(const Tensor& a, const Tensor& b, Location location) {
  const Tensor is_large = less(b, number(0), location);
  const Tensor divisor = where(is_large, number(1), b, location);
  // Half of a, rounded down: for an a with its highest bit set, its rest halved and the bit one place lower.
  const Tensor half = where(
      less(a, number(0), location),
      add(quotient(sub(a, number(kLeast), location), number(2), location), number(std::int64_t{1} << 62U), location),
      quotient(a, number(2), location), location);
  const Tensor twice = mul(quotient(half, divisor, location), number(2), location);
  const Tensor rest = sub(a, mul(twice, divisor, location), location);
  const auto as_ordered = [&](const Tensor& x) { return add(x, number(kLeast), location); };
  const Tensor goes = cast(greater_equal(as_ordered(rest), as_ordered(divisor), location), DType::int64, location);
  const Tensor once = cast(greater_equal(as_ordered(a), as_ordered(b), location), DType::int64, location);
  return where(is_large, once, add(twice, goes, location), location);
}

/// An exponent from 2^63 on would be negative as i64. Powers of an odd base repeat after at most 2^62, those of an even
/// one are 0 from the 64th on.
Tensor unsigned_exponent(const Tensor& x, Location location) {
  constexpr std::int64_t kPeriod = std::int64_t{1} << 62U;
  const Tensor same_power = add(remainder(x, number(kPeriod), location), number(kPeriod), location);
  return where(less(x, number(0), location), same_power, x, location);
}

Tensor apply_unsigned(const Op& op, const Tensor& a, const Tensor& b, Location where) {
  const Tensor x = computing(a, where);
  const Tensor y = computing(b, where);
  if (is_one_of(*op, {&op::add, &op::sub, &op::mul, &op::equal, &op::not_equal})) {
    return stored(apply_op(op, nullptr, where, x, y), DType::uint64, where);
  }
  if (&*op == &op::pow) {
    return stored(apply_op(op, nullptr, where, x, unsigned_exponent(y, where)), DType::uint64, where);
  }
  if (&*op == &op::quotient || &*op == &op::remainder) {
    const Tensor whole = unsigned_quotient(x, y, where);
    return stored(&*op == &op::quotient ? whole : sub(x, mul(whole, y, where), where), DType::uint64, where);
  }
  const Tensor result = apply_op(op, nullptr, where, ordered(a, where), ordered(b, where));
  return result.dtype() == DType::int64 ? from_ordered(result, where) : result;
}

}  // namespace

Tensor ops::computing(const Tensor& x, Location where) { return cast(x, compute_type(x.dtype()), where); }

Tensor ops::stored(const Tensor& result, DType like, Location where) {
  return result.dtype() == compute_type(like) ? cast(result, like, where) : result;
}

Tensor ops::comparable(const Tensor& x, Location where) {
  return x.dtype() == DType::uint64 ? ordered(x, where) : computing(x, where);
}

Tensor ops::ordered(const Tensor& x, Location where) { return add(computing(x, where), number(kLeast), where); }
Tensor ops::from_ordered(const Tensor& x, Location where) {
  return cast(add(x, number(kLeast), where), DType::uint64, where);
}

Tensor ops::apply_stored(const Op& op, const Tensor& x, Location where) {
  if (x.dtype() == DType::uint64 && !is_one_of(*op, {&op::neg, &op::square})) {
    return apply_op(op, nullptr, where, x);  // refuses it
  }
  return stored(apply_op(op, nullptr, where, computing(x, where)), x.dtype(), where);
}

Tensor ops::apply_stored(const Op& op, const Tensor& a, const Tensor& b, Location where) {
  if (a.dtype() == DType::uint64) {
    return apply_unsigned(op, a, b, where);
  }
  return stored(apply_op(op, nullptr, where, computing(a, where), computing(b, where)), a.dtype(), where);
}

}  // namespace diptych
