#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "framework/core/bfloat16.h"
#include "framework/core/float16.h"

namespace diptych {

/// Element types. In `bool`, `u8`, `i32`, `i64`, `bf16`, `f32` and `f64` ops compute; the others are for storage: they
/// are moved, converted, read and written as they are, and computed with in compute_type(). docs/numerics.md has the
/// table of promotion.
enum class DType : std::uint8_t {
  boolean,
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  uint64,
  int64,
  float16,
  bfloat16,
  float32,
  float64
};

inline constexpr int kDTypeCount = 13;

namespace detail {
// Not in the functions that read them: GCC 12 would build a table on the stack in each call.
inline constexpr std::uint8_t kDTypeSizes[kDTypeCount] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
inline constexpr std::string_view kDTypeNames[kDTypeCount] = {"bool", "u8",  "i8",  "u16",  "i16", "u32", "i32",
                                                              "u64",  "i64", "f16", "bf16", "f32", "f64"};
}  // namespace detail

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) { return detail::kDTypeSizes[static_cast<int>(dtype)]; }

/// "bool", "u8", "i8", ..., "f64"
constexpr std::string_view name_of(DType dtype) { return detail::kDTypeNames[static_cast<int>(dtype)]; }

constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name_of(static_cast<DType>(i)) == name) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

constexpr bool is_floating(DType dtype) { return dtype >= DType::float16; }
constexpr bool is_integral(DType dtype) { return dtype >= DType::uint8 && dtype <= DType::int64; }
/// In the list of integers signed and unsigned ones take turns.
constexpr bool is_signed_integral(DType dtype) { return is_integral(dtype) && static_cast<int>(dtype) % 2 == 0; }

/// The type that elements of `dtype` are computed with in: itself, unless `dtype` is for storage. It has all their
/// values, except that u64 becomes the i64 of the same bits.
constexpr DType compute_type(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::uint16:
    case DType::int16:
      return DType::int32;
    case DType::uint32:
    case DType::uint64:
      return DType::int64;
    case DType::float16:
      return DType::float32;
    default:
      return dtype;
  }
}
/// As one bit of a constant: eager asks for each operand of each op.
constexpr bool is_storage(DType dtype) {
  constexpr unsigned kStorage = [] {
    unsigned types = 0;
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto each = static_cast<DType>(i);
      types |= compute_type(each) != each ? 1U << static_cast<unsigned>(i) : 0U;
    }
    return types;
  }();
  return ((kStorage >> static_cast<unsigned>(dtype)) & 1U) != 0;
}

/// The result type of an op on two types: the least one that has the values of both, where there is one; the floating
/// type of an integer and a floating type; f32 of f16 and bf16; i64 of u64 and a signed type. Commutative and
/// associative.
constexpr DType promote(DType a, DType b) {
  const DType low = a < b ? a : b;
  const DType high = a < b ? b : a;
  if (low == DType::float16 && high == DType::bfloat16) {
    return DType::float32;
  }
  const bool mixed = is_integral(low) && is_integral(high) && is_signed_integral(low) != is_signed_integral(high);
  if (!mixed) {
    return high;
  }
  const DType with_sign = is_signed_integral(low) ? low : high;
  const DType without = is_signed_integral(low) ? high : low;
  if (size_of(with_sign) > size_of(without)) {
    return with_sign;
  }
  const auto next = static_cast<DType>(static_cast<int>(without) + 3);  // signed, of twice the size
  return without == DType::uint64 ? DType::int64 : next;
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::uint16;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::uint32;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::uint64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// Calls `fn.template operator()<T>()` with the C++ type of `dtype`, one of those that ops compute in.
template <class Fn>
decltype(auto) visit_computing(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::boolean:
      return fn.template operator()<bool>();
    case DType::uint8:
      return fn.template operator()<std::uint8_t>();
    case DType::int32:
      return fn.template operator()<std::int32_t>();
    case DType::int64:
      return fn.template operator()<std::int64_t>();
    case DType::bfloat16:
      return fn.template operator()<bfloat16>();
    case DType::float32:
      return fn.template operator()<float>();
    default:
      return fn.template operator()<double>();
  }
}

/// The same with the C++ type of any dtype.
template <class Fn>
decltype(auto) visit(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::int8:
      return fn.template operator()<std::int8_t>();
    case DType::uint16:
      return fn.template operator()<std::uint16_t>();
    case DType::int16:
      return fn.template operator()<std::int16_t>();
    case DType::uint32:
      return fn.template operator()<std::uint32_t>();
    case DType::uint64:
      return fn.template operator()<std::uint64_t>();
    case DType::float16:
      return fn.template operator()<float16>();
    default:
      return visit_computing(dtype, fn);
  }
}

/// Calls `fn.template operator()<U>()` with the unsigned integer of the size of `dtype`, for what only moves elements.
template <class Fn>
decltype(auto) visit_bits(DType dtype, Fn&& fn) {
  switch (size_of(dtype)) {
    case 1:
      return fn.template operator()<std::uint8_t>();
    case 2:
      return fn.template operator()<std::uint16_t>();
    case 4:
      return fn.template operator()<std::uint32_t>();
    default:
      return fn.template operator()<std::uint64_t>();
  }
}

}  // namespace diptych
