#include <algorithm>
#include <malloc.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::ramp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Jit, CompilesOncePerSignature) {
  int captures = 0;
  auto function = jit([&](const Tensor& x) {
    ++captures;
    return x + 1;
  });
  EXPECT_EQ(function.compiled(), nullptr);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(function(ramp({2}, static_cast<float>(i))).to_vector<float>(),
                ElementsAre(static_cast<float>(i) + 1, static_cast<float>(i) + 2));
  }
  EXPECT_EQ(captures, 1);
  ASSERT_EQ(function.compiled()->ledger().size(), 1U);
  const Compilation& line = function.compiled()->ledger()[0];
  EXPECT_EQ(line.cause, "first call");
  EXPECT_EQ(line.calls, 5U);
  EXPECT_EQ(line.captured_nodes, 2U);
  EXPECT_GT(line.seconds(), 0);
  EXPECT_THAT(std::string(line.where.file), HasSubstr("jit_test.cpp"));
}

TEST(Jit, TheLedgerNamesWhatWasNew) {
  auto function = jit([](const Tensor& x, const Tensor& y) { return x + y; });
  const Tensor one = Tensor::scalar(1.0F);
  function(ramp({2, 3}), one);
  function(ramp({3, 2}), one);
  function(transpose(ramp({2, 3})), one);
  function(ramp({3, 2}), Tensor::scalar(1.0));
  const auto& ledger = function.compiled()->ledger();
  ASSERT_EQ(ledger.size(), 4U);
  EXPECT_EQ(ledger[1].cause, "argument 0: f32[2,3] -> f32[3,2]");
  EXPECT_EQ(ledger[2].cause, "argument 0: f32[3,2] -> f32[3,2] strides [1,3]");
  EXPECT_THAT(ledger[3].cause, HasSubstr("argument 0: f32[3,2] strides [1,3] -> f32[3,2]"));
  for (const Compilation& line : ledger) {
    EXPECT_EQ(line.calls, 1U);
  }
  function(ramp({3, 2}), one);
  EXPECT_EQ(ledger.size(), 4U);
  EXPECT_EQ(ledger[1].calls, 2U);
}

TEST(Jit, ASignatureIsDTypeShapeAndStrides) {
  auto function = jit([](const Tensor& x) { return x + x; });
  const auto compilations = [&](const Tensor& x) {
    expect_same_bits(function(x), x + x, to_string(x.type()));
    return function.compiled()->ledger().size();
  };
  EXPECT_EQ(compilations(ramp({4, 4})), 1U);
  EXPECT_EQ(compilations(ramp({4, 4}, 7)), 1U) << "values don't count";
  EXPECT_EQ(compilations(transpose(ramp({4, 4}))), 2U) << "strides";
  EXPECT_EQ(compilations(cast(ramp({4, 4}), DType::float64)), 3U) << "dtype";
  EXPECT_EQ(compilations(ramp({2, 8})), 4U) << "shape";
  EXPECT_EQ(compilations(ramp({16})), 5U) << "rank";
  EXPECT_EQ(compilations(expand(ramp({4, 1}), {4, 4})), 6U) << "broadcast";
  EXPECT_EQ(compilations(slice(ramp({8, 4}), 0, 2, 6)), 6U) << "an offset doesn't count: it is dense as the first";
}

TEST(Jit, AnOffsetIntoAStorageIsNoPartOfTheSignature) {
  auto function = jit([](const Tensor& x) { return x * 2; });
  const Tensor rows = ramp({4, 3});
  for (std::int64_t row = 0; row < 4; ++row) {
    const Tensor x = slice(rows, 0, row, row + 1);
    expect_same_bits(function(x), x * 2, "row");
  }
  EXPECT_EQ(function.compiled()->ledger().size(), 1U);
}

TEST(Jit, TheLeastRecentlyUsedGraphGoesFirst) {
  int captures = 0;
  auto function = jit(
      [&](const Tensor& x) {
        ++captures;
        return x + 1;
      },
      {.capacity = 2});
  const auto call = [&](std::int64_t n) {
    const int before = captures;
    expect_same_bits(function(ramp({n})), ramp({n}, 2), "n");
    return captures > before;
  };
  EXPECT_TRUE(call(1));
  EXPECT_TRUE(call(2));
  EXPECT_FALSE(call(1));
  EXPECT_TRUE(call(3)) << "drops 2, the least recently used";
  EXPECT_FALSE(call(1));
  EXPECT_FALSE(call(3));
  EXPECT_TRUE(call(2)) << "was dropped";
  EXPECT_TRUE(call(1)) << "drops 1, then 3";
  EXPECT_EQ(function.compiled()->ledger().size(), 5U);
  std::uint64_t calls = 0;
  for (const Compilation& line : function.compiled()->ledger()) {
    calls += line.calls;
  }
  EXPECT_EQ(calls, 8U);
}

