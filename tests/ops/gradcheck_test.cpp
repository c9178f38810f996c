// Every gradient rule against finite differences in float64, at first and second order.

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "framework/autograd/backward.h"
#include "tests/support/op_samples.h"

namespace diptych::testing {
namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// Chosen so that no kink (of abs, relu, max, min, ...) lies within the differences.
constexpr std::uint64_t kSeed = 6;

double inner_product(const Tensor& a, const Tensor& b) { return sum(mul(a, b)).item(); }

/// Gradients of a scalar function by all its arguments.
std::vector<Tensor> gradients_of(const Function& f, const std::vector<Tensor>& x) {
  const std::uint64_t serial = autograd::next_serial();
  std::vector<Tensor> watched;
  for (const Tensor& tensor : x) {
    watched.push_back(autograd::watch(tensor));
  }
  const Tensor value = f(watched);
  return autograd::gradients(std::span(&value, 1), watched, {}, {false, serial}, Location::current()).gradients;
}

/// The central difference of f at x along `direction`, by Richardson's extrapolation: error O(h^4).
double directional_difference(const Function& f, const std::vector<Tensor>& x, const std::vector<Tensor>& direction) {
  const auto at = [&](double t) {
    std::vector<Tensor> moved;
    for (std::size_t i = 0; i < x.size(); ++i) {
      moved.push_back(x[i] + direction[i] * t);
    }
    return f(moved).item();
  };
  constexpr double h = 2e-5;
  const double coarse = (at(h) - at(-h)) / (2 * h);
  const double fine = (at(h / 2) - at(-h / 2)) / h;
  return (4 * fine - coarse) / 3;
}

void expect_gradient(const Function& f, const std::vector<Tensor>& x, const char* order) {
  const std::vector<Tensor> gradients = gradients_of(f, x);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Rng rng(seed);
    std::vector<Tensor> direction;
    double expected = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      direction.push_back(rng.normal(x[i].shape(), 0, 1, DType::float64));
      EXPECT_EQ(gradients[i].type(), x[i].type()) << order;
      expected += inner_product(gradients[i], direction[i]);
    }
    const double actual = directional_difference(f, x, direction);
    EXPECT_NEAR(actual, expected, 1e-7 * (1 + std::fabs(expected))) << order << " order, direction " << seed;
  }
}

class GradCheck : public ::testing::TestWithParam<OpCase> {
 protected:
  GradCheck() : inputs_(make_inputs(GetParam().sample, kSeed)) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].dtype() == DType::float64) {
        positions_.push_back(i);
        x_.push_back(inputs_[i]);
      }
    }
    const Tensor result = call(*GetParam().op, inputs_, GetParam().sample.attributes);
    weights_ = Rng(17).normal(result.shape(), 0, 1, DType::float64);
  }

  /// A nonlinear scalar of the op's result, so that the second order sees the rule of the rule.
  Function scalar() {
    return [this](const std::vector<Tensor>& x) {
      std::vector<Tensor> arguments = inputs_;
      for (std::size_t i = 0; i < positions_.size(); ++i) {
        arguments[positions_[i]] = x[i];
      }
      const Tensor y = call(*GetParam().op, arguments, GetParam().sample.attributes);
      return sum(weights_ * tanh(y * 0.3));
    };
  }

  std::vector<Tensor> inputs_;
  std::vector<std::size_t> positions_;
  std::vector<Tensor> x_;
  Tensor weights_;
};

TEST_P(GradCheck, FirstOrder) { expect_gradient(scalar(), x_, "first"); }

TEST_P(GradCheck, SecondOrder) {
  const Function f = scalar();
  Rng rng(23);
  std::vector<Tensor> direction;
  for (const Tensor& tensor : x_) {
    direction.push_back(rng.normal(tensor.shape(), 0, 1, DType::float64));
  }
  // The derivative of f along a fixed direction, as a function of x.
  expect_gradient(
      [&](const std::vector<Tensor>& x) {
        const std::vector<Tensor> gradients = gradients_of(f, x);
        Tensor total = full({}, 0, DType::float64);
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          total = total + sum(gradients[i] * direction[i]);
        }
        return total;
      },
      x_, "second");
}

/// A direction in the arguments, and the gradient along it.
std::vector<Tensor> direction_in(const std::vector<Tensor>& x) {
  Rng rng(29);
  std::vector<Tensor> direction;
  for (const Tensor& tensor : x) {
    direction.push_back(rng.normal(tensor.shape(), 0, 1, DType::float64));
  }
  return direction;
}

