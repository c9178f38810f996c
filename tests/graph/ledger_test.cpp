#include "framework/transforms/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

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
