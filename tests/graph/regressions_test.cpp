// What once went wrong, one test each: states that start strided, trees of other structure, leaked tensors, failing
// kernels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::i64;
using diptych::testing::ramp;
using ::testing::ElementsAre;

TEST(State, MayStartAsAStridedView) {
  const Variable state(transpose(ramp({2, 3})), "state");
  auto function = jit([&](const Tensor& x) { return state.value() + x; });
  EXPECT_THAT(function(zeros({3, 2})).to_vector<float>(), ElementsAre(1, 4, 2, 5, 3, 6));
  const Variable filled(expand(Tensor::scalar(7.0F), {2, 2}), "filled");
  auto broadcast = jit([&](const Tensor& x) { return filled.value() + x; });
  EXPECT_THAT(broadcast(zeros({2, 2})).to_vector<float>(), ElementsAre(7, 7, 7, 7));
}

TEST(State, MayBeAssignedAStridedViewByEagerCode) {
  Variable state(zeros({3, 2}), "state");
  state.assign(transpose(ramp({2, 3})));
  auto function = jit([&](const Tensor& x) {
    state.assign(state.value() + x);
    return state.value();
  });
  EXPECT_THAT(function(zeros({3, 2})).to_vector<float>(), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(State, KeepsItsValueWhereEagerCodeWouldNotHaveReachedTheAssignment) {
  Variable state(f32({1, 2}, {2}), "state");
  auto function = jit([&](const Tensor& index) {
    const Tensor next = state.value() + 1;
    const Tensor row = one_hot(index, 3);
    state.assign(next);
    return row;
  });
  function(i64({1}, {1}));
  EXPECT_THROW(function(i64({7}, {1})), Error);
  EXPECT_THAT(state.value().to_vector<float>(), ElementsAre(2, 3));
}

TEST(Jit, TheLengthOfAListIsPartOfTheSignature) {
  auto function = jit([](const std::vector<Tensor>& xs) {
    Tensor total = xs[0];
    for (std::size_t i = 1; i < xs.size(); ++i) {
      total = total + xs[i];
    }
    return total;
  });
  const Tensor one = ones({1});
  EXPECT_EQ(function(std::vector<Tensor>{one}).item(), 1);
  EXPECT_EQ(function(std::vector<Tensor>{one, one}).item(), 2);
  EXPECT_EQ(function(std::vector<Tensor>{one}).item(), 1);
}

TEST(Jit, TheShapeOfATreeIsPartOfTheSignature) {
  using Lists = std::pair<std::vector<Tensor>, std::vector<Tensor>>;
  auto function = jit([](const Lists& lists) { return lists.first[0] * static_cast<float>(lists.first.size()); });
  const Tensor one = ones({1});
  EXPECT_EQ(function(Lists{{one}, {one, one}}).item(), 1);
  EXPECT_EQ(function(Lists{{one, one}, {one}}).item(), 2);
}

TEST(Jit, ALeakedTracedTensorIsNoArgument) {
  Tensor leaked;
  auto leak = jit([&](const Tensor& x) { return leaked = x + 1; });
  leak(ones({1}));
  auto function = jit([](const Tensor& x) { return x + 1; });
  EXPECT_THROW(function(leaked), CaptureError);
  Variable state(ones({1}), "state");
  EXPECT_THROW(state.assign(leaked), CaptureError);
}

TEST(Jit, ACapacityOfZeroKeepsTheGraphThatRuns) {
  auto function = jit([](const Tensor& x) { return x + 1; }, {.capacity = 0});
  EXPECT_EQ(function(ones({1})).item(), 2);
}

TEST(Jit, DoesNotKeepItsFirstArguments) {
  auto function = jit([](const Tensor& x) { return sum(x); });
  const std::int64_t before = allocator::stats().bytes_in_use;
  function(zeros({1024, 1024}));
  EXPECT_LT(allocator::stats().bytes_in_use - before, 1 << 20);
}

TEST(Capture, AVariableIsNotMadeInACapture) {
  auto function = jit([](const Tensor& x) {
    Variable count(Tensor::scalar(0.0F), "count");
    count.assign(count.value() + x);
    return count.value();
  });
  EXPECT_THROW(function(Tensor::scalar(1.0F)), CaptureError);
}

TEST(JitGradient, OfATensorThatTheFunctionClosesOverIsRefused) {
  const Tensor y = ramp({3});
  auto transform = grad([&](const Tensor& x) {
    auto inner = jit([&](const Tensor& z) { return sum(x * z); });
    return inner(y);
  });
  EXPECT_THROW(transform(ones({3})), CaptureError);
}

TEST(Views, AStridedTensorOfNoElementsIsReshaped) { EXPECT_EQ(reshape(transpose(zeros({4, 0})), {0}).numel(), 0); }

TEST(Math, TheLogarithmOfNegativeNumbersOverflowsNothing) {
  for (float x : {-0.0F, -0.5F, -1.0F, -1e-40F}) {
    log(Tensor::scalar(x));
    log(Tensor::scalar(static_cast<double>(x)));
  }
}

TEST(GraphText, AShapeWhoseProductOverflowsIsRefused) {
  EXPECT_THROW(parse("graph \"g\"() {\n  const %0: "
                     "f32[1099511627776,1099511627776] = {}\n  return %0\n}\n"),
               Error);
}

TEST(GraphText, AValueIdFarBeyondTheTextIsRefused) {
  EXPECT_THROW(parse("graph \"g\"(%16777215: f32[4] argument \"x\") {\n  "
                     "return %16777215\n}\n"),
               Error);
}

TEST(GraphText, AnErrorOfTheVerifierNamesALineAndIsNoBugOfOurs) {
  try {
    parse(
        "graph \"g\"(%0: f32[4] argument \"x\") {\n  %1: f32[3] = exp(%0)\n  "
        "return %1\n}\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr("line 2"));
    EXPECT_THAT(std::string(error.what()), ::testing::Not(::testing::HasSubstr("report")));
  }
}

TEST(Executable, AFailedUnplannedCallKeepsNoMemory) {
  auto function =
      jit([](const Tensor& i) { return sum(one_hot(i, 1000)); }, {.pipeline = passes::PipelineOptions::none()});
  const Tensor good = full({100}, 1, DType::int64);
  const Tensor bad = full({100}, 7000, DType::int64);
  function(good);
  const std::int64_t before = allocator::stats().bytes_in_use;
  EXPECT_THROW(function(bad), Error);
  EXPECT_EQ(allocator::stats().bytes_in_use, before);
}

TEST(Pipeline, ASecondRunFindsNothingMore) {
  auto function = jit([](const Tensor& x) { return std::vector<Tensor>{x / 0.5, reshape(reshape(x, {6}), {2, 3})}; });
  function(ramp({2, 3}));
  Graph graph = *function.compiled()->graph();
  for (const passes::PassRecord& record : passes::run_pipeline(graph, {})) {
    EXPECT_FALSE(record.changed) << record.name;
  }
}

// The middle axis, of length 1, has the stride 0 of the repeated one: the two looked like one dense run.
TEST(Regressions, ARepeatedAxisIsCopiedWhereAReshapeJoinsItToOthers) {
  const Tensor row = diptych::testing::f32({1, 2, 3, 4}, {1, 4});
  const Tensor joined = reshape(expand(row, {2, 1, 4}), {8});
  diptych::testing::expect_same_bits(joined, diptych::testing::f32({1, 2, 3, 4, 1, 2, 3, 4}, {8}), "reshape");
}

}  // namespace
}  // namespace diptych::graph
