// Gradients of control flow: against finite differences and closed forms, at first and second order, with the same bits
// in eager and in graphs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "tests/graph/variants.h"

namespace diptych {
namespace {

using testing::above;
using ::testing::AllOf;
using testing::below;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using testing::message_of;

Tensor f64(const std::vector<double>& values, const Shape& shape) { return Tensor::from(values, shape); }

using Scalar = std::function<Tensor(const Tensor&)>;

/// Central differences of a scalar function, element by element.
std::vector<double> differences(const Scalar& function, const Tensor& x) {
  constexpr double kStep = 1e-5;
  std::vector<double> values = x.to_vector<double>();
  std::vector<double> result;
  for (double& value : values) {
    const double at = value;
    value = at + kStep;
    const double over = function(f64(values, x.shape())).item();
    value = at - kStep;
    const double under = function(f64(values, x.shape())).item();
    value = at;
    result.push_back((over - under) / (2 * kStep));
  }
  return result;
}

void expect_near(const Tensor& actual, const std::vector<double>& expected, const std::string& what) {
  const std::vector<double> values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 1e-6 * std::max(1.0, std::abs(expected[i]))) << what << " " << i;
  }
}

/// First and second derivatives: finite differences, and the same bits from every graph.
void check_gradients(const Scalar& function, const Tensor& x) {
  const auto first = [&](const Tensor& at) { return grad(function)(at); };
  const auto weighted = [&](const Tensor& at) {
    const Tensor g = grad(function)(at);
    std::vector<double> weights;
    for (std::int64_t i = 0; i < g.numel(); ++i) {
      weights.push_back(1.0 + 0.3 * static_cast<double>(i));
    }
    return sum(g * f64(weights, g.shape()));
  };
  const auto second = [&](const Tensor& at) { return grad(weighted)(at); };
  expect_near(first(x), differences(function, x), "first order");
  expect_near(second(x), differences(weighted, x), "second order");
  for (const testing::Variant& variant : testing::pipeline_variants()) {
    expect_same_bits(jit(function, {.pipeline = variant.pipeline})(x), function(x), variant.name + ", value");
    expect_same_bits(jit(first, {.pipeline = variant.pipeline})(x), first(x), variant.name + ", first order");
    expect_same_bits(jit(second, {.pipeline = variant.pipeline})(x), second(x), variant.name + ", second order");
  }
  // Forward mode: the directional derivative, with the same bits in a graph.
  const Tensor direction = full_like(x, 1.0) + x * 0.5;
  const auto forward = [&](const Tensor& at) { return std::get<1>(jvp(function, at, direction)); };
  const Tensor tangent = forward(x);
  EXPECT_NEAR(tangent.item(), sum(first(x) * direction).item(), 1e-9 * std::max(1.0, std::abs(tangent.item())));
  expect_same_bits(jit(forward)(x), tangent, "forward mode");
  expect_near(grad(forward)(x), differences(forward, x), "reverse over forward");
  // A graph that is called with a tape around it.
  auto graph = jit(function);
  const Tensor through = grad([&](const Tensor& at) { return graph(at); })(x);
  expect_same_bits(through, jit(first)(x), "through a graph call");
}

TEST(ControlFlowGradient, OfCond) {
  const auto program = [](const Tensor& x) {
    return cond(
        above(sum(x), 0), [](const Tensor& y) { return sum(y * y * y); }, [](const Tensor& y) { return sum(exp(y)); },
        x);
  };
  check_gradients(program, f64({0.3, 0.7, -0.2}, {3}));
  check_gradients(program, f64({-0.3, -0.7, 0.2}, {3}));
}

TEST(ControlFlowGradient, OfWhatBranchesCloseOver) {
  const auto program = [](const Tensor& x) {
    const Tensor y = tanh(x);
    const Tensor z = cond(
        above(sum(x), 0), [&] { return y * x; }, [&] { return sum(x) * ones({3}, DType::float64); });
    return sum(z * y);
  };
  check_gradients(program, f64({0.3, 0.7, -0.2}, {3}));
  check_gradients(program, f64({-0.3, -0.7, 0.2}, {3}));
}

