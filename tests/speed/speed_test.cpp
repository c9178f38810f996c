// The speed that the engine must have. Contenders are measured in the same interleaved rounds; figures are medians.

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/autograd/tape.h"
#include "framework/diptych.h"
#include "profiler/tracer.h"

#ifdef DIPTYCH_WITH_TORCH
#include "tests/speed/torch_reference.h"
#endif

namespace diptych {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <class Fn>
double seconds_of(Fn&& fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double add_seconds(bool tape, int iterations) {
  Rng rng(1);
  const Tensor plain = rng.normal({4, 4});
  const Tensor a = tape ? autograd::watch(plain) : plain;
  const Tensor b = rng.normal({4, 4});
  return seconds_of([&] {
    for (int i = 0; i < iterations; ++i) {
      const Tensor c = add(a, b);
      asm volatile("" : : "r"(c.body()) : "memory");
    }
  });
}

class EagerAdd : public ::testing::TestWithParam<bool> {};

TEST_P(EagerAdd, TakesASixthOfLibtorchsTime) {
  const bool tape = GetParam();
  constexpr int kRounds = 21;
  constexpr int kIterations = 20000;
  std::vector<double> ours;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    const double mine = add_seconds(tape, kIterations);
    ours.push_back(mine / kIterations);
#ifdef DIPTYCH_WITH_TORCH
    ratios.push_back(mine / torch_reference::add_seconds(tape, kIterations));
#endif
  }
  fmt::print("eager add 4x4{}: {:.1f} ns\n", tape ? " with tape" : "", median(ours) * 1e9);
  if (ratios.empty()) {
    GTEST_SKIP() << "built without libtorch; scripts/setup --torch installs it";
  }
#ifdef DIPTYCH_WITH_TORCH
  fmt::print("  {:.4f} of libtorch {}'s time (1/{:.1f})\n", median(ratios), torch_reference::version(),
             1 / median(ratios));
#endif
  EXPECT_LE(median(ratios), 1.0 / 6);
}

INSTANTIATE_TEST_SUITE_P(Tape, EagerAdd, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "recording" : "off"; });

TEST(Replay, CostsAtMost25NanosecondsANode) {
  constexpr int kNodes = 200;
  Rng rng(2);
  const Tensor x = rng.normal({4, 4});
  const Tensor y = rng.normal({4, 4});
  auto chain = jit([](const Tensor& a, const Tensor& b) {
    Tensor z = a;
    for (int i = 0; i < kNodes; ++i) {
      z = add(z, b);
    }
    return z;
  });
  chain(x, y);
  std::vector<double> per_node;
  for (int round = 0; round < 21; ++round) {
    constexpr int kCalls = 200;
    per_node.push_back(seconds_of([&] {
                         for (int call = 0; call < kCalls; ++call) {
                           chain(x, y);
                         }
                       }) /
                       (kCalls * kNodes));
  }
  // With its kernel, which makes the test stricter than the figure.
  fmt::print("replay: {:.1f} ns a node of 4x4 add, kernel and call included\n", median(per_node) * 1e9);
  EXPECT_LE(median(per_node), 25e-9);
}

TEST(TracePoints, CostNothingMeasurableWhenOff) {
  std::vector<double> off;
  for (int round = 0; round < 5; ++round) {
    off.push_back(profiler::measure_overhead().disabled_ns);
  }
  fmt::print("trace point, off: {:.2f} ns\n", median(off));
  EXPECT_LE(median(off), 1.0);
}

}  // namespace
}  // namespace diptych
