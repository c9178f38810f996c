#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "framework/core/bfloat16.h"
#include "framework/core/isa.h"
#include "framework/math/philox.h"
#include "framework/math/scalar_math.h"

/// Random numbers by Philox 4x32-10 [Salmon et al. 2011], vectorised. Element i of a draw depends on (seed, counter, i)
/// alone. In groups of 64 elements of 32 bits, or 32 of 64 bits, element i takes block 16 * group + i % 16 of the
/// counter, and of the block's four words the one with index i / 16 % 4, or the pair with index i / 16 % 2.
namespace diptych::kernels {

/// The contents of a generator's state tensor, i64[2].
struct RandomState {
  std::uint64_t seed;
  std::uint64_t counter;
};

namespace detail {

inline constexpr std::int64_t kBlocks = 16;

/// words[w * 16 + j] = word w of block first + j.
DIPTYCH_INLINE void philox_blocks(RandomState state, std::uint64_t first, std::uint32_t* words) {
  const math::PhiloxKeys keys =
      math::philox_keys(static_cast<std::uint32_t>(state.seed), static_cast<std::uint32_t>(state.seed >> 32U));
  const auto high = static_cast<std::uint32_t>(first >> 32U);  // `first` is a multiple of 16: all blocks share it
  const auto low = static_cast<std::uint32_t>(first);
  const auto draw_low = static_cast<std::uint32_t>(state.counter);
  const auto draw_high = static_cast<std::uint32_t>(state.counter >> 32U);
#pragma GCC ivdep
  for (std::uint32_t j = 0; j < kBlocks; ++j) {
    std::uint32_t c0 = low + j;
    std::uint32_t c1 = high;
    std::uint32_t c2 = draw_low;
    std::uint32_t c3 = draw_high;
    math::philox(keys, c0, c1, c2, c3);
    words[j] = c0;
    words[kBlocks + j] = c1;
    words[2 * kBlocks + j] = c2;
    words[3 * kBlocks + j] = c3;
  }
}

/// The random bits of at least `count` <= kTile elements, starting at `begin` (a multiple of 64).
inline constexpr std::int64_t kTile = 1024;
DIPTYCH_INLINE void random_tile(RandomState state, std::int64_t begin, std::int64_t count, std::uint32_t* bits) {
  for (std::int64_t i = 0; i < count; i += 4 * kBlocks) {
    philox_blocks(state, static_cast<std::uint64_t>(begin + i) / 4, bits + i);
  }
}
DIPTYCH_INLINE void random_tile(RandomState state, std::int64_t begin, std::int64_t count, std::uint64_t* bits) {
  for (std::int64_t i = 0; i < count; i += 2 * kBlocks) {
    std::uint32_t words[4 * kBlocks];
    philox_blocks(state, static_cast<std::uint64_t>(begin + i) / 2, words);
    for (std::int64_t half = 0; half < 2; ++half) {
      for (int j = 0; j < kBlocks; ++j) {
        bits[i + half * kBlocks + j] =
            words[2 * half * kBlocks + j] | (std::uint64_t{words[(2 * half + 1) * kBlocks + j]} << 32U);
      }
    }
  }
}

}  // namespace detail

/// out[i] = Draw::apply(parameters, bits of element i), for i < n. `Draw::Bits` is std::uint32_t or std::uint64_t.
template <class Draw, class Parameters, class Out>
struct RandomBody {
  DIPTYCH_INLINE static void run(RandomState state, std::int64_t n, Out* out, const Parameters& parameters) {
    alignas(64) typename Draw::Bits bits[detail::kTile];
    const Parameters mine = parameters;  // a copy, which no store can alias
    for (std::int64_t begin = 0; begin < n; begin += detail::kTile) {
      const std::int64_t count = std::min(detail::kTile, n - begin);
      detail::random_tile(state, begin, count, bits);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        out[begin + i] = Draw::apply(mine, bits[i]);
      }
    }
  }
};

template <class Draw, class Parameters, class Out>
using PerIsaRandom = PerIsa<RandomBody<Draw, Parameters, Out>>;

/// Whether a 32-bit number is below 2^32 p, which has the probability p.
struct Chance {
  std::uint32_t threshold;
  bool is_certain;

  static Chance of(double p) {
    const double threshold = math::round_even(p * 0x1p32);
    const bool is_certain = threshold >= 0x1p32;
    return {is_certain ? 0 : static_cast<std::uint32_t>(threshold), is_certain};
  }
  DIPTYCH_INLINE unsigned operator()(std::uint32_t bits) const {
    return static_cast<unsigned>(bits < threshold) | static_cast<unsigned>(is_certain);
  }
};

/// x, or 0 whatever x is. On the bits, as in where: a select on a loaded bool would become a branch.
template <class T>
DIPTYCH_INLINE T kept_or_zero(bool is_kept, T x) {
  using Bits = math::detail::Bits<T>;
  return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(x) & static_cast<Bits>(-static_cast<Bits>(is_kept))));
}

/// The bits of `count` <= kRandomTile elements, rounded up to 64, starting at `begin` (a multiple of 64).
inline constexpr std::int64_t kRandomTile = detail::kTile;
inline constexpr std::int64_t kRandomGroup = 4 * detail::kBlocks;
struct RandomBitsBody {
  DIPTYCH_INLINE static void run(RandomState state, std::int64_t begin, std::int64_t count, std::uint32_t* bits) {
    detail::random_tile(state, begin, count, bits);
  }
};
inline void random_bits(RandomState state, std::int64_t begin, std::int64_t count, std::uint32_t* bits) {
  PerIsa<RandomBitsBody>::active()(state, begin, count, bits);
}

}  // namespace diptych::kernels
