// What a state becomes: the same in eager and in graphs, with every set of passes, whatever is read and assigned, and
// when.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::i64;
using diptych::testing::wave;
using ::testing::ElementsAre;

using Body = std::function<std::vector<Tensor>(Variables& states, const Tensor& x)>;

/// Calls `body` a few times on fresh variables, in eager and as every kind of graph: the same results, the same states.
void expect_agreement(const std::vector<Tensor>& initial, const Body& body, const std::vector<Tensor>& arguments) {
  const auto run = [&](const std::function<std::vector<Tensor>(Variables&, const Tensor&)>& step) {
    Variables states;
    for (const Tensor& tensor : initial) {
      states.emplace_back(copy(tensor), "s" + std::to_string(states.size()));
    }
    std::vector<Tensor> seen;
    for (const Tensor& argument : arguments) {
      for (const Tensor& result : step(states, argument)) {
        seen.push_back(result);
      }
      for (const Variable& state : states) {
        seen.push_back(copy(state.value()));
      }
    }
    return seen;
  };
  const std::vector<Tensor> eager = run(body);
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    Variables* mine = nullptr;
    auto function = jit([&](const Tensor& x) { return body(*mine, x); }, {.pipeline = variant.pipeline});
    const std::vector<Tensor> graph = run([&](Variables& states, const Tensor& x) {
      mine = &states;
      return function(x);
    });
    expect_same_bits(graph, eager, variant.name);
    EXPECT_EQ(function.compiled()->ledger().size(), 1U);
  }
}

std::vector<Tensor> three(const Shape& shape) { return {wave(shape, 1), wave(shape, 2), wave(shape, 3)}; }

TEST(State, AccumulatesOverCalls) {
  expect_agreement(
      {wave({4}, 0)},
      [](Variables& s, const Tensor& x) {
        s[0].assign(s[0].value() * 0.9F + x);
        return std::vector<Tensor>{s[0].value()};
      },
      three({4}));
}

TEST(State, IsCountedExactly) {
  Variable counter(Tensor::scalar(std::int64_t{0}), "counter");
  auto function = jit([&](const Tensor& x) {
    counter.assign(counter.value() + x);
    return counter.value();
  });
  for (std::int64_t i = 1; i <= 10; ++i) {
    EXPECT_EQ(function(Tensor::scalar(std::int64_t{3})).item(), 3.0 * static_cast<double>(i));
  }
  EXPECT_EQ(counter.value().item(), 30);
}

TEST(State, TwoVariablesSwap) {
  expect_agreement(
      {wave({3}, 1), wave({3}, 2)},
      [](Variables& s, const Tensor& x) {
        const Tensor a = s[0];
        const Tensor b = s[1];
        s[0].assign(b);
        s[1].assign(a);
        return std::vector<Tensor>{a + x, b};
      },
      three({3}));
}

TEST(State, ThreeVariablesRotateThroughAnOp) {
  expect_agreement(
      {wave({3}, 1), wave({3}, 2), wave({3}, 5)},
      [](Variables& s, const Tensor& x) {
        const Tensor a = s[0];
        s[0].assign(s[1].value() + x);
        s[1].assign(neg(s[2].value()));
        s[2].assign(a);
        return std::vector<Tensor>{};
      },
      three({3}));
}

TEST(State, ASwapOfSums) {
  // Each new value reads both old ones: neither may be overwritten first.
  expect_agreement(
      {wave({3}, 1), wave({3}, 2)},
      [](Variables& s, const Tensor& x) {
        const Tensor sum = s[0].value() + s[1].value();
        const Tensor difference = s[0].value() - s[1].value();
        s[0].assign(sum * x);
        s[1].assign(difference);
        return std::vector<Tensor>{};
      },
      three({3}));
}

TEST(State, BecomesAnArgument) {
  expect_agreement(
      {wave({3}, 1)},
      [](Variables& s, const Tensor& x) {
        const Tensor old = s[0];
        s[0].assign(x);
        return std::vector<Tensor>{old, s[0].value() + old};
      },
      three({3}));
}

TEST(State, BecomesAViewOfAnArgument) {
  expect_agreement(
      {wave({2, 3}, 1)},
      [](Variables& s, const Tensor& x) {
        s[0].assign(transpose(x));
        return std::vector<Tensor>{s[0].value() * 2};
      },
      three({3, 2}));
}

TEST(State, BecomesItsOwnTranspose) {
  expect_agreement(
      {wave({3, 3}, 1)},
      [](Variables& s, const Tensor& x) {
        s[0].assign(transpose(s[0].value()));
        return std::vector<Tensor>{x + 1};
      },
      three({3}));
}

TEST(State, BecomesTheSumWithItsOwnTranspose) {
  expect_agreement(
      {wave({4, 4}, 1)},
      [](Variables& s, const Tensor& x) {
        s[0].assign(s[0].value() + transpose(s[0].value()) * x);
        return std::vector<Tensor>{};
      },
      three({4}));
}

TEST(State, BecomesAViewOfAnotherVariable) {
  expect_agreement(
      {wave({2, 3}, 1), wave({3, 2}, 4)},
      [](Variables& s, const Tensor& x) {
        const Tensor turned = transpose(s[1].value());
        s[1].assign(s[1].value() + x);
        s[0].assign(turned);
        return std::vector<Tensor>{};
      },
      three({3, 2}));
}