TEST(Jit, ListsOfAllLengthsShareOneCapacity) {
  int captures = 0;
  auto function = jit(
      [&](const std::vector<Tensor>& xs) {
        ++captures;
        Tensor sum = xs[0];
        for (std::size_t i = 1; i < xs.size(); ++i) {
          sum = sum + xs[i];
        }
        return sum;
      },
      {.capacity = 3});
  const auto call = [&](std::size_t count) {
    const int before = captures;
    const std::vector<Tensor> xs(count, full({2}, 1));
    EXPECT_TRUE(bitwise_equal(function(xs), full({2}, static_cast<double>(count))));
    return captures > before;
  };
  for (std::size_t count = 1; count <= 20; ++count) {
    EXPECT_TRUE(call(count));
  }
  for (const std::size_t kept : {18, 19, 20, 18}) {
    EXPECT_FALSE(call(kept));
  }
  EXPECT_TRUE(call(17)) << "was dropped";
  EXPECT_TRUE(call(19)) << "17 took its place";
  EXPECT_FALSE(call(18)) << "is of the last three";
  const auto& ledger = function.compiled()->ledger();
  ASSERT_EQ(ledger.size(), 22U);
  EXPECT_EQ(ledger[0].cause, "first call");
  EXPECT_EQ(ledger[1].cause, "1 arguments -> 2");
  EXPECT_EQ(std::count_if(ledger.begin(), ledger.end(), [](const Compilation& line) { return line.is_dropped; }), 19);
  EXPECT_EQ(function.compiled()->graph()->inputs.size(), 18U);
}

TEST(Jit, ListsThatDifferInTheirLengthsAloneAreTold) {
  auto function = jit([](const std::vector<Tensor>& a, const std::vector<Tensor>& b) { return a.back() - b.back(); });
  const Tensor x = full({2}, 3);
  const Tensor y = full({2}, 1);
  function(std::vector<Tensor>{x}, std::vector<Tensor>{x, y});
  EXPECT_TRUE(bitwise_equal(function(std::vector<Tensor>{x, x}, std::vector<Tensor>{y}), full({2}, 2)));
  const auto& ledger = function.compiled()->ledger();
  ASSERT_EQ(ledger.size(), 2U);
  EXPECT_EQ(ledger[1].cause, "lists of other lengths");
}

/// Bytes from malloc that are in use; 0 under AddressSanitizer.
std::size_t allocated_bytes() { return mallinfo2().uordblks; }

TEST(Jit, NewShapesForEverTakeNoMoreMemory) {
  auto function =
      jit([](const Tensor& x, const std::vector<Tensor>& more) { return exp(x) + more[0]; }, {.capacity = 8});
  std::int64_t length = 0;
  const auto call = [&](int times) {
    for (; times > 0; --times) {
      ++length;
      function(full({length % 1000 + 1, 1}, 1),
               std::vector<Tensor>(static_cast<std::size_t>(length % 7 + 1), full({}, 1)));
    }
    return allocated_bytes();
  };
  const std::size_t before = call(600);
  EXPECT_LT(call(900), before + (std::size_t{1} << 20U)) << "a line takes about 8 KB";
}

TEST(Jit, FindsItsGraphAmongManyWithoutComparingThem) {
  auto function = jit([](const Tensor& x) { return x + 1.0; });
  constexpr std::int64_t kShapes = 40;
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t length = 1; length <= kShapes; ++length) {
      EXPECT_EQ(function(full({length}, 1.0)).shape(), Shape{length});
    }
  }
  const auto& ledger = function.compiled()->ledger();
  ASSERT_EQ(ledger.size(), static_cast<std::size_t>(kShapes));
  std::uint64_t comparisons = 0;
  for (const Compilation& line : ledger) {
    EXPECT_EQ(line.calls, 3U);
    comparisons += line.comparisons;
  }
  EXPECT_LE(comparisons, 2U * 3U * kShapes);  // with the last one used, and with the one of its hash
}

TEST(Jit, ResultsSurviveTheEvictionOfTheirGraph) {
  auto function = jit([](const Tensor& x) { return x + 1; }, {.capacity = 1});
  const Tensor first = function(ramp({3}));
  function(ramp({4}));
  EXPECT_THAT(first.to_vector<float>(), ElementsAre(2, 3, 4));
}

TEST(Jit, ResultsOfOneCallAreNotTouchedByTheNext) {
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    auto function = jit([](const Tensor& x) { return std::pair(x + 1, x); }, {.pipeline = variant.pipeline});
    const auto first = function(ramp({3}));
    const auto second = function(ramp({3}, 10));
    EXPECT_THAT(first.first.to_vector<float>(), ElementsAre(2, 3, 4)) << variant.name;
    EXPECT_THAT(first.second.to_vector<float>(), ElementsAre(1, 2, 3)) << variant.name;
    EXPECT_THAT(second.first.to_vector<float>(), ElementsAre(11, 12, 13)) << variant.name;
  }
}