TEST(ControlFlowGradient, ABranchThatDoesNotReadGivesZeros) {
  const auto program = [](const Tensor& x) {
    return cond(
        above(sum(x), 0), [&] { return sum(x * x); }, [] { return zeros({}, DType::float64); });
  };
  for (const double sign : {1.0, -1.0}) {
    const Tensor x = f64({sign, sign * 2}, {2});
    const Tensor eager = grad(program)(x);
    expect_same_bits(eager, sign > 0 ? f64({2, 4}, {2}) : f64({0, 0}, {2}), "eager");
    expect_same_bits(jit([&](const Tensor& at) { return grad(program)(at); })(x), eager, "graph");
  }
}

TEST(ControlFlowGradient, OfScan) {
  // A recurrent cell: carries, rows and closed-over weights all matter.
  const auto program = [](const Tensor& x) {
    const Tensor w = reshape(slice(x, 0, 0, 4), {2, 2});
    const Tensor xs = reshape(slice(x, 0, 4, 10), {3, 2});
    const auto [last, ys] = scan(
        [&](const Tensor& h, const Tensor& row) {
          const Tensor next = tanh(reshape(matmul(reshape(h, {1, 2}), w), {2}) + row);
          return std::pair(next, next * h);
        },
        slice(x, 0, 0, 2), xs);
    return sum(last * last) + sum(ys);
  };
  check_gradients(program, f64({0.3, -0.7, 0.2, 0.5, 0.9, -0.4, 0.1, 0.6, -0.8, 0.25}, {10}));
}

TEST(ControlFlowGradient, OfReversedScanWithAStridedOperand) {
  const auto program = [](const Tensor& x) {
    const auto [last, ys] = scan(
        [&](const Tensor& c, const Tensor& row) {
          return std::pair(c * row + 1, std::pair(sum(c * row), transpose(reshape(c, {1, 2}))));
        },
        slice(x, 0, 0, 2), transpose(reshape(x, {2, 3})), {.reverse = true});
    return sum(last) + sum(ys.first * ys.first) + sum(ys.second);
  };
  check_gradients(program, f64({0.3, -0.7, 0.2, 0.5, 0.9, -0.4}, {6}));
}

TEST(ControlFlowGradient, OfAnEmptyScan) {
  const auto program = [](const Tensor& x) {
    const auto [last, ys] = scan([&](const Tensor& c, const Tensor& row) { return std::pair(c * sum(x) + row, c); },
                                 x * 2, zeros({0, 2}, DType::float64));
    return sum(last * x) + sum(ys);
  };
  check_gradients(program, f64({0.3, -0.7}, {2}));
}

TEST(ControlFlowGradient, OfABoundedWhileLoop) {
  const auto program = [](const Tensor& x) {
    return sum(while_loop([](const Tensor& y) { return below(sum(y), 4); }, [&](const Tensor& y) { return y * y + x; },
                          x * 0.5, {.max_iterations = 9}));
  };
  check_gradients(program, f64({0.9, 0.7}, {2}));    // a few iterations
  check_gradients(program, f64({10.0, 12.0}, {2}));  // none
}

