// Effects: in program order, in eager at once, in graphs at each call.

#include <cmath>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych {
namespace {

using ::testing::AllOf;
using testing::f32;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;

class Debug : public ::testing::Test {
 protected:
  Debug() { debug::set_stream(&stream_); }
  ~Debug() override { debug::set_stream(nullptr); }
  std::string taken() {
    std::string text = stream_.str();
    stream_.str("");
    return text;
  }

  std::ostringstream stream_;
};

TEST_F(Debug, PrintsInProgramOrderAtEachCall) {
  const auto program = [](const Tensor& x) {
    debug::print("x", x);
    const Tensor y = debug::print("y", x * 2) + 1;
    debug::print("x", x);  // the same again: prints are never merged
    debug::print("unused", exp(x) * 0);
    return y;
  };
  const std::string expected = "x: f32[2] {1, 2}\ny: f32[2] {2, 4}\nx: f32[2] {1, 2}\nunused: f32[2] {0, 0}\n";
  const Tensor x = f32({1, 2}, {2});
  program(x);
  EXPECT_EQ(taken(), expected);
  for (const testing::Variant& variant : testing::pipeline_variants()) {
    auto graph = jit(program, {.pipeline = variant.pipeline});
    for (int call = 0; call < 2; ++call) {
      testing::expect_same_bits(graph(x), f32({3, 5}, {2}), variant.name);
      EXPECT_EQ(taken(), expected) << variant.name;
    }
  }
}

TEST_F(Debug, PrintsConstantsAndStridedViews) {
  auto graph = jit([](const Tensor& x) {
    debug::print("half", full({2}, 0.5));
    debug::print("turned", transpose(x));
    return x;
  });
  graph(f32({1, 2, 3, 4}, {2, 2}));
  EXPECT_EQ(taken(), "half: f32[2] {0.5, 0.5}\nturned: f32[2,2] {1, 3, 2, 4}\n");
}

TEST_F(Debug, PrintsOncePerIterationAndInTheBranchThatIsTaken) {
  const auto program = [](const Tensor& xs) {
    return scan(
        [](const Tensor& c, const Tensor& x) {
          debug::print("x", x);
          cond(
              greater(x, Tensor::scalar(1.0F)), [&] { debug::print("large", c); }, [] {});
          return std::pair(c + x, std::tuple<>());
        },
        Tensor::scalar(0.0F), xs);
  };
  const std::string expected = "x: f32[] {1}\nx: f32[] {2}\nlarge: f32[] {1}\nx: f32[] {0}\n";
  const Tensor xs = f32({1, 2, 0}, {3});
  program(xs);
  EXPECT_EQ(taken(), expected);
  for (const testing::Variant& variant : testing::pipeline_variants()) {
    auto graph = jit(program, {.pipeline = variant.pipeline});
    graph(xs);
    EXPECT_EQ(taken(), expected) << variant.name;
  }
}

TEST_F(Debug, PrintsTheForwardPassOfAGradientInOrder) {
  const auto program = [](const Tensor& x) {
    return grad([](const Tensor& y) { return debug::print("loss", sum(y * y)); })(x);
  };
  const Tensor x = f32({1, 2}, {2});
  testing::expect_same_bits(program(x), f32({2, 4}, {2}), "eager");
  EXPECT_EQ(taken(), "loss: f32[] {5}\n");
  testing::expect_same_bits(jit(program)(x), f32({2, 4}, {2}), "graph");
  EXPECT_EQ(taken(), "loss: f32[] {5}\n");
}

TEST_F(Debug, GradientsShowNothingAgain) {
  const auto loss = [](const Tensor& x) {
    return scan(
               [&](const Tensor& c, const Tensor& row) {
                 const Tensor next = cond(
                     greater(row, full({}, 1)), [&] { return debug::print("c", c) * row; }, [&] { return c; });
                 return std::pair(next, std::tuple<>());
               },
               debug::print("sum", sum(x)), x)
        .first;
  };
  const auto program = [&](const Tensor& x) { return grad(loss)(x); };
  const Tensor x = f32({1, 2, 3}, {3});
  const std::string expected = "sum: f32[] {6}\nc: f32[] {6}\nc: f32[] {12}\n";
  testing::expect_same_bits(program(x), f32({6, 24, 18}, {3}), "eager");  // (a + b + c) b c, but a isn't a factor
  EXPECT_EQ(taken(), expected);
  testing::expect_same_bits(jit(program)(x), f32({6, 24, 18}, {3}), "graph");
  EXPECT_EQ(taken(), expected);
  jvp(loss, x, x);
  EXPECT_EQ(taken(), expected);
}

TEST_F(Debug, AnEffectWithoutResultsIsEnoughToKeepALoop) {
  auto graph = jit([](const Tensor& xs) {
    scan([](const std::tuple<>& none, const Tensor& x) { return std::pair(none, std::tuple(debug::print("x", x))); },
         std::tuple<>(), xs);
    return sum(xs);
  });
  graph(f32({1, 2}, {2}));
  EXPECT_EQ(taken(), "x: f32[] {1}\nx: f32[] {2}\n");
}

TEST_F(Debug, CheckFiniteNamesTheFirstElement) {
  std::uint32_t line = 0;
  const auto program = [&](const Tensor& x) {
    line = __builtin_LINE() + 1;
    return debug::check_finite(x, "activations") * 2;
  };
  auto graph = jit(program);
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor bad = f32({1, 2, 3, 4, -inf, std::nanf("")}, {2, 3});
  const Tensor good = f32({1, 2, 3, 4, 5, 6}, {2, 3});
  for (int round = 0; round < 2; ++round) {
    for (const bool captured : {false, true}) {
      const std::string message = message_of<Error>([&] { captured ? graph(bad) : program(bad); });
      EXPECT_THAT(message, AllOf(HasSubstr("'activations' has -inf at [1,1] of f32[2,3]"),
                                 HasSubstr("debug_test.cpp:" + std::to_string(line))));
      EXPECT_EQ((captured ? graph(good) : program(good)).to_vector<float>()[5], 12);
    }
  }
  EXPECT_NO_THROW(debug::check_finite(testing::i64({1, 2}, {2}), "integers"));
  EXPECT_THROW(debug::check_finite(cast(bad, DType::bfloat16), "bf16"), Error);
  EXPECT_THROW(debug::check_finite(cast(bad, DType::float64), "f64"), Error);
}

TEST_F(Debug, StatesAreNotWrittenBeforeACheckThatFails) {
  Variable weight(f32({1, 2}, {2}), "weight");
  auto graph = jit([&](const Tensor& x) {
    weight.assign(weight * x);
    debug::print("before", x);
    debug::check_finite(weight, "weight");
    debug::print("after", x);
    return sum(x);
  });
  EXPECT_THROW(graph(f32({1, std::nanf("")}, {2})), Error);
  EXPECT_EQ(taken(), "before: f32[2] {1, nan}\n");
  testing::expect_same_bits(weight, f32({1, 2}, {2}), "weight");
  graph(f32({2, 3}, {2}));
  testing::expect_same_bits(weight, f32({2, 6}, {2}), "weight");
}

TEST_F(Debug, RefusesAnUndefinedTensor) {
  EXPECT_THROW(debug::print("x", Tensor()), Error);
  EXPECT_THAT(taken(), IsEmpty());
}

}  // namespace
}  // namespace diptych
