// On several threads, instructions that don't depend on one another run side by side, and nothing else changes.
// ThreadSanitizer watches these tests.

#include "framework/runtime/side_by_side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/graph/variants.h"
#include "tests/support/with_threads.h"

namespace diptych::runtime {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::wave;
using diptych::testing::WithThreads;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Strands = std::vector<std::vector<std::uint32_t>>;

std::vector<Window> windows_of(const char* text, int threads = 2) {
  const graph::Graph graph = graph::parse(text);
  std::vector<Strides> strides;
  for (const graph::Input& input : graph.inputs) {
    strides.push_back(contiguous_strides(graph.types[input.value].shape));
  }
  return find_windows(lower(graph, strides, {}), threads);
}

constexpr const char* kTwoChains = R"(graph "g"(%0: f32[64,64] argument "x", %1: f32[64,64] argument "y") {
  %2: f32[64,64] = tanh(%0)  @ [] "" "" 0
  %3: f32[64,64] = tanh(%1)  @ [] "" "" 0
  %4: f32[64,64] = neg(%2)  @ [] "" "" 0
  %5: f32[64,64] = neg(%3)  @ [] "" "" 0
  return %4, %5
}
)";

TEST(SideBySide, ChainsThatShareNothingAreStrandsOfOneWindow) {
  const WithThreads with(2, true);
  const std::vector<Window> windows = windows_of(kTwoChains);
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_THAT(windows[0].strands, UnorderedElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST(SideBySide, PartsOfOneBufferAreWrittenByStrandsAndReadBehindThem) {
  const WithThreads with(2, true);
  const std::vector<Window> windows =
      windows_of(R"(graph "g"(%0: f32[64,64] argument "x", %1: f32[64,64] argument "y") {
  %2: f32[64,64] = tanh(%0)  @ [] "" "" 0
  %3: f32[64,64] = tanh(%1)  @ [] "" "" 0
  %4: f32[128,64] = concat(%2, %3) {axis=0}  @ [] "" "" 0
  %5: f32[128,64] = neg(%4)  @ [] "" "" 0
  return %5
}
)");
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_EQ(windows[0].end, 2U);  // the reader is the third instruction
  EXPECT_THAT(windows[0].strands, UnorderedElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(SideBySide, AReaderOfOnePartWaitsForThatPartAlone) {
  const WithThreads with(2, true);
  const std::vector<Window> windows =
      windows_of(R"(graph "g"(%0: f32[64,64] argument "x", %1: f32[64,64] argument "y") {
  %2: f32[64,64] = tanh(%0)  @ [] "" "" 0
  %3: f32[64,64] = tanh(%1)  @ [] "" "" 0
  %4: f32[64,64] = neg(%2)  @ [] "" "" 0
  %5: f32[64,64] = neg(%3)  @ [] "" "" 0
  %6: f32[128,64] = concat(%2, %3) {axis=0}  @ [] "" "" 0
  return %4, %5, %6
}
)");
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_THAT(windows[0].strands, UnorderedElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST(SideBySide, NothingIsOnOneThreadOrForLessWorkThanHandingItOver) {
  {
    const WithThreads with(2);
    EXPECT_THAT(windows_of(kTwoChains), IsEmpty());  // microseconds
  }
  const WithThreads with(2, true);
  EXPECT_THAT(windows_of(kTwoChains, 1), IsEmpty());
}

TEST(SideBySide, NeitherWhatDependsNorWhatMayThrowNorEffects) {
  const WithThreads with(2, true);
  EXPECT_THAT(windows_of(R"(graph "g"(%0: f32[64] argument "x") {
  %1: f32[64] = tanh(%0)  @ [] "" "" 0
  %2: f32[64] = neg(%1)  @ [] "" "" 0
  return %2
}
)"),
              IsEmpty());
  EXPECT_THAT(windows_of(R"(graph "g"(%0: f32[64] argument "x", %1: i64[4] argument "y", %2: i64[4] argument "z") {
  %3: f32[4] = gather(%0, %1) {axis=0}  @ [] "" "" 0
  %4: f32[4] = gather(%0, %2) {axis=0}  @ [] "" "" 0
  return %3, %4
}
)"),
              IsEmpty());
}

TEST(SideBySide, AStateIsWrittenAfterItsReaders) {
  const auto step = [](const Variables& states) {
    return [states](const std::vector<Tensor>& x) {
      std::vector<Tensor> results;
      for (Variable state : states) {
        const Tensor old = state.value();
        state.assign(tanh(old + x[0]));
        results.push_back(neg(old));
      }
      return results;
    };
  };
  const auto fresh = [] {
    Variables states;
    for (int i = 0; i < 9; ++i) {
      states.emplace_back(wave({33 + i}, i), "state");
    }
    return states;
  };
  const Variables mine = fresh();
  const Variables theirs = fresh();
  const std::vector<Tensor> x{full({}, 0.25)};
  const WithThreads with(3, true);
  auto graph = jit(step(mine));
  for (int call = 0; call < 5; ++call) {
    expect_same_bits(graph(x), step(theirs)(x), "call " + std::to_string(call));
  }
  EXPECT_GT(graph.compiled()->executable()->stats().windows, 0U);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(mine[i].value(), theirs[i].value())) << i;
  }
}

