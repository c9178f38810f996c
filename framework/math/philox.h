#pragma once

#include <array>
#include <cstdint>

#include "framework/math/inline.h"

/// Philox 4x32-10 [Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"]: maps a counter of four words and
/// a key of two to four random words, the same on every machine.
namespace diptych::math {

using PhiloxKeys = std::array<std::array<std::uint32_t, 2>, 10>;

/// The keys of the ten rounds.
DIPTYCH_INLINE PhiloxKeys philox_keys(std::uint32_t low, std::uint32_t high) {
  PhiloxKeys keys;
  keys[0] = {low, high};
  for (std::size_t round = 1; round < keys.size(); ++round) {
    keys[round] = {keys[round - 1][0] + 0x9E3779B9U, keys[round - 1][1] + 0xBB67AE85U};
  }
  return keys;
}

/// Replaces the counter's words by random ones.
DIPTYCH_INLINE void philox(const PhiloxKeys& keys, std::uint32_t& c0, std::uint32_t& c1, std::uint32_t& c2,
                           std::uint32_t& c3) {
#pragma GCC unroll 10
  for (std::size_t round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(b >> 32U) ^ c1 ^ keys[round][0];
    c2 = static_cast<std::uint32_t>(a >> 32U) ^ c3 ^ keys[round][1];
    c1 = static_cast<std::uint32_t>(b);
    c3 = static_cast<std::uint32_t>(a);
  }
}

}  // namespace diptych::math
