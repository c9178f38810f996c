// grad, value_and_grad and no_grad from the user's side.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/autograd/backward.h"
#include "framework/core/allocator.h"
#include "framework/diptych.h"
#include "framework/transforms/value_and_grad.h"

namespace diptych {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor scalar(double value) { return Tensor::scalar(value); }

TEST(Grad, OfAPolynomialToTheThirdOrder) {
  const auto cube = [](const Tensor& x) { return x * x * x; };
  auto first = grad(cube);
  auto second = grad(first);
  auto third = grad(second);
  EXPECT_EQ(first(scalar(2)).item(), 12);
  EXPECT_EQ(second(scalar(2)).item(), 12);
  EXPECT_EQ(third(scalar(2)).item(), 6);
}

TEST(Grad, OfTanhFollowsTheFormulasToTheThirdOrder) {
  const auto f = [](const Tensor& x) { return tanh(x); };
  const double x = 0.7;
  const double t = std::tanh(x);
  EXPECT_NEAR(grad(f)(scalar(x)).item(), 1 - t * t, 1e-15);
  EXPECT_NEAR(grad(grad(f))(scalar(x)).item(), -2 * t * (1 - t * t), 1e-14);
  EXPECT_NEAR(grad(grad(grad(f)))(scalar(x)).item(), (1 - t * t) * (6 * t * t - 2), 1e-14);
}

TEST(Grad, NestedOverDifferentVariables) {
  // d/dx [ x * d/dy (x * y^2) ] = d/dx [2 x^2 y] = 4 x y: the inner result depends on x through the closure.
  auto f = grad([](const Tensor& x) {
    auto inner = grad([&](const Tensor& y) { return x * y * y; });
    return x * inner(scalar(5));
  });
  EXPECT_EQ(f(scalar(3)).item(), 4 * 3 * 5);
}

TEST(Grad, InnerGradientByAConstantIsConstant) {
  // Perturbation confusion: the inner derivative of y -> x is 0, whatever x is to the outer one.
  auto f = grad([](const Tensor& x) {
    auto inner = grad([&](const Tensor& y) { return x + y * 0.0; });
    return x * inner(scalar(1));
  });
  EXPECT_EQ(f(scalar(3)).item(), 0);
}

TEST(Grad, ByPositionsInTheOrderAsked) {
  auto f =
      grad([](const Tensor& a, const Tensor& b, const Tensor& c) { return sum(a * b + c); }, std::vector<int>{2, 0});
  const std::vector<Tensor> gradients = f(scalar(2), scalar(3), scalar(4));
  ASSERT_EQ(gradients.size(), 2U);
  EXPECT_EQ(gradients[0].item(), 1);
  EXPECT_EQ(gradients[1].item(), 3);
}

TEST(Grad, OfABroadcastIsSummed) {
  auto f = grad([](const Tensor& row, const Tensor& matrix) { return sum(row * matrix); });
  EXPECT_THAT(f(ones({3}), Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3})).to_vector<float>(),
              ElementsAre(5, 7, 9));
}

TEST(Grad, OfWhatIsNotUsedIsZero) {
  auto f = grad([](const Tensor& a, const Tensor& /*b*/) { return sum(a); }, std::vector<int>{1});
  EXPECT_THAT(f(ones({2}), ones({3}))[0].to_vector<float>(), ElementsAre(0, 0, 0));
  auto constant = grad([](const Tensor& /*a*/) { return ones({}); });
  EXPECT_EQ(constant(scalar(1)).item(), 0);
}

TEST(Grad, SharedSubexpressionsAddUp) {
  auto f = grad([](const Tensor& x) {
    const Tensor y = x * x;
    return y * y + y;  // x^4 + x^2
  });
  EXPECT_EQ(f(scalar(3)).item(), 4 * 27 + 2 * 3);
}

