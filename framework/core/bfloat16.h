#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace diptych {

/// The upper half of a float32 [IEEE 754 with 8 bits of precision]. Arithmetic is done in float; results are rounded to
/// nearest, ties to even, at every op's boundary.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit constexpr bfloat16(T value) : bits(rounded(static_cast<float>(value))) {}
  static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 result;
    result.bits = bits;
    return result;
  }

  // NOLINTNEXTLINE(google-explicit-constructor): every bfloat16 is a float, exactly
  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

 private:
  static constexpr std::uint16_t rounded(float value) {
    const auto b = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t nearest = (b + 0x7FFFU + ((b >> 16U) & 1U)) >> 16U;
    const std::uint32_t quiet_nan = (b >> 16U) | 0x40U;  // rounding could turn a NaN into an infinity
    return static_cast<std::uint16_t>(value != value ? quiet_nan : nearest);
  }
};

}  // namespace diptych
