#include "framework/core/rng.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "framework/core/isa.h"
#include "framework/data/dataset.h"

namespace diptych {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  using Four = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, SameSeedSameNumbers) {
  EXPECT_TRUE(bitwise_equal(Rng(7).normal({100}), Rng(7).normal({100})));
  EXPECT_FALSE(bitwise_equal(Rng(7).normal({100}), Rng(8).normal({100})));
}

// Tensors are drawn many points at a time. Wherever a draw begins and ends, the numbers are those drawn one by one.
TEST(Rng, TensorsHaveTheNumbersOfTheStream) {
  const Isa best = active_isa();
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (!is_supported(isa)) {
      continue;
    }
    set_isa(isa);
    Rng tensors(21);
    Rng one_by_one(21);
    for (const std::int64_t count : {0, 1, 31, 32, 50, 64, 65, 1000}) {
      const Tensor drawn = tensors.normal({count}, 1, 2, DType::float64);
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(drawn.data<double>()[i], 1 + 2 * one_by_one.next_normal()) << count << ", element " << i;
      }
      if (count == 64) {  // from here on, points begin between two counters
        ASSERT_EQ(tensors.next_u64(), one_by_one.next_u64());
      }
    }
    EXPECT_EQ(tensors.next_u64(), one_by_one.next_u64());
  }
  set_isa(best);
}

TEST(Rng, MomentsOfTheDistributions) {
  Rng rng(11);
  constexpr int n = 200000;
  double sum = 0;
  double square = 0;
  double fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = rng.next_normal();
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
  }
  // Five standard errors: 1 / sqrt(n), sqrt(2 / n), sqrt(96 / n).
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96.0 / n));
}

TEST(Rng, BelowIsUniform) {
  Rng rng(12);
  std::map<std::uint64_t, int> counts;
  for (int i = 0; i < 60000; ++i) {
    ++counts[rng.below(6)];
  }
  ASSERT_EQ(counts.size(), 6U);
  for (const auto& [value, count] : counts) {
    EXPECT_NEAR(count, 10000, 5 * std::sqrt(10000)) << value;
  }
}

TEST(Permutation, HasEveryIndexOnceAndFollowsTheSeed) {
  const auto order = data::permutation(1000, 3);
  std::vector<bool> seen(1000, false);
  for (const std::int64_t i : order) {
    EXPECT_FALSE(seen[static_cast<std::size_t>(i)]);
    seen[static_cast<std::size_t>(i)] = true;
  }
  EXPECT_EQ(order, data::permutation(1000, 3));
  EXPECT_NE(order, data::permutation(1000, 4));
}

}  // namespace
}  // namespace diptych