TEST_P(GradCheck, ForwardModeAgreesWithReverseMode) {
  const std::vector<Tensor> direction = direction_in(x_);
  const std::vector<Tensor> gradients = gradients_of(scalar(), x_);
  double expected = 0;
  double scale = 1;
  for (std::size_t i = 0; i < x_.size(); ++i) {
    expected += inner_product(gradients[i], direction[i]);
    scale += inner_product(abs(gradients[i]), abs(direction[i]));
  }
  const double actual = jvp(scalar(), std::tuple(x_), std::tuple(direction)).second.item();
  EXPECT_NEAR(actual, expected, 1e-12 * scale);
}

TEST_P(GradCheck, ForwardOverReverseAgreesWithReverseOverReverse) {
  const std::vector<Tensor> direction = direction_in(x_);
  const Function f = scalar();
  const auto gradient = [&](const std::vector<Tensor>& x) {
    auto [y, pullback] = vjp(f, x);
    return pullback(full({}, 1, DType::float64));
  };
  const std::vector<Tensor> forward = jvp(gradient, std::tuple(x_), std::tuple(direction)).second;
  const std::vector<Tensor> reverse = gradients_of(
      [&](const std::vector<Tensor>& x) {
        const std::vector<Tensor> gradients = gradients_of(f, x);
        Tensor total = full({}, 0, DType::float64);
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          total = total + sum(gradients[i] * direction[i]);
        }
        return total;
      },
      x_);
  for (std::size_t i = 0; i < x_.size(); ++i) {
    const std::vector<double> a = forward[i].to_vector<double>();
    const std::vector<double> b = reverse[i].to_vector<double>();
    double scale = 1;
    for (double value : b) {
      scale += std::fabs(value);
    }
    for (std::size_t k = 0; k < a.size(); ++k) {
      EXPECT_NEAR(a[k], b[k], 1e-12 * scale) << "input " << i << " element " << k;
    }
  }
}

TEST_P(GradCheck, SecondOrderAndForwardModeHaveTheSameBitsInAGraph) {
  const Function f = scalar();
  const auto all = [f](const std::vector<Tensor>& x, const std::vector<Tensor>& direction) {
    auto gradient = [&](const std::vector<Tensor>& at) {
      auto [y, pullback] = vjp(f, at);
      return pullback(full({}, 1, DType::float64));
    };
    auto [by_reverse, along] = vjp(gradient, x);
    std::vector<Tensor> results = along(direction);
    results.push_back(jvp(f, std::tuple(x), std::tuple(direction)).second);
    return results;
  };
  const std::vector<Tensor> direction = direction_in(x_);
  const std::vector<Tensor> eager = all(x_, direction);
  const std::vector<Tensor> graph = jit(all)(x_, direction);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(eager[i], graph[i])) << i << "\n" << to_string(eager[i]) << "\n" << to_string(graph[i]);
  }
}

std::vector<OpCase> differentiable_cases() {
  std::vector<OpCase> cases;
  for (OpCase& c : all_op_cases()) {
    // stop_gradient's rule is wrong on purpose.
    if (c.op->vjp == nullptr || std::string_view(c.op->name) == "stop_gradient") {
      continue;
    }
    const std::vector<Tensor> inputs = make_inputs(c.sample);
    if (call(*c.op, inputs, c.sample.attributes).dtype() == DType::float64 &&
        std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.dtype() == DType::float64; })) {
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, GradCheck, ::testing::ValuesIn(differentiable_cases()),
                         [](const auto& instance) { return instance.param.name(); });

TEST(GradCheckMatrix, CoversEveryDifferentiableOp) {
  std::set<std::string> covered;
  for (const OpCase& c : differentiable_cases()) {
    covered.insert(c.op->name);
  }
  for (const OpDef* op : registry()) {
    if (op->vjp != nullptr && std::string_view(op->name) != "stop_gradient") {
      EXPECT_TRUE(covered.contains(op->name)) << op->name << " needs a float64 sample";
    }
  }
}

TEST(StopGradient, LetsNothingThrough) {
  auto f = grad([](const Tensor& x) { return sum(stop_gradient(x) * x); });
  EXPECT_EQ(f(Tensor::from({2.0, 3.0}, {2})).to_vector<double>(), (std::vector<double>{2, 3}));
}

}  // namespace
}  // namespace diptych::testing
