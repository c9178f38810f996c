#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::ramp;
using diptych::testing::wave;
using ::testing::ElementsAre;

/// An mlp's loss, without its parameters.
Tensor loss_of(const Tensor& x, const Tensor& w, const Tensor& b) { return mean(square(tanh(matmul(x, w) + b))); }

struct GradientCase {
  Variable w{wave({3, 4}, 1), "w"};
  Variable b{wave({4}, 2), "b"};
  Tensor x = wave({5, 3}, 3);
};

template <class R>
std::vector<Tensor> flat(const R& result) {
  return flatten_tree(result);
}

/// value_and_grad of `outer(inner(...))`, with `inner` as a graph or as it is.
template <class Make>
void expect_same_gradients(const Make& make) {
  const auto eager = make([](auto fn) { return fn; });
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    const auto graph = make([&](auto fn) { return jit(fn, {.pipeline = variant.pipeline}); });
    expect_same_bits(graph, eager, variant.name);
  }
}

TEST(JitGradient, OfAFormula) {
  // d/dx sum(x^3) = 3 x^2, through a graph call.
  auto cube = jit([](const Tensor& x) { return x * x * x; });
  auto gradient = grad([&](const Tensor& x) { return sum(cube(x)); });
  EXPECT_THAT(gradient(f32({1, 2, -3}, {3})).to_vector<float>(), ElementsAre(3, 12, 27));
  auto second = grad([&](const Tensor& x) { return sum(grad([&](const Tensor& y) { return sum(cube(y)); })(x)); });
  EXPECT_THAT(second(f32({1, 2, -3}, {3})).to_vector<float>(), ElementsAre(6, 12, -18));
}

TEST(JitGradient, FlowsToArgumentsAndVariables) {
  expect_same_gradients([](auto wrap) {
    GradientCase c;
    auto inner = wrap([&](const Tensor& x) { return loss_of(x, c.w, c.b); });
    auto transform =
        value_and_grad([&](const Tensor& x) { return inner(x * 2) + 1; }, {.arguments = {0}, .weights = {c.w, c.b}});
    std::vector<Tensor> all;
    for (float phase : {1.0F, 2.0F}) {
      for (const Tensor& tensor : flat(transform(wave({5, 3}, phase)))) {
        all.push_back(tensor);
      }
    }
    return all;
  });
}

TEST(JitGradient, FlowsThroughSeveralOutputsSomeUnusedSomeIntegers) {
  expect_same_gradients([](auto wrap) {
    auto inner = wrap([](const Tensor& x, const Tensor& y) {
      return std::vector<Tensor>{exp(x), argmax(y, -1), x * y, y + 1};
    });
    auto transform = value_and_grad(
        [&](const Tensor& x, const Tensor& y) {
          const std::vector<Tensor> parts = inner(x, y);
          return sum(parts[2] * parts[0]);
        },
        {.arguments = {0, 1}, .weights = {}});
    return flat(transform(wave({3}, 1), wave({3}, 2)));
  });
}

TEST(JitGradient, OfAnIntegerArgumentIsNotAskedFor) {
  expect_same_gradients([](auto wrap) {
    auto inner = wrap([](const Tensor& x, const Tensor& labels) { return cross_entropy(x, labels); });
    const Tensor labels = diptych::testing::i64({0, 2}, {2});
    auto transform = value_and_grad([&](const Tensor& x) { return inner(x, labels); });
    return flat(transform(wave({2, 3}, 1)));
  });
}

TEST(JitGradient, OfTwoCallsOfOneFunctionAddUp) {
  expect_same_gradients([](auto wrap) {
    Variable w(wave({4, 4}, 1), "w");
    auto layer = wrap([&](const Tensor& x) { return tanh(matmul(x, transpose(w.value()))); });
    auto both =
        value_and_grad([&](const Tensor& x) { return sum(layer(layer(x) * 2)); }, {.arguments = {0}, .weights = {w}});
    return flat(both(wave({2, 4}, 5)));
  });
}