TEST(ValueAndGrad, ByWeights) {
  Variable w(Tensor::from({1.0, 2.0}, {2}), "w");
  Variable unused(ones({1}, DType::float64), "unused");
  auto f = value_and_grad([&](const Tensor& x) { return sum(w.value() * x * x); }, {.weights = {w, unused}});
  const auto result = f(Tensor::from({3.0, 4.0}, {2}));
  EXPECT_EQ(result.value.item(), 9 + 32);
  EXPECT_THAT(result.weights[0].to_vector<double>(), ElementsAre(9, 16));
  EXPECT_EQ(result.weights[1].item(), 0);
  EXPECT_TRUE(result.arguments.empty());
  EXPECT_FALSE(w.value().requires_grad()) << "the variable is as it was";
}

TEST(ValueAndGrad, ByWeightsAndArguments) {
  Variable w(scalar(2), "w");
  auto f = value_and_grad([&](const Tensor& x) { return w.value() * x * x; }, {.arguments = {0}, .weights = {w}});
  const auto result = f(scalar(3));
  EXPECT_EQ(result.arguments[0].item(), 12);
  EXPECT_EQ(result.weights[0].item(), 9);
}

TEST(ValueAndGrad, HasAux) {
  auto f = value_and_grad([](const Tensor& x) {
    const Tensor hidden = x * x;
    return std::pair(sum(hidden), std::pair(hidden, std::vector<Tensor>{x * 2.0}));
  });
  const auto result = f(Tensor::from({1.0, 2.0}, {2}));
  EXPECT_EQ(result.value.item(), 5);
  EXPECT_THAT(result.aux.first.to_vector<double>(), ElementsAre(1, 4));
  EXPECT_THAT(result.aux.second[0].to_vector<double>(), ElementsAre(2, 4));
  EXPECT_THAT(result.arguments[0].to_vector<double>(), ElementsAre(2, 4));
}

TEST(ValueAndGrad, AuxMayBeHeldWithoutTheTape) {
  auto f = value_and_grad([](const Tensor& x) { return std::pair(sum(exp(x)), exp(x) * 2.0); });
  EXPECT_FALSE(f(ones({2})).value.requires_grad());
}

TEST(ValueAndGrad, WeightsAssignedInsideKeepTheirNewValue) {
  Variable w(scalar(2), "w");
  auto f = value_and_grad(
      [&](const Tensor& x) {
        const Tensor loss = w.value() * x;
        w.assign(scalar(7));
        return loss;
      },
      {.weights = {w}});
  EXPECT_EQ(f(scalar(3)).weights[0].item(), 3);
  EXPECT_EQ(w.value().item(), 7);
}

TEST(ValueAndGrad, AnExceptionLeavesWeightsAsTheyWere) {
  Variable w(scalar(2), "w");
  auto f = value_and_grad([&](const Tensor& x) { return matmul(w.value() * x, x); }, {.weights = {w}});
  EXPECT_THROW(f(scalar(3)), ShapeError);
  EXPECT_FALSE(w.value().requires_grad());
  EXPECT_EQ(w.value().item(), 2);
}

TEST(NoGrad, RecordsNothing) {
  const Tensor x = autograd::watch(scalar(2));
  EXPECT_TRUE((x * x).requires_grad());
  {
    const NoGrad guard;
    EXPECT_FALSE((x * x).requires_grad());
  }
  EXPECT_FALSE(no_grad([&] { return x * x; }).requires_grad());
  EXPECT_TRUE((x * x).requires_grad());
  auto f = grad([](const Tensor& y) { return y * no_grad([&] { return y * y; }); });
  EXPECT_EQ(f(scalar(3)).item(), 9) << "the part without a tape counts as constant";
}

TEST(NoGrad, TransformsInsideStillDifferentiate) {
  const NoGrad guard;
  EXPECT_EQ(grad([](const Tensor& x) { return x * x; })(scalar(3)).item(), 6);
}

