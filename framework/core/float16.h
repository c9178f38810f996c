#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace diptych {

/// IEEE 754's binary16, for storage: arithmetic is done in float. Conversions to it round to nearest, ties to even, and
/// have subnormal numbers, infinities and NaN. All are without branches, so that loops over them vectorise.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit constexpr float16(T value) : bits(rounded(static_cast<float>(value))) {}
  explicit constexpr float16(double value) : bits(rounded(to_odd(value))) {}
  static constexpr float16 from_bits(std::uint16_t bits) {
    float16 result;
    result.bits = bits;
    return result;
  }

  // NOLINTNEXTLINE(google-explicit-constructor): every float16 is a float, exactly
  constexpr operator float() const {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7FFFU) << 13U;
    const std::uint32_t normal = magnitude + kBias;
    const std::uint32_t special = normal + kBias;  // infinities and NaN: the largest exponent again
    // A subnormal number m 2^-24 is (1 + m 2^-10) 2^-14 - 2^-14, both of them normal.
    const float subnormal = std::bit_cast<float>(magnitude + kLeastNormal) - std::bit_cast<float>(kLeastNormal);
    const std::uint32_t finite = magnitude < (0x0400U << 13U) ? std::bit_cast<std::uint32_t>(subnormal) : normal;
    const std::uint32_t value = magnitude >= (0x7C00U << 13U) ? special : finite;
    return std::bit_cast<float>(value | static_cast<std::uint32_t>(bits & 0x8000U) << 16U);
  }

 private:
  static constexpr std::uint32_t kBias = (127U - 15U) << 23U;
  static constexpr std::uint32_t kLeastNormal = (127U - 14U) << 23U;  ///< 2^-14 as a float
  static constexpr std::uint32_t kInfinity = 0x7F800000U;

  static constexpr std::uint16_t rounded(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = all & 0x7FFFFFFFU;
    // The carry of rounding up may go into the exponent, and from the largest number to infinity.
    const std::uint32_t normal = (magnitude - kBias + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U;
    // The last place of 0.5f is 2^-24, that of a subnormal float16: the sum rounds as wanted.
    constexpr float kHalf = 0.5F;
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + kHalf) - std::bit_cast<std::uint32_t>(kHalf);
    const std::uint32_t finite = magnitude < kLeastNormal ? subnormal : normal;
    const std::uint32_t special = magnitude > kInfinity ? 0x7E00U : 0x7C00U;
    constexpr std::uint32_t kEnd = (127U + 16U) << 23U;  // 2^16
    const std::uint32_t result = magnitude >= kEnd ? special : finite;
    return static_cast<std::uint16_t>(result | (all >> 16U & 0x8000U));
  }

  /// The double as a float, rounded to odd: truncated, with the last bit set if anything was cut off. Rounding that to
  /// float16 is rounding the double [Boldo & Melquiond 2008]; rounding to nearest twice is not.
  static constexpr float to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    const double back = nearest;
    const bool is_longer = (back < 0 ? -back : back) > (value < 0 ? -value : value);
    const std::uint32_t truncated = std::bit_cast<std::uint32_t>(nearest) - static_cast<std::uint32_t>(is_longer);
    return std::bit_cast<float>(truncated | static_cast<std::uint32_t>(back != value));
  }
};

}  // namespace diptych
