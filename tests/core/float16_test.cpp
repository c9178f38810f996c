// float16 against the definition of binary16 [IEEE 754, 3.4], computed with powers of two and integers.

#include "framework/core/float16.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace diptych {
namespace {

/// The number that a pattern stands for.
double number_of(unsigned bits) {
  const int sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10U & 0x1FU);
  const int fraction = static_cast<int>(bits & 0x3FFU);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(Float16, EveryPatternIsItsNumberAndComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float16 half = float16::from_bits(static_cast<std::uint16_t>(bits));
    const double wanted = number_of(bits);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(half))) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(float16(static_cast<float>(half))))) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(float16(wanted)))) << bits;
      continue;
    }
    EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(half)),
              std::bit_cast<std::uint32_t>(static_cast<float>(wanted)))
        << bits;
    EXPECT_EQ(float16(static_cast<float>(wanted)).bits, bits);
    EXPECT_EQ(float16(wanted).bits, bits);
  }
}

/// The patterns of positive numbers are in the order of the numbers, so the middle of two neighbours and what lies
/// beside it show every way of rounding. The neighbour of the largest number is 2^16, which is infinity here.
TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (unsigned bits = 0; bits < 0x7C00; ++bits) {
    const double above = bits == 0x7BFF ? 65536 : number_of(bits + 1);
    const double middle = (number_of(bits) + above) / 2;
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    for (const unsigned sign : {0U, 0x8000U}) {
      const double signed_middle = sign != 0 ? -middle : middle;
      const auto narrow = static_cast<float>(signed_middle);
      ASSERT_EQ(narrow, signed_middle) << "floats have the middles";
      EXPECT_EQ(float16(narrow).bits, even | sign) << bits;
      EXPECT_EQ(float16(signed_middle).bits, even | sign) << bits;
      const float far = sign != 0 ? -1e9F : 1e9F;
      EXPECT_EQ(float16(std::nextafter(narrow, far)).bits, (bits + 1) | sign) << bits;
      EXPECT_EQ(float16(std::nextafter(narrow, 0.0F)).bits, bits | sign) << bits;
      // A double beside the middle is the middle as a float: rounding twice would give the even neighbour.
      EXPECT_EQ(float16(std::nextafter(signed_middle, static_cast<double>(far))).bits, (bits + 1) | sign) << bits;
      EXPECT_EQ(float16(std::nextafter(signed_middle, 0.0)).bits, bits | sign) << bits;
    }
  }
}

TEST(Float16, TheEndsOfOtherTypes) {
  EXPECT_EQ(float16(std::numeric_limits<double>::denorm_min()).bits, 0);
  EXPECT_EQ(float16(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
  EXPECT_EQ(float16(std::numeric_limits<double>::max()).bits, 0x7C00);
  EXPECT_EQ(float16(std::numeric_limits<float>::lowest()).bits, 0xFC00);
  EXPECT_EQ(float16(std::numeric_limits<std::int64_t>::min()).bits, 0xFC00);
  EXPECT_EQ(float16(2049).bits, float16(2048).bits) << "a tie";
  EXPECT_EQ(float16(2051).bits, float16(2052).bits);
  EXPECT_EQ(float16(true).bits, 0x3C00);
}

}  // namespace
}  // namespace diptych
