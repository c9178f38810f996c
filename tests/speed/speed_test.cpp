// The speed that the engine must have. Contenders are measured in the same interleaved rounds.

#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "framework/dispatch/tape.h"
#include "profiler/trace/tracer.h"
#include "reports/statistics/statistics.h"
#include "tests/support/speed_bound.h"
#include "tests/support/with_isa.h"

#ifdef DIPTYCH_WITH_TORCH
#include "tests/speed/torch_reference.h"
#endif

namespace diptych {
namespace {

using testing::Block;
using testing::block_of;
using testing::expect_bounds;
using testing::expect_ratio;
using testing::for_each_isa;
using testing::InterleavedRounds;
using testing::seconds_of;

double add_seconds(bool tape, int iterations) {
  Rng rng(1);
  const Tensor plain = rng.normal({4, 4});
  const Tensor a = tape ? autograd::watch(plain) : plain;
  const Tensor b = rng.normal({4, 4});
  return seconds_of(iterations, [&] {
    const Tensor c = add(a, b);
    asm volatile("" : : "r"(c.body()) : "memory");
  });
}

class EagerAdd : public ::testing::TestWithParam<bool> {};

TEST_P(EagerAdd, TakesASixthOfLibtorchsTime) {
  const bool tape = GetParam();
  const Block ours = [tape](int n) { return add_seconds(tape, n); };
#ifdef DIPTYCH_WITH_TORCH
  const Block theirs = [tape](int n) { return torch_reference::add_seconds(tape, n); };
  expect_ratio(tape ? "eager add 4x4 with tape" : "eager add 4x4", 1.0 / 6, ours, theirs,
               fmt::format("of libtorch {}'s time", torch_reference::version()));
#endif
  InterleavedRounds alone({ours});
  std::vector<double> seconds;
  for (int round = 0; round < 21; ++round) {
    seconds.push_back(alone()[0]);
  }
  fmt::print("eager add 4x4{}: {:.1f} ns\n", tape ? " with tape" : "", reports::median(seconds) * 1e9);
#ifndef DIPTYCH_WITH_TORCH
  GTEST_SKIP() << "built without libtorch; scripts/setup --torch installs it";
#endif
}

INSTANTIATE_TEST_SUITE_P(Tape, EagerAdd, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "recording" : "off"; });

TEST(Replay, CostsAtMost5NanosecondsANodeBeyondItsKernel) {
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
  // The same chain by the op's loop alone.
  const TensorType* const types[] = {&x.type(), &y.type()};
  const LoopFn loop = find_op("add")->loop(types, x.type());
  constexpr std::int64_t kStrides[] = {sizeof(float), sizeof(float), sizeof(float)};
  Tensor sum = Tensor::empty(DType::float32, {4, 4});
  const auto kernels = [&] {
    void* from = x.body()->data;
    for (int i = 0; i < kNodes; ++i, from = sum.body()->data) {
      void* const data[] = {from, y.body()->data, sum.body()->data};
      loop(x.numel(), data, kStrides, nullptr);
    }
  };
  expect_bounds({block_of([&] { chain(x, y); }), block_of(kernels)},
                {{.what = "replay of 4x4 adds, call included, beyond their kernels",
                  .limit = 5e-9,  // half of the figure: with a kernel of 5 ns, 10 in all
                  .figure = [](auto seconds) { return (seconds[0] - seconds[1]) / kNodes; },
                  .unit = "ns a node",
                  .scale = 1e9}});
}

/// A loop that the compiler left scalar takes two to twelve times as long as one in vectors. Each op is compared with
/// one whose loop is known to be in vectors, and that moves about as many bytes, or computes as much. Those of
/// cross_entropy are a part of its time, which the bound sees if all of them are scalar.
TEST(Loops, AreInVectors) {
  Rng rng(3);
  const Tensor x = rng.normal({128, 1024});
  const Tensor y = rng.normal({128, 1024});
  const Tensor zero = full(Shape{}, 0.0);
  const Tensor condition = greater(x, y);
  std::vector<std::int64_t> numbers(128);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Tensor labels = Tensor::from(numbers, {128});
  const auto op = [](auto compute) {
    return block_of([compute] {
      const Tensor z = compute();
      asm volatile("" : : "r"(z.body()) : "memory");
    });
  };
  const Block of_add = op([=] { return add(x, y); });
  const Block of_relu = op([=] { return relu(x); });
  const Block of_exp = op([=] { return exp(x); });
  expect_ratio("where", 2, op([=] { return where(condition, x, y); }), of_add, "of add's time");
  expect_ratio("where with a number", 2, op([=] { return where(condition, x, zero); }), of_add, "of add's time");
  expect_ratio("masked_fill", 2, op([=] { return masked_fill(x, condition, 0); }), of_add, "of add's time");
  expect_ratio("logical_not", 1, op([=] { return logical_not(condition); }), of_relu, "of relu's time");
  expect_ratio("cast from bool", 2, op([=] { return cast(condition, DType::float32); }), of_relu, "of relu's time");
  expect_ratio("cast from bool to bf16", 4, op([=] { return cast(condition, DType::bfloat16); }), of_relu,
               "of relu's time");
  expect_ratio("softmax", 2, op([=] { return softmax(x); }), of_exp, "of the time of exp");
  expect_ratio("cross_entropy", 2, op([=] { return cross_entropy(x, labels); }), of_exp, "of the time of exp");
  expect_ratio("masked_softmax", 2.5, op([=] { return masked_softmax(x, condition); }), of_exp, "of the time of exp");
}

/// So are those of every op with two operands, on every instruction set, if one of them is a single value: against the
/// loop over two that have many.
TEST(Loops, AreInVectorsWithAFixedOperand) {
  constexpr std::int64_t kCount = 8192;
  for (const OpDef* op : registry()) {
    if (op->inputs != 2 || op->kind != OpKind::elementwise || op->select_loop != nullptr || op->loop_input != 0) {
      continue;
    }
    const Sample sample = op->samples().front();
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
      const TensorType type{dtype, {kCount}};
      const TensorType* const types[] = {&type, &type};
      TensorType result;
      try {
        op->infer_type({*op, types, sample.attributes.get(), {}}, result);
      } catch (const DTypeError&) {  // a loop that never runs
        continue;
      }
      const Tensor x = cast(Rng(4).uniform({kCount}, -4, 4), dtype);
      const Tensor y = cast(Rng(5).uniform({kCount}, -4, 4), dtype);
      const Tensor out = Tensor::empty(DType::float64, {kCount});
      for_each_isa([&](Isa isa) {
        const LoopFn loop = op->loops[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(isa)];
        if (loop == nullptr) {
          return;
        }
        const auto size = static_cast<std::int64_t>(size_of(dtype));
        const auto block = [&](std::int64_t first, std::int64_t second) {
          return block_of([=] {
            void* const data[] = {x.body()->data, y.body()->data, out.body()->data};
            const std::int64_t strides[] = {first, second, static_cast<std::int64_t>(size_of(result.dtype))};
            loop(kCount, data, strides, sample.attributes.get());
          });
        };
        const std::string what =
            fmt::format("{} of {} ({})", op->name, name_of(dtype), kIsaNames[static_cast<std::size_t>(isa)]);
        const double limit = isa == Isa::generic ? 2.5 : 1.6;  // SSE2 has few instructions for masks
        const auto ratio_of = [](std::size_t contender) {
          return [contender](std::span<const double> seconds) { return seconds[contender] / seconds[0]; };
        };
        expect_bounds({block(size, size), block(0, size), block(size, 0)},
                      {{.what = what + ", first operand fixed", .limit = limit, .figure = ratio_of(1), .measured = 1},
                       {.what = what + ", second operand fixed", .limit = limit, .figure = ratio_of(2), .measured = 2}},
                      {.block_seconds = 2e-4});
      });
    }
  }
}

