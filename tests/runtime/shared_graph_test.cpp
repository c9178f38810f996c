// Threads that call the same compiled function at the same time. ThreadSanitizer watches these tests.

#include <latch>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::ramp;
using diptych::testing::wave;

constexpr int kThreads = 4;
constexpr int kRounds = 100;

/// Calls `work(thread, round)` on several threads, which start together.
template <class Work>
void on_threads(const Work& work) {
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&work, &start, thread] {
      start.arrive_and_wait();
      for (int round = 0; round < kRounds; ++round) {
        work(thread, round);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

Tensor formula(const Tensor& x) { return sum(tanh(x * x + x), {-1}); }

/// The length that a thread takes in a round: all threads meet all lengths, in different orders.
std::int64_t length_of(int thread, int round) { return 1 + (3 * thread + round) % 5; }

TEST(SharedGraph, GivesEachThreadItsOwnResults) {
  auto shared = jit(formula);
  on_threads([&](int thread, int round) {
    const Tensor x = wave({length_of(thread, round), 7}, static_cast<float>(100 * thread + round));
    expect_same_bits(shared(x), formula(x), "thread " + std::to_string(thread));
  });
  const std::vector<Compilation>& ledger = shared.compiled()->ledger();
  EXPECT_EQ(ledger.size(), 5U);  // each length once, however many threads came with it first
  EXPECT_EQ(std::accumulate(ledger.begin(), ledger.end(), std::uint64_t{0},
                            [](std::uint64_t sum, const Compilation& line) { return sum + line.calls; }),
            std::uint64_t{kThreads} * kRounds);
}

TEST(SharedGraph, KeepsTheStructureOfAResultWhoseGraphIsDropped) {
  const auto split = [](const Tensor& x) { return std::pair(x + x, std::vector<Tensor>{exp(x), neg(x)}); };
  auto shared = jit(split, {.capacity = 1});  // nearly every call drops the graph of another thread's
  on_threads([&](int thread, int round) {
    const Tensor x = wave({length_of(thread, round)}, static_cast<float>(round));
    auto copy = shared;
    expect_same_bits(flatten_tree(copy(x)), flatten_tree(split(x)), "pair");
  });
}

TEST(SharedGraph, TakesArgumentsOfSeveralStructures) {
  const auto total = [](const std::vector<Tensor>& parts) {
    Tensor sum = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) {
      sum = sum + parts[i];
    }
    return sum;
  };
  auto shared = jit(total);
  on_threads([&](int thread, int round) {
    const std::vector<Tensor> parts(static_cast<std::size_t>(length_of(thread, round)), wave({6}, 1));
    expect_same_bits(shared(parts), total(parts), "sum");
  });
}

TEST(SharedGraph, LosesNoUpdateOfAState) {
  Variable count(Tensor::from(std::vector<float>{0}, Shape{1}), "count");
  auto shared = jit([&count](const Tensor& x) {
    count.assign(count.value() + x);
    return count.value();
  });
  const Tensor one = ramp({1});
  on_threads([&](int, int) { shared(one); });
  EXPECT_EQ(count.value().to_vector<float>(), std::vector<float>{kThreads * kRounds});
}

TEST(SharedGraph, GivesEachThreadItsOwnGradients) {
  auto shared = jit([](const Tensor& x) { return mean(exp(x) * tanh(x)); });
  const auto alone = [](const Tensor& x) { return mean(exp(x) * tanh(x)); };
  on_threads([&](int thread, int round) {
    const Tensor x = wave({length_of(thread, round), 4}, static_cast<float>(thread - round));
    expect_same_bits(flatten_tree(value_and_grad(shared)(x)), flatten_tree(value_and_grad(alone)(x)), "first");
    if (round % 5 == 0) {  // where the cut gradient doesn't do
      const auto second = [](const auto& f) {
        return grad([f](const Tensor& y) mutable { return sum(square(grad(f)(y))); });
      };
      expect_same_bits(second(shared)(x), second(alone)(x), "second");
    }
  });
}

TEST(SharedGraph, ACaptureThatThrowsLetsTheNextThreadIn) {
  auto shared = jit([](const Tensor& x) { return matmul(x, x); });
  on_threads([&](int thread, int) {
    if (thread % 2 == 0) {
      EXPECT_THROW(shared(ramp({2, 3})), ShapeError);
    } else {
      EXPECT_EQ(shared(ramp({2, 2})).to_vector<float>(), (std::vector<float>{7, 10, 15, 22}));
    }
  });
}

}  // namespace
}  // namespace diptych::graph
