#include "framework/transforms/ledger.h"

#include <algorithm>
#include <bit>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"
#include "tests/support/with_gemm.h"

namespace diptych::graph {
namespace {

using diptych::testing::ramp;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Ledger, TenBatchSizesGiveTenLinesAndTheAdvice) {
  auto function = jit([](const Tensor& x, const Tensor& weight) { return matmul(x, weight); });
  const Tensor weight = ramp({3, 2});
  for (int call = 0; call < 3; ++call) {
    for (std::int64_t batch = 1; batch <= 10; ++batch) {
      function(ramp({batch, 3}), weight);
    }
  }
  const std::vector<Compilation>& ledger = function.compiled()->ledger();
  ASSERT_EQ(ledger.size(), 10U);
  const std::string text = to_text(ledger);
  EXPECT_THAT(text, ContainsRegex(
                        "^ +cause +at +cost +calls\n1 +first call +[^\n]*ledger_test.cpp:[0-9]+ +[0-9.]+ [mu]s +3\n"));
  EXPECT_THAT(text, ContainsRegex("\n10 +argument 0: f32.9,3. -> f32.10,3. +[^\n]+ +3\n"));
  EXPECT_THAT(text, HasSubstr("argument 0 came with 10 lengths of axis 0 (1 to 10), each compiled anew: "));
  EXPECT_THAT(text, HasSubstr("pad it to 1, 2, 4, 8, 16 (5 graphs)"));
}

TEST(Ledger, AGraphThatIsDroppedHasALine) {
  auto function = jit([](const Tensor& x) { return exp(x); }, {.capacity = 2});
  for (const std::int64_t length : {1, 2, 3}) {
    function(ramp({length}));
  }
  const std::vector<Compilation>& ledger = function.compiled()->ledger();
  ASSERT_EQ(ledger.size(), 3U);
  EXPECT_TRUE(ledger[0].is_dropped);
  EXPECT_FALSE(ledger[1].is_dropped || ledger[2].is_dropped);
  EXPECT_THAT(to_text(ledger), ContainsRegex("first call[^\n]+\n +dropped for others: JitOptions::capacity *\n2 "));
}

TEST(Ledger, SumsUpOldLinesWhereThereAreVeryMany) {
  constexpr std::int64_t kShapes = 700;
  auto function = jit([](const Tensor& x) { return exp(x); }, {.capacity = 5});
  const auto call = [&](std::int64_t length) {
    function(ramp({length}));
    function(ramp({length}));
  };
  for (std::int64_t length = 1; length <= kShapes; ++length) {
    call(length);
  }
  const std::vector<Compilation>& ledger = function.compiled()->ledger();
  EXPECT_LE(ledger.size(), kLedgerLines);
  std::uint64_t calls = 0;
  std::uint64_t compilations = 0;
  for (const Compilation& line : ledger) {
    calls += line.calls;
    compilations += std::max<std::uint64_t>(line.merged, 1);
  }
  EXPECT_EQ(calls, 2U * kShapes);
  EXPECT_EQ(compilations, static_cast<std::uint64_t>(kShapes));
  EXPECT_EQ(ledger.front().cause, "first call");
  EXPECT_EQ(ledger[1].merged, kShapes - kLedgerLines + 1);
  EXPECT_EQ(ledger.back().calls, 2U);
  const std::string text = to_text(ledger);
  EXPECT_THAT(text, ContainsRegex("\nto 446 +445 others, whose graphs were dropped +[0-9.]+ [mu]s +890\n"));
  EXPECT_THAT(text, ContainsRegex("\n700 +argument 0: f32.699. -> f32.700. "));
  EXPECT_THAT(text, HasSubstr("argument 0 came with over 255 lengths of axis 0 (1 to 700)"));
  function(ramp({kShapes - 4}));  // the oldest one that is kept
  EXPECT_EQ(ledger[ledger.size() - 5].calls, 3U) << "graphs know their lines";
}

TEST(Ledger, SumsUpOldGradientsOfAGraph) {
  constexpr std::size_t kStates = 6;
  Variables states;
  for (std::size_t i = 0; i < kStates; ++i) {
    states.emplace_back(ramp({2}, static_cast<float>(i), 1), "s" + std::to_string(i));
  }
  auto function = jit(
      [&](const Tensor& x) {
        Tensor total = x;
        for (std::size_t i = 0; i < kStates; i += 2) {
          total = total + states[i].value() * states[i + 1].value();
        }
        return sum(total);
      },
      {.capacity = 3});
  std::uint64_t taken = 0;
  for (std::size_t set = 1; set < (std::size_t{1} << kStates); ++set) {
    Variables some;
    for (std::size_t i = 0; i < kStates; ++i) {
      if (((set >> i) & 1U) != 0) {
        some.push_back(states[i]);
      }
    }
    const auto result = value_and_grad([&](const Tensor& x) { return function(x); }, {.weights = some})(full({2}, 1));
    const auto first = static_cast<std::size_t>(std::countr_zero(set));
    EXPECT_TRUE(bitwise_equal(result.weights[0], states[first ^ 1U].value())) << set;
    ++taken;
  }
  const std::vector<Compilation>& ledger = function.compiled()->ledger();
  ASSERT_EQ(ledger.size(), 1U);
  EXPECT_LE(ledger[0].gradients.size(), 40U);
  std::uint64_t calls = 0;
  std::uint64_t cuts = 0;
  for (const GradientCompilation& line : ledger[0].gradients) {
    calls += line.calls;
    cuts += 1 + line.merged;
  }
  EXPECT_EQ(calls, taken);
  EXPECT_EQ(cuts, taken);
  EXPECT_THAT(to_text(ledger), HasSubstr(" earlier ones"));
}

TEST(Ledger, WhatOnlyFewCompilationsShareIsNoAdvice) {
  auto function = jit([](const Tensor& x) { return exp(x); });
  for (const Shape& shape : {Shape{2, 3}, Shape{4, 3}, Shape{4}, Shape{2, 5}, Shape{8, 8}}) {
    function(ramp(shape));
  }
  EXPECT_EQ(advice(function.compiled()->ledger()), "");
  EXPECT_THAT(to_text(function.compiled()->ledger()), Not(HasSubstr("lengths")));
  EXPECT_EQ(advice({}), "");
}

TEST(Ledger, LengthsThatPaddingDoesntJoin) {
  auto function = jit([](const Tensor& x) { return exp(x); });
  for (const std::int64_t length : {1, 2, 4, 8}) {
    function(ramp({length}));
  }
  EXPECT_THAT(advice(function.compiled()->ledger()), HasSubstr("pad it to fewer lengths"));
}

TEST(Ledger, GradientsThatEagerTakesHaveLinesAndPassesOfTheirOwn) {
  passes::PipelineOptions pipeline = diptych::testing::fusing_all();
  auto function = jit([](const Tensor& x, const Tensor& w) { return sum(tanh(exp(x) * w)); }, {.pipeline = pipeline});
  auto by_first = value_and_grad([&](const Tensor& x) { return function(x, ramp({2, 3})); });
  by_first(ramp({2, 3}, 0.1F, 0.1F));
  by_first(ramp({2, 3}, 0.2F, 0.1F));
  const std::vector<Compilation>& ledger = function.compiled()->ledger();
  ASSERT_EQ(ledger.size(), 1U);
  EXPECT_EQ(ledger[0].calls, 2U);
  ASSERT_EQ(ledger[0].gradients.size(), 1U);
  const GradientCompilation& gradient = ledger[0].gradients[0];
  EXPECT_EQ(gradient.wanted, (std::vector<bool>{true, false}));
  EXPECT_EQ(gradient.uncut, "");
  EXPECT_EQ(gradient.calls, 2U);
  EXPECT_GT(gradient.seconds, 0);
  EXPECT_GT(gradient.saved_bytes, 0U);
  const auto fused = [](const std::vector<passes::PassRecord>& records) {
    std::size_t kernels = 0;
    for (const passes::PassRecord& record : records) {
      kernels += record.fused.size();
    }
    return kernels;
  };
  EXPECT_EQ(fused(gradient.joint), 0U) << "kernels are made behind the cut";
  EXPECT_EQ(fused(gradient.forward), 1U);
  ASSERT_EQ(gradient.backwards.size(), 1U);
  EXPECT_EQ(fused(gradient.backwards[0].passes), 1U);
  EXPECT_THAT(to_text(ledger),
              ContainsRegex("\n +its gradient by input 0: forward [0-9]+ nodes, backward [0-9]+, between them [0-9.]+ "
                            "KiB +[0-9.]+ [mu]s +2\n"));

  function(ramp({2, 3}), Tensor::from(std::vector<float>(6, 1), {2, 3}));  // and without
  EXPECT_EQ(ledger[0].gradients.size(), 1U);
}

TEST(Ledger, SaysWhyAGradientComputesTheForwardPassAgain) {
  const diptych::testing::WithGemm openblas(kernels::Gemm::openblas);
  auto function = jit([](const Tensor& x) { return sum(exp(x)); });
  value_and_grad([&](const Tensor& x) { return function(x); })(ramp({2, 3}));
  EXPECT_THAT(to_text(function.compiled()->ledger()),
              HasSubstr("its gradient by input 0: computes the forward pass again, OpenBLAS's bits follow strides"));
}

TEST(Ledger, SaysWhetherACompilationHasPaidForItself) {
  Compilation line{.cause = "first call"};
  line.capture_seconds = 1e-3;
  line.calls = 4;
  const auto paid = [&](double saved) { return to_text({&line, 1}, saved); };
  EXPECT_THAT(paid(1e-3), AllOf(HasSubstr("paid back"), HasSubstr("yes")));
  EXPECT_THAT(paid(0.25e-3), HasSubstr("yes"));
  EXPECT_THAT(paid(1e-4), HasSubstr("in 6 calls"));
  EXPECT_THAT(paid(-1e-4), HasSubstr("never"));
}

}  // namespace
}  // namespace diptych::graph
