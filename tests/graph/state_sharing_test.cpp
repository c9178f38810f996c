// States that others hold or use too: handles and views of their tensors, other variables, other graphs, eager code;
// and calls that fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::i64;
using diptych::testing::ramp;
using ::testing::ElementsAre;

/// A replay must never change what anyone else holds.
void expect_untouched(const std::function<Tensor(const Tensor&)>& handle) {
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    SCOPED_TRACE(variant.name);
    Variable state(ramp({2, 3}), "state");
    auto function = jit(
        [&](const Tensor& x) {
          state.assign(state.value() + x);
          return state.value();
        },
        {.pipeline = variant.pipeline});
    for (int call = 0; call < 4; ++call) {
      const Tensor mine = handle(state.value());
      const Tensor expected = copy(mine);
      function(ones({2, 3}));
      expect_same_bits(mine, expected, "the handle");
      expect_same_bits(state.value(), ramp({2, 3}, 2 + static_cast<float>(call)), "the state");
    }
  }
}

TEST(State, AHandleOfItsTensorStaysAsItIs) {
  expect_untouched([](const Tensor& value) { return value; });
}

TEST(State, AViewOfItsTensorStaysAsItIs) {
  expect_untouched([](const Tensor& value) { return slice(value, 0, 1, 2); });
  expect_untouched([](const Tensor& value) { return transpose(value); });
  expect_untouched([](const Tensor& value) { return reshape(value, {6}); });
}

TEST(State, TheTensorThatItStartedFromStaysAsItIs) {
  const Tensor initial = ramp({3});
  Variable state(initial, "state");
  auto function = jit([&](const Tensor& x) {
    state.assign(state.value() * x);
    return x + 1;
  });
  function(full({3}, 2.0));
  function(full({3}, 2.0));
  EXPECT_THAT(initial.to_vector<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(state.value().to_vector<float>(), ElementsAre(4, 8, 12));
}

TEST(State, ACapturedTensorThatWasAssignedIsNotWrittenInPlaceLater) {
  const Tensor captured = f32({7, 8}, {2});
  Variable state(f32({0, 0}, {2}), "state");
  auto reset = jit([&](const Tensor& x) {
    state.assign(captured);
    return x + 1;
  });
  auto count = jit([&](const Tensor& x) {
    state.assign(state.value() + x);
    return x + 1;
  });
  for (int i = 0; i < 3; ++i) {
    reset(f32({1, 1}, {2}));
    count(f32({1, 1}, {2}));
    EXPECT_THAT(state.value().to_vector<float>(), ElementsAre(8, 9));
    EXPECT_THAT(captured.to_vector<float>(), ElementsAre(7, 8));
  }
}

TEST(State, ItsTensorIsAlsoTheArgument) {
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    SCOPED_TRACE(variant.name);
    Variable state(ramp({3}), "state");
    auto function = jit(
        [&](const Tensor& x) {
          state.assign(state.value() + 1);
          return state.value() * x;
        },
        {.pipeline = variant.pipeline});
    EXPECT_THAT(function(state.value()).to_vector<float>(), ElementsAre(2, 6, 12));
    EXPECT_THAT(function(state.value()).to_vector<float>(), ElementsAre(6, 12, 20));
    EXPECT_THAT(state.value().to_vector<float>(), ElementsAre(3, 4, 5));
  }
}

TEST(State, TwoVariablesShareOneTensor) {
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    for (bool assign_both : {false, true}) {
      SCOPED_TRACE(variant.name);
      const Tensor shared = ramp({3});
      Variable a(zeros({3}), "a");
      Variable b(zeros({3}), "b");
      a.assign(shared);
      b.assign(shared);
      auto function = jit(
          [&](const Tensor& x) {
            a.assign(a.value() + x);
            if (assign_both) {
              b.assign(b.value() * 10);
            }
            return b.value() - x;
          },
          {.pipeline = variant.pipeline});
      EXPECT_THAT(function(ones({3})).to_vector<float>(), assign_both ? ElementsAre(9, 19, 29) : ElementsAre(0, 1, 2));
      EXPECT_THAT(a.value().to_vector<float>(), ElementsAre(2, 3, 4));
      EXPECT_THAT(shared.to_vector<float>(), ElementsAre(1, 2, 3));
    }
  }
}