/// Many chains whose temporaries would share memory, had they run one after the other.
std::vector<Tensor> chains(const std::vector<Tensor>& x) {
  std::vector<Tensor> results;
  for (int i = 0; i < 16; ++i) {
    const Tensor a = tanh(x[0] + i);
    results.push_back(sum(matmul(a, transpose(exp(a * 0.5))), {0}) + sum(sigmoid(a), {1}));
  }
  return results;
}

TEST(SideBySide, StrandsDoNotShareMemory) {
  const std::vector<Tensor> x{wave({40, 40}, 3)};
  const std::vector<Tensor> expected = chains(x);
  for (const int threads : {2, 3, 4}) {
    const WithThreads with(threads, true);
    auto graph = jit(chains);
    for (int call = 0; call < 20; ++call) {
      expect_same_bits(graph(x), expected, std::to_string(threads) + " threads");
    }
    EXPECT_GT(graph.compiled()->executable()->stats().windows, 0U);
    const UseThreads one(1);  // a graph that was compiled for several
    expect_same_bits(graph(x), expected, "one thread");
  }
}

/// Parts of large values, computed on several threads, and readers of the parts and of the whole.
std::vector<Tensor> joined_chains(const std::vector<Tensor>& x) {
  std::vector<Tensor> parts;
  std::vector<Tensor> results;
  for (int i = 0; i < 6; ++i) {
    parts.push_back(tanh(x[0] + i) * 0.5);
    results.push_back(exp(parts.back()));
  }
  const Tensor all = concat(parts, 0);
  results.push_back(sum(all, {1}));
  results.push_back(neg(all));
  return results;
}

TEST(SideBySide, PartsOfConcatsHaveEagersBits) {
  const std::vector<Tensor> x{wave({40, 40}, 3)};
  const std::vector<Tensor> expected = joined_chains(x);
  for (const int threads : {2, 4}) {
    const WithThreads with(threads, true);
    auto graph = jit(joined_chains);
    for (int call = 0; call < 20; ++call) {
      expect_same_bits(graph(x), expected, std::to_string(threads) + " threads");
    }
    EXPECT_GT(graph.compiled()->executable()->stats().windows, 0U);
  }
}

TEST(SideBySide, CanBeSwitchedOff) {
  const WithThreads with(2, true);
  graph::JitOptions options;
  options.pipeline.disabled = {passes::kSideBySide};
  auto graph = jit(chains, options);
  const std::vector<Tensor> x{wave({40, 40}, 3)};
  expect_same_bits(graph(x), chains(x), "off");
  EXPECT_EQ(graph.compiled()->executable()->stats().windows, 0U);
}

}  // namespace
}  // namespace diptych::runtime