/// A power is a product, a root or a quotient, where it is one.
TEST(Power, OfSomeExponentsIsAsFastAsWhatItIs) {
  const auto op = [](auto compute) {
    return block_of([compute] {
      const Tensor z = compute();
      asm volatile("" : : "r"(z.body()) : "memory");
    });
  };
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = Rng(5).uniform({8192}, 0.5, 3, dtype);
    const auto of = [&](double exponent) {
      return op([x, number = full({1}, exponent, dtype)] { return pow(x, number); });
    };
    const std::string name(name_of(dtype));
    const Block product = op([x] { return mul(x, x); });
    const Block quotient = op([x] { return reciprocal(x); });
    const Block root = op([x] { return sqrt(x); });
    expect_ratio("pow(x, 2) of " + name, 1.3, of(2), product, "of the time of x * x");
    expect_ratio("pow(x, 1) of " + name, 1.3, of(1), product, "of the time of x * x");
    expect_ratio("pow(x, 3) of " + name, 5, of(3), product, "of the time of x * x");
    expect_ratio("pow(x, 4) of " + name, 5, of(4), product, "of the time of x * x");
    expect_ratio("pow(x, -1) of " + name, 1.5, of(-1), quotient, "of the time of 1 / x");
    expect_ratio("pow(x, 0.5) of " + name, 1.5, of(0.5), root, "of the time of a square root");
    expect_ratio("pow(x, -0.5) of " + name, 8, of(-0.5), root, "of the time of a square root");
    expect_ratio("pow(x, twos) of " + name, 4, op([x, twos = full({8192}, 2.0, dtype)] { return pow(x, twos); }),
                 product, "of the time of x * x");
    auto power = jit([](const Tensor& t) { return pow(t, full({1}, 2.0, t.dtype())); });
    auto replayed = jit([](const Tensor& t) { return mul(t, t); });
    power(x);
    replayed(x);
    expect_ratio("pow(x, 2) of " + name + ", graph", 1.2, op([&power, x] { return power(x); }),
                 op([&replayed, x] { return replayed(x); }), "of the time of x * x");
  }
}

TEST(TracePoints, CostNothingMeasurableWhenOff) {
  expect_bounds({[](int zones) { return zones * 1e-9 * profiler::measure_overhead().disabled_ns; }},
                {{.what = "trace point, off",
                  .limit = 1e-9,
                  .figure = [](auto seconds) { return seconds[0]; },
                  .unit = "ns",
                  .scale = 1e9}},
                {.calls = 100000});
}

}  // namespace
}  // namespace diptych