TEST(State, IsUpdatedInPlaceWhenNobodyElseHoldsIt) {
  Variable state(ramp({1024}), "state");
  auto function = jit([&](const Tensor& x) {
    state.assign(state.value() + x);
    return std::vector<Tensor>{};
  });
  const Tensor x = ones({1024});
  function(x);  // the initial tensor was shared with ramp()'s result at first
  const float* before = state.value().data<float>();
  function(x);
  EXPECT_EQ(state.value().data<float>(), before);
  EXPECT_EQ(function.compiled()->executable()->stats().instructions, 1U) << "no copy to the state";
  EXPECT_EQ(function.compiled()->executable()->stats().temporary_bytes, 0U);
}

TEST(State, IsUsableAfterAKernelFailed) {
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    SCOPED_TRACE(variant.name);
    Variable state(ramp({3}), "state");
    auto function = jit(
        [&](const Tensor& index) {
          const Tensor row = one_hot(index, 3);
          state.assign(state.value() + reshape(row, {3}));
          return state.value() * 2;
        },
        {.pipeline = variant.pipeline});
    EXPECT_THAT(function(i64({1}, {1})).to_vector<float>(), ElementsAre(2, 6, 6));
    EXPECT_THROW(function(i64({3}, {1})), Error);
    EXPECT_THROW(function(i64({-1}, {1})), Error);
    EXPECT_THAT(state.value().to_vector<float>(), ElementsAre(1, 3, 3)) << "as eager: the failure comes first";
    EXPECT_THAT(function(i64({0}, {1})).to_vector<float>(), ElementsAre(4, 6, 6));
    EXPECT_EQ(function.compiled()->ledger().size(), 1U);
  }
}

TEST(State, AFailedCallReturnsNothingAndFreesTheLock) {
  JitFunction flat(
      [](std::span<const Tensor> x, std::shared_ptr<void>&) { return std::vector<Tensor>{one_hot(x[0], 2)}; }, {});
  const Tensor bad = i64({5}, {1});
  const Tensor good = i64({1}, {1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(flat.call(std::span(&bad, 1), Location::current()), Error);
    EXPECT_THAT(flat.call(std::span(&good, 1), Location::current()).outputs[0].to_vector<float>(), ElementsAre(0, 1));
  }
}

TEST(State, WrongAssignmentsFailInTheCapture) {
  Variable state(ramp({3}), "state");
  auto shape = jit([&](const Tensor& x) {
    state.assign(x);
    return x + 1;
  });
  EXPECT_THROW(shape(ramp({4})), ShapeError);
  EXPECT_THROW(shape(cast(ramp({3}), DType::float64)), DTypeError);
  EXPECT_THAT(state.value().to_vector<float>(), ElementsAre(1, 2, 3));
}

TEST(State, GraphsAndEagerCodeShareVariables) {
  Variable state(Tensor::scalar(1.0F), "state");
  auto doubled = jit([&](const Tensor& x) {
    state.assign(state.value() * x);
    return state.value();
  });
  auto added = jit([&](const Tensor& x) {
    state.assign(state.value() + x);
    return state.value();
  });
  EXPECT_EQ(doubled(Tensor::scalar(2.0F)).item(), 2);
  EXPECT_EQ(added(Tensor::scalar(5.0F)).item(), 7);
  state.assign(state.value() - 1);
  EXPECT_EQ(doubled(Tensor::scalar(2.0F)).item(), 12);
  EXPECT_EQ(added(Tensor::scalar(1.0F)).item(), 13);
}

}  // namespace
}  // namespace diptych::graph