TEST(JitGradient, ReachesWhatTheVariableWasAtTheCall) {
  // The function updates the state that it reads: the gradient belongs to the
  // value that was read.
  expect_same_gradients([](auto wrap) {
    Variable statistics(wave({3}, 1), "statistics");
    Variable w(wave({3}, 2), "w");
    auto inner = wrap([&](const Tensor& x) {
      const Tensor out = x * w.value() + statistics.value();
      statistics.assign(statistics.value() * 0.5F + x);
      return out;
    });
    auto transform =
        value_and_grad([&](const Tensor& x) { return sum(square(inner(x))); }, {.arguments = {0}, .weights = {w}});
    std::vector<Tensor> all;
    for (int i = 0; i < 3; ++i) {
      for (const Tensor& tensor : flat(transform(wave({3}, static_cast<float>(i))))) {
        all.push_back(tensor);
      }
      all.push_back(copy(statistics.value()));
    }
    return all;
  });
}

TEST(JitGradient, OfTheSecondOrder) {
  expect_same_gradients([](auto wrap) {
    auto inner = wrap([](const Tensor& x) { return sum(tanh(x) * x); });
    auto first = [&](const Tensor& x) { return sum(square(grad([&](const Tensor& y) { return inner(y); })(x))); };
    return flat(value_and_grad(first)(wave({4}, 1)));
  });
}

TEST(JitGradient, ValueAndGradWithinAGraph) {
  expect_same_gradients([](auto wrap) {
    GradientCase c;
    auto step = wrap([&](const Tensor& x) {
      auto transform = value_and_grad([&](const Tensor& y) { return loss_of(y, c.w, c.b); },
                                      {.arguments = {0}, .weights = {c.w, c.b}});
      const auto result = transform(x);
      c.w.assign(c.w.value() - result.weights[0] * 0.1F);
      c.b.assign(c.b.value() - result.weights[1] * 0.1F);
      return std::vector<Tensor>{result.value, result.arguments[0]};
    });
    std::vector<Tensor> all;
    for (int i = 0; i < 4; ++i) {
      for (const Tensor& tensor : step(c.x)) {
        all.push_back(tensor);
      }
      all.push_back(copy(c.w.value()));
      all.push_back(copy(c.b.value()));
    }
    return all;
  });
}

TEST(JitGradient, OfAGraphThatTakesAGradientItself) {
  expect_same_gradients([](auto wrap) {
    auto slope = wrap([](const Tensor& x) { return grad([](const Tensor& y) { return sum(y * tanh(y)); })(x); });
    return flat(value_and_grad([&](const Tensor& x) { return sum(slope(x) * x); })(wave({4}, 1)));
  });
}

TEST(JitGradient, StopsWhereItIsTold) {
  expect_same_gradients([](auto wrap) {
    auto inner = wrap([](const Tensor& x) { return x * stop_gradient(exp(x)); });
    return flat(value_and_grad([&](const Tensor& x) { return sum(inner(x)); })(wave({4}, 1)));
  });
}

TEST(JitGradient, AnArgumentThatDoesNotMatterGetsZeros) {
  auto inner = jit([](const Tensor& x, const Tensor& y) { return sum(x) + 0.0F * sum(stop_gradient(y)); });
  auto transform = value_and_grad([&](const Tensor& x, const Tensor& y) { return inner(x, y); },
                                  {.arguments = {0, 1}, .weights = {}});
  const auto result = transform(ramp({2}), ramp({3}));
  EXPECT_THAT(result.arguments[0].to_vector<float>(), ElementsAre(1, 1));
  EXPECT_THAT(result.arguments[1].to_vector<float>(), ElementsAre(0, 0, 0));
}

TEST(JitGradient, InGraphModeTheWholeTransformIsOneGraph) {
  GradientCase c;
  auto make = [&] {
    return value_and_grad([&](const Tensor& x) { return loss_of(x, c.w, c.b); }, {.weights = {c.w, c.b}});
  };
  auto eager = make();
  auto graph = make();
  const std::vector<Tensor> expected = flat(eager(c.x));
  set_mode(Mode::graph);
  const std::vector<Tensor> captured = flat(graph(c.x));
  const std::uint64_t before = thread_context.dispatches;
  const std::vector<Tensor> replayed = flat(graph(c.x));
  EXPECT_EQ(thread_context.dispatches, before);
  set_mode(Mode::eager);
  expect_same_bits(captured, expected, "captured");
  expect_same_bits(replayed, expected, "replayed");
}

