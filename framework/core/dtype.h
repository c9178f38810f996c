#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "framework/core/bfloat16.h"

namespace diptych {

/// Element types in promotion order: two types promote to the later one, except that an integer and a floating type
/// promote to the floating type (i64 and f32 give f32). docs/numerics.md has the table.
enum class DType : std::uint8_t { boolean, uint8, int32, int64, bfloat16, float32, float64 };

inline constexpr int kDTypeCount = 7;

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t sizes[kDTypeCount] = {1, 1, 4, 8, 2, 4, 8};
  return sizes[static_cast<int>(dtype)];
}

/// "bool", "u8", "i32", "i64", "bf16", "f32", "f64"
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {"bool", "u8", "i32", "i64", "bf16", "f32", "f64"};
  return names[static_cast<int>(dtype)];
}

constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name_of(static_cast<DType>(i)) == name) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

constexpr bool is_floating(DType dtype) { return dtype >= DType::bfloat16; }
constexpr bool is_integral(DType dtype) { return dtype >= DType::uint8 && dtype <= DType::int64; }

/// The result type of an op on two types. Commutative and associative.
constexpr DType promote(DType a, DType b) { return a > b ? a : b; }

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
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
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

/// Calls `fn.template operator()<T>()` with the C++ type of `dtype`.
template <class Fn>
decltype(auto) visit(DType dtype, Fn&& fn) {
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

}  // namespace diptych