TEST(ControlFlowGradient, OfWhatWasUpdatedInPlaceSinceIsAnError) {
  const std::vector<std::pair<const char*, Scalar>> programs{
      {"cond",
       [](const Tensor& x) {
         return cond(
             above(sum(x), 0), [](const Tensor& y) { return y * y; }, [](const Tensor& y) { return exp(y); }, x);
       }},
      {"scan",
       [](const Tensor& x) {
         return scan([](const Tensor& c, const Tensor& row) { return std::pair(c * row, c); }, x, reshape(x, {1, 2}))
             .first;
       }},
      {"while_loop", [](const Tensor& x) {
         return while_loop([](const Tensor& y) { return below(sum(y), 4); }, [&](const Tensor& y) { return y * x + x; },
                           x * 0.5, {.max_iterations = 9});
       }}};
  for (const auto& [name, program] : programs) {
    for (const bool updates : {false, true}) {
      const std::string message = message_of<Error>([&, program = program] {
        grad([&](const Tensor& x) {
          const Tensor y = program(x);
          if (updates) {
            no_grad([&] { zero_(x); });
          }
          return sum(y);
        })(f64({0.9, 0.7}, {2}));
      });
      EXPECT_THAT(message, HasSubstr(updates ? std::string(name) + " had saved, was changed in place at"
                                             : std::string("no error")));
    }
  }
}

// The rule refers to its inputs, but they don't refer to it.
TEST(ControlFlowGradient, AnInputThatIsUpdatedByTheResultLeavesNothingBehind) {
  const std::int64_t before = allocator::stats().bytes_in_use;
  {
    const Tensor x = f64({0.9, 0.7}, {2});
    const Tensor w = autograd::watch(f64({1, 2}, {2}));
    add_(x, cond(
                above(sum(x), 0), [&] { return x * w; }, [&] { return w; }));
  }
  EXPECT_EQ(allocator::stats().bytes_in_use, before);
}

TEST(ControlFlowGradient, OfNestedControlFlow) {
  const auto program = [](const Tensor& x) {
    const auto [last, ys] = scan(
        [&](const Tensor& c, const Tensor& row) {
          const Tensor grown = while_loop([](const Tensor& y) { return below(sum(abs(y)), 2); },
                                          [&](const Tensor& y) { return y * 1.5 + row; }, c, {.max_iterations = 20});
          const Tensor next = cond(
              above(sum(row), 0), [&] { return sigmoid(grown) * row; }, [&] { return grown * 0.1 + sum(x); });
          return std::pair(next, grown);
        },
        slice(x, 0, 0, 1), reshape(x, {4, 1}));
    return sum(last) + sum(ys * ys);
  };
  check_gradients(program, f64({0.3, -0.7, 0.2, 0.5}, {4}));
}

TEST(ControlFlowGradient, InsideABody) {
  // Each step of the scan is a step of gradient descent: the derivative of the result by the start goes through the
  // gradients.
  const auto program = [](const Tensor& x) {
    const auto loss = [](const Tensor& p) { return sum(p * p * p * p) * 0.25; };
    const auto [last, losses] =
        scan([&](const Tensor& p, const std::tuple<>&) { return std::pair(p - grad(loss)(p) * 0.1, loss(p)); }, x,
             std::tuple<>(), {.length = 3});
    return sum(last * last) + sum(losses);
  };
  check_gradients(program, f64({0.9, -0.7}, {2}));
}

TEST(ControlFlowGradient, OfAWhileLoopWhoseGradientIsInsideABody) {
  const auto inner = [](const Tensor& p) {
    return sum(while_loop([](const Tensor& y) { return below(sum(y), 3); }, [&](const Tensor& y) { return y * y + p; },
                          p, {.max_iterations = 6}));
  };
  const auto program = [&](const Tensor& x) {
    const auto [last, none] = scan(
        [&](const Tensor& p, const std::tuple<>& nothing) { return std::pair(p - grad(inner)(p) * 0.01, nothing); }, x,
        std::tuple<>(), {.length = 2});
    return sum(last * last);
  };
  check_gradients(program, f64({0.9, 0.7}, {2}));
}