TEST(State, BecomesAPartOfAnotherVariable) {
  expect_agreement(
      {wave({2}, 1), wave({6}, 4)},
      [](Variables& s, const Tensor& x) {
        s[0].assign(slice(s[1].value(), 0, 1, 5, 2));
        s[1].assign(s[1].value() * x);
        return std::vector<Tensor>{s[0].value()};
      },
      three({6}));
}

TEST(State, BecomesAConstant) {
  expect_agreement(
      {wave({3}, 1)},
      [](Variables& s, const Tensor& x) {
        const Tensor old = s[0].value() + x;
        s[0].assign(square(full({3}, 1.5)));
        return std::vector<Tensor>{old};
      },
      three({3}));
}

TEST(State, BecomesACapturedTensorThatStaysAsItIs) {
  const Tensor captured = f32({7, 8, 9}, {3});
  expect_agreement(
      {wave({3}, 1)},
      [&](Variables& s, const Tensor& x) {
        const Tensor old = s[0];
        s[0].assign(captured);
        return std::vector<Tensor>{old + x, s[0].value() + 1};
      },
      three({3}));
  EXPECT_THAT(captured.to_vector<float>(), ElementsAre(7, 8, 9));
}

TEST(State, IsAssignedTwiceInOneCall) {
  expect_agreement(
      {wave({3}, 1)},
      [](Variables& s, const Tensor& x) {
        s[0].assign(s[0].value() + x);
        const Tensor between = s[0].value() * 2;
        s[0].assign(between + s[0].value());
        return std::vector<Tensor>{between};
      },
      three({3}));
}

TEST(State, IsAssignedAndPutBack) {
  expect_agreement(
      {wave({3}, 1)},
      [](Variables& s, const Tensor& x) {
        const Tensor old = s[0];
        s[0].assign(x);
        const Tensor used = s[0].value() * 2;
        s[0].assign(old);
        return std::vector<Tensor>{used};
      },
      three({3}));
}

TEST(State, BecomesItself) {
  expect_agreement(
      {wave({3}, 1)},
      [](Variables& s, const Tensor& x) {
        s[0].assign(neg(neg(s[0].value())));
        return std::vector<Tensor>{s[0].value() + x};
      },
      three({3}));
}

TEST(State, OldAndNewValueAreBothReturned) {
  expect_agreement(
      {wave({3}, 1)},
      [](Variables& s, const Tensor& x) {
        const Tensor old = s[0];
        const Tensor fresh = old * x;
        s[0].assign(fresh);
        return std::vector<Tensor>{old, fresh, s[0].value(), old};
      },
      three({3}));
}

TEST(State, TheOldValueIsReadAfterTheAssignment) {
  expect_agreement(
      {wave({3}, 1)},
      [](Variables& s, const Tensor& x) {
        const Tensor old = s[0];
        s[0].assign(old + x);
        return std::vector<Tensor>{exp(old), exp(s[0].value())};
      },
      three({3}));
}

TEST(State, TwoVariablesGetTheSameValue) {
  expect_agreement(
      {wave({3}, 1), wave({3}, 2)},
      [](Variables& s, const Tensor& x) {
        const Tensor sum = s[0].value() + s[1].value() * x;
        s[0].assign(sum);
        s[1].assign(sum);
        return std::vector<Tensor>{};
      },
      three({3}));
}

TEST(State, OneValueAndAViewOfItGoToTwoVariables) {
  expect_agreement(
      {wave({2, 3}, 1), wave({3, 2}, 2), wave({6}, 3)},
      [](Variables& s, const Tensor& x) {
        const Tensor sum = s[0].value() + x;
        s[1].assign(transpose(sum));
        s[0].assign(sum);
        s[2].assign(reshape(sum, {6}));
        return std::vector<Tensor>{};
      },
      three({2, 3}));
}

TEST(State, BroadcastsIntoItself) {
  expect_agreement(
      {wave({2, 3}, 1), wave({3}, 2)},
      [](Variables& s, const Tensor& x) {
        const Tensor first = slice(s[0].value(), 0, 0, 1);
        s[0].assign(s[0].value() + first);
        s[1].assign(s[1].value() * x + reshape(first, {3}));
        return std::vector<Tensor>{};
      },
      three({3}));
}

TEST(State, IsMadeByAReductionAndAMatrixProduct) {
  expect_agreement(
      {wave({4, 4}, 1), wave({4}, 2)},
      [](Variables& s, const Tensor& x) {
        s[0].assign(matmul(s[0].value(), s[0].value()) * 0.5F);
        s[1].assign(sum(s[0].value(), {0}) + s[1].value() * x);
        s[0].assign(matmul(s[0].value(), transpose(s[0].value())));
        return std::vector<Tensor>{s[1].value()};
      },
      three({4}));
}

TEST(State, OfNoElements) {
  expect_agreement(
      {zeros({0, 3})},
      [](Variables& s, const Tensor& x) {
        s[0].assign(s[0].value() + x);
        return std::vector<Tensor>{sum(s[0].value())};
      },
      three({3}));
}

TEST(State, OfOtherTypes) {
  expect_agreement({i64({1, 2}, {2}), Tensor::from<bool>({true, false}, {2})},
                   [](Variables& s, const Tensor& x) {
                     const Tensor old = s[1];
                     s[1].assign(less(s[0].value(), x));
                     s[0].assign(where(old, s[0].value() + x, s[0].value()));
                     return std::vector<Tensor>{};
                   },
                   {i64({5, 0}, {2}), i64({1, 1}, {2}), i64({9, 9}, {2})});
}

}  // namespace
}  // namespace diptych::graph