TEST(JitGradient, ACallWithoutGradientHasNone) {
  auto inner = jit([](const Tensor& x) { return x * 2; });
  EXPECT_FALSE(inner(ramp({2})).requires_grad());
  auto transform = value_and_grad([&](const Tensor& x) {
    const Tensor without = no_grad([&] { return inner(x); });
    EXPECT_FALSE(without.requires_grad());
    return sum(without + x);
  });
  EXPECT_THAT(transform(ramp({2})).arguments[0].to_vector<float>(), ElementsAre(1, 1));
}

TEST(JitGradient, WeightsArePlainAgainAfterAFailedCall) {
  Variable w(ramp({3}), "w");
  bool fail = true;
  auto inner = jit([&](const Tensor& x) {
    const Tensor y = x * w.value();
    if (fail) {
      static_cast<void>(y.item());
    }
    return y;
  });
  auto transform = value_and_grad([&](const Tensor& x) { return sum(inner(x)); }, {.weights = {w}});
  EXPECT_THROW(transform(ramp({3})), Error);
  EXPECT_FALSE(w.value().requires_grad());
  fail = false;
  EXPECT_THAT(transform(ramp({3})).weights[0].to_vector<float>(), ElementsAre(1, 2, 3));
}

// A tensor that takes another's elements is that one to the tape, in both modes, or sums of gradients have another
// order.
TEST(JitGradient, WhatIsOverwrittenByATensorSumsInTheSameOrder) {
  const auto loss = [](const Tensor& x) {
    const Tensor y = exp(x);
    copy_(y, x);
    const Tensor all = concat({x, x, x, y}, 0);
    return sum(all * all * concat({x, x, x, y}, 0));
  };
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const Tensor x = Rng(seed).normal({19}, 0, 1, DType::float64);
    const Tensor expected = grad(loss)(x);
    for (const auto& variant : diptych::testing::pipeline_variants()) {
      expect_same_bits(jit(grad(loss), {.pipeline = variant.pipeline})(x), expected, variant.name + ", inside");
      expect_same_bits(grad(jit(loss, {.pipeline = variant.pipeline}))(x), expected, variant.name + ", around");
    }
  }
}

TEST(JitGradient, WhatIsOverwrittenInPlaceHasNone) {
  // sum(x * x, with the whole of it overwritten by c) + sum(3 x): only the second term depends on x.
  const auto loss = [](const Tensor& x, const Tensor& c) {
    const Tensor y = x * x;
    copy_(y, c);
    const Tensor z = exp(x);
    zero_(z);
    const Tensor w = x + x;
    fill_(w, 2);
    add_(w, x);  // has a gradient again
    return sum(y) + sum(z) + sum(w) + 2 * sum(x);
  };
  const Tensor x = f32({1, -2, 4}, {3});
  const Tensor c = f32({5, 6, 7}, {3});
  const Tensor expected = f32({3, 3, 3}, {3});
  expect_same_bits(grad(loss)(x, c), expected, "eager");
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    expect_same_bits(jit(grad(loss), {.pipeline = variant.pipeline})(x, c), expected, variant.name + ", inside");
    expect_same_bits(grad(jit(loss, {.pipeline = variant.pipeline}))(x, c), expected, variant.name + ", around");
  }
}

TEST(JitGradient, ALongTrainingRunIsTheSameToTheBit) {
  // Chaotic on purpose: one different bit anywhere would show.
  const auto train = [](bool graph, const passes::PipelineOptions& pipeline) {
    Variable w(wave({8, 8}, 1) * 3, "w");
    Variable m(zeros({8, 8}), "m");
    const auto body = [=](const Tensor& x) mutable {
      auto transform = value_and_grad(
          [&](const Tensor& y) {
            Tensor h = y;
            for (int i = 0; i < 5; ++i) {
              h = tanh(matmul(h, w.value()));
            }
            return sum(h);
          },
          {.weights = {w}});
      const auto result = transform(x);
      m.assign(m.value() * 0.9F + result.weights[0]);
      w.assign(w.value() - m.value() * 0.05F);
      return result.value;
    };
    auto step = jit(body, {.pipeline = pipeline});
    auto eager = body;
    std::vector<Tensor> losses;
    for (int i = 0; i < 60; ++i) {
      const Tensor x = wave({4, 8}, static_cast<float>(i));
      losses.push_back(graph ? step(x) : eager(x));
    }
    losses.push_back(w.value());
    return losses;
  };
  const std::vector<Tensor> expected = train(false, {});
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    expect_same_bits(train(true, variant.pipeline), expected, variant.name);
  }
}

}  // namespace
}  // namespace diptych::graph