TEST(ControlFlowGradient, OfWeightsThatAreReadInALoop) {
  Variable weight(f64({0.5, -0.25, 0.75, 0.1}, {2, 2}), "weight");
  const auto loss = [&](const Tensor& xs) {
    const auto [h, ys] = scan(
        [&](const Tensor& c, const Tensor& x) {
          const Tensor next = tanh(matmul(c + x, weight) + matmul(x, weight));
          return std::pair(next, sum(next));
        },
        zeros({3, 2}, DType::float64), xs);
    return sum(h * h) + sum(matmul(h, weight)) + sum(ys);
  };
  std::vector<double> elements;
  for (int i = 0; i < 24; ++i) {
    elements.push_back(std::sin(1.3 * i));
  }
  const Tensor xs = f64(elements, {4, 3, 2});
  const auto gradients = [&](const Tensor& at) {
    auto result = value_and_grad(loss, {.weights = {weight}})(at);
    return std::vector<Tensor>{result.value, result.weights[0]};
  };
  const std::vector<Tensor> eager = gradients(xs);
  for (const testing::Variant& variant : testing::pipeline_variants()) {
    expect_same_bits(jit(gradients, {.pipeline = variant.pipeline})(xs), eager, variant.name);
  }
  const Tensor at = weight;
  expect_near(eager[1],
              differences(
                  [&](const Tensor& w) {
                    weight.assign(w);
                    return loss(xs);
                  },
                  at),
              "by the weight");
  weight.assign(at);
}

TEST(ControlFlowGradient, DoesNotGoThroughAssignments) {
  Variable state(f64({2}, {}), "state");
  const auto loss = [&](const Tensor& x) {
    const auto [last, ys] = scan(
        [&](const Tensor& c, const std::tuple<>&) {
          state.assign(state * x);
          return std::pair(c * x + state, state.value());
        },
        x, std::tuple<>(), {.length = 3});
    return last + sum(ys);
  };
  // last = x^4 + s1 x^2 + s2 x + s3, with s1, s2, s3 = 2x, 2x^2, 2x^3 as constants.
  const double x = 1.5;
  const double expected = 4 * x * x * x + 2 * x * 2 * x + 2 * x * x;
  const Tensor eager = grad(loss)(Tensor::scalar(x));
  EXPECT_NEAR(eager.item(), expected, 1e-12);
  EXPECT_NEAR(state.value().item(), 2 * x * x * x, 1e-12);
  state.assign(f64({2}, {}));
  expect_same_bits(jit([&](const Tensor& at) { return grad(loss)(at); })(Tensor::scalar(x)), eager, "graph");
  EXPECT_NEAR(state.value().item(), 2 * x * x * x, 1e-12);
}

TEST(ControlFlowGradient, OfALoopWithoutABoundSaysWhatToDo) {
  const auto program = [](const Tensor& x) {
    return while_loop([](const Tensor& y) { return below(y, 4); }, [&](const Tensor& y) { return y * 2; }, x);
  };
  for (const bool captured : {false, true}) {
    const std::string message = message_of<Error>([&] {
      const auto gradient = [&](const Tensor& x) { return grad(program)(x); };
      captured ? jit(gradient)(Tensor::scalar(1.0)) : gradient(Tensor::scalar(1.0));
    });
    EXPECT_THAT(message, AllOf(HasSubstr("max_iterations"), HasSubstr("forward mode"),
                               HasSubstr("control_flow_gradient_test.cpp")));
  }
}

TEST(ControlFlowGradient, OfALoopWithoutABoundInForwardMode) {
  const Tensor rate = Tensor::scalar(1.5);
  const auto program = [&](const Tensor& x) {
    return while_loop([](const Tensor& y) { return below(y, 4); }, [&](const Tensor& y) { return y * y * rate + x; },
                      x);
  };
  const auto forward = [&](const Tensor& x) { return std::get<1>(jvp(program, x, Tensor::scalar(1.0))); };
  for (const double at : {0.4, 0.9, 5.0}) {
    const Tensor x = Tensor::scalar(at);
    expect_near(forward(x), differences(program, x), "forward");
    expect_same_bits(jit(forward)(x), forward(x), "graph");
  }
}

}  // namespace
}  // namespace diptych