TEST(GradErrors, SayWhatAndWhere) {
  const auto message = [](auto&& fn) -> std::string {
    try {
      fn();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([] { grad([](const Tensor& x) { return x * x; })(ones({2})); }),
              ::testing::AllOf(HasSubstr("returned f32[2], not a floating-point scalar"), HasSubstr("sum()"),
                               HasSubstr("transforms_test.cpp:")));
  EXPECT_THAT(message([] { grad([](const Tensor& x) { return sum(x); })(ones({2}, DType::int64)); }),
              HasSubstr("a gradient by i64[2] doesn't exist"));
  EXPECT_THAT(message([] { grad([](const Tensor& x) { return sum(x); }, 3)(ones({2})); }),
              HasSubstr("there is no argument 3"));
}

TEST(Tape, SecondBackwardThroughFreedBuffersIsAnError) {
  const Tensor x = autograd::watch(scalar(2));
  const Tensor y = exp(x);
  const autograd::BackwardOptions options{.release = true, .outer_before = 0};
  const auto backward = [&] {
    return autograd::gradients(std::span(&y, 1), std::span(&x, 1), {}, options, Location::current());
  };
  EXPECT_NEAR(backward().gradients[0].item(), std::exp(2), 1e-14);
  try {
    backward();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(HasSubstr("what exp had saved was freed"), HasSubstr("transforms_test.cpp")));
  }
}

TEST(Tape, WhatWasSavedIsFreedAsSoonAsItsLastReaderRan) {
  constexpr std::int64_t kBytes = std::int64_t{4} << 20U;
  constexpr int kSteps = 8;
  std::vector<std::int64_t> in_use;  // as the pass reaches each op, last op first
  const auto chain = [&](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < kSteps; ++i) {
      y = tanh(y);  // keeps its result for its gradient
      register_hook(y, [&](const Tensor& g) {
        in_use.push_back(allocator::stats().bytes_in_use);
        return g;
      });
    }
    return sum(y);
  };
  grad(chain)(zeros({kBytes / 4}));
  ASSERT_EQ(in_use.size(), kSteps);
  for (int i = 2; i < kSteps; ++i) {  // the first cotangent is one number, expanded: it takes no memory
    EXPECT_LE(in_use[static_cast<std::size_t>(i)], in_use[static_cast<std::size_t>(i - 1)] - kBytes) << i;
  }
}

TEST(Tape, CotangentsCanBeGiven) {
  const Tensor x = autograd::watch(Tensor::from({1.0, 2.0}, {2}));
  const Tensor y = x * x;
  const Tensor cotangent = Tensor::from({10.0, 100.0}, {2});
  const auto result =
      autograd::gradients(std::span(&y, 1), std::span(&x, 1), std::span(&cotangent, 1), {}, Location::current());
  EXPECT_THAT(result.gradients[0].to_vector<double>(), ElementsAre(20, 400));
}

TEST(Tape, ALongChainNeedsNoStack) {
  Tensor x = autograd::watch(scalar(1));
  Tensor y = x;
  for (int i = 0; i < 500000; ++i) {
    y = neg(y);
  }
  const auto result = autograd::gradients(std::span(&y, 1), std::span(&x, 1), {}, {}, Location::current());
  EXPECT_EQ(result.gradients[0].item(), 1);
}

TEST(Tape, FreesWhatNoRuleReads) {
  // neg saves nothing: a chain of them keeps one tensor, not all.
  const std::int64_t before = allocator::stats().bytes_in_use;
  allocator::reset_peak();
  const Tensor x = autograd::watch(full({1 << 16}, 1));
  Tensor y = x;
  for (int i = 0; i < 100; ++i) {
    y = neg(y);
  }
  EXPECT_LT(allocator::stats().peak_bytes - before, 4 * (1 << 16) * 4);
}

TEST(Tape, LeavesNothingBehind) {
  const auto loss = [](const Tensor& x) { return sum(exp(tanh(x) * x)); };
  auto f = value_and_grad(loss);
  const Tensor x = ones({64});
  f(x);
  const std::int64_t before = allocator::stats().bytes_in_use;
  for (int i = 0; i < 10; ++i) {
    f(x);
  }
  EXPECT_EQ(allocator::stats().bytes_in_use, before) << "a cycle keeps the tape alive";
}

TEST(Tape, DiesWithItsLastTensorWithoutABackward) {
  const Tensor x = ones({64});
  const auto record = [&] {
    const Tensor watched = autograd::watch(x);
    const Tensor unused = exp(tanh(watched)) * 2.0;
  };
  record();
  const std::int64_t before = allocator::stats().bytes_in_use;
  record();
  EXPECT_EQ(allocator::stats().bytes_in_use, before) << "a cycle keeps the tape alive";
}

}  // namespace
}  // namespace diptych