TEST(Jit, TreesComeBackInTheirShape) {
  auto function = jit([](const Tensor& x, const std::pair<Tensor, std::vector<Tensor>>& rest) {
    return std::tuple(x, std::vector<Tensor>{rest.first + x, rest.second.at(1)}, std::array<Tensor, 1>{rest.second[0]});
  });
  for (int i = 0; i < 2; ++i) {
    const auto [a, b, c] =
        function(ramp({1}, 1), std::pair(ramp({1}, 2), std::vector<Tensor>{ramp({1}, 3), ramp({1}, 4)}));
    EXPECT_EQ(a.item(), 1);
    ASSERT_EQ(b.size(), 2U);
    EXPECT_EQ(b[0].item(), 3);
    EXPECT_EQ(b[1].item(), 4);
    EXPECT_EQ(c[0].item(), 3);
  }
}

TEST(Jit, OneFunctionOnTheArgumentsTwice) {
  auto function = jit([](const Tensor& x, const Tensor& y) { return x - y; });
  const Tensor x = ramp({3});
  EXPECT_THAT(function(x, x).to_vector<float>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(function(x, ramp({3}, 0)).to_vector<float>(), ElementsAre(1, 1, 1))
      << "that arguments were the same tensor once means nothing";
}

TEST(Jit, ANestedFunctionBecomesPartOfTheGraphAroundIt) {
  auto inner = jit([](const Tensor& x) { return exp(x) + 1; });
  auto outer = jit([&](const Tensor& x) { return inner(x) * inner(neg(x)); });
  const Tensor x = diptych::testing::wave({5}, 0.3F);
  expect_same_bits(outer(x), (exp(x) + 1) * (exp(neg(x)) + 1), "nested");
  EXPECT_EQ(inner.compiled(), nullptr) << "it never ran on its own";
  EXPECT_EQ(outer.compiled()->ledger()[0].captured_nodes, 8U);
  expect_same_bits(inner(x), exp(x) + 1, "alone");
  EXPECT_EQ(inner.compiled()->ledger().size(), 1U);
}

TEST(Jit, AFunctionWithinAFunctionMadeInTheCapture) {
  auto outer = jit([](const Tensor& x) {
    auto inner = jit([&](const Tensor& y) { return y + x; });
    return inner(x * 2);
  });
  EXPECT_THAT(outer(ramp({2})).to_vector<float>(), ElementsAre(3, 6));
  EXPECT_THAT(outer(ramp({2}, 5)).to_vector<float>(), ElementsAre(15, 18));
}

TEST(Jit, FlatFunctionsInlineToo) {
  JitFunction flat([](std::span<const Tensor> x, std::shared_ptr<void>&) { return std::vector<Tensor>{x[0] * 3}; }, {});
  auto outer = jit([&](const Tensor& x) { return flat.call(std::span(&x, 1), Location::current()).outputs[0] + 1; });
  EXPECT_THAT(outer(ramp({2})).to_vector<float>(), ElementsAre(4, 7));
  EXPECT_EQ(outer.compiled()->graph()->nodes.size(), 2U);
}

TEST(Jit, CopiesOfACalledFunctionShareItsGraphs) {
  auto function = jit([](const Tensor& x) { return x + 1; });
  function(ramp({2}));
  auto copy = function;
  copy(ramp({2}));
  copy(ramp({3}));
  EXPECT_EQ(function.compiled()->ledger().size(), 2U);
}

TEST(Jit, EagerAndGraphMixFreely) {
  auto twice = jit([](const Tensor& x) { return x * 2; });
  Tensor x = ramp({3});
  for (int i = 0; i < 3; ++i) {
    x = twice(x) + 1;
  }
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(15, 23, 31));
}

TEST(Jit, DispatchesNoOpOnReplay) {
  auto function = jit([](const Tensor& x) { return exp(x) * 2 + 1; });
  const Tensor x = ramp({3});
  function(x);
  const std::uint64_t before = thread_context.dispatches;
  function(x);
  EXPECT_EQ(thread_context.dispatches, before);
}

TEST(Jit, ObserversSeeEveryStage) {
  std::vector<std::string> stages;
  passes::PipelineOptions pipeline;
  pipeline.observe = [&](const std::string& stage, const Graph& graph, bool) {
    verify(graph);
    stages.push_back(stage);
  };
  auto function = jit([](const Tensor& x) { return x + 1; }, {.pipeline = pipeline});
  function(ramp({3}));
  std::vector<std::string> expected = {"captured"};
  for (const passes::Pass& pass : passes::pipeline()) {
    expected.emplace_back(pass.name);
  }
  EXPECT_EQ(stages, expected);
}

}  // namespace
}  // namespace diptych::graph
