#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/as_eager.h"

namespace diptych::runtime {
namespace {

using diptych::testing::expect_as_eager;
using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::Function;
using diptych::testing::ramp;
using diptych::testing::wave;
using ::testing::ElementsAre;

const graph::JitOptions kOnlyInPlace{.pipeline = [] {
  passes::PipelineOptions options;
  options.disabled = {"constant-folding", "simplify", "cse", "attention", "dce", "epilogue", "multi-tensor", "fuse"};
  return options;
}()};

TEST(Lowering, APlanLargerThanMemoryIsAnErrorWithTheSize) {
  passes::PipelineOptions only_plan = passes::PipelineOptions::none();
  only_plan.disabled.erase(passes::kMemoryPlan);
  auto graph = jit([](const Tensor& x) { return sum(exp(reshape(x, {1 << 20, 1}) + x)); }, {.pipeline = only_plan});
  const Tensor x = zeros({1 << 20});
  for (int call = 0; call < 2; ++call) {
    EXPECT_THAT(
        diptych::testing::message_of([&] { graph(x); }),
        ::testing::MatchesRegex("the graph needs (4096|8192).0 GiB for its intermediate results, of [0-9.]+ GiB "
                                "that the machine has; give it smaller inputs.*"));
  }
}

TEST(InPlace, ASumWithItsOwnTransposeMayNotOverwriteIt) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor y = exp(x[0]);
        return std::vector<Tensor>{y + transpose(y)};
      },
      {wave({7, 7}, 1)});
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor y = exp(x[0]);
        return std::vector<Tensor>{neg(transpose(y) - y) * 2};
      },
      {wave({7, 7}, 1)});
}

TEST(InPlace, WhereWithDyingBranches) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor a = exp(x[0]);
        const Tensor b = tanh(x[0]);
        const Tensor which = less(a, b + 1);
        return std::vector<Tensor>{where(which, a, b), where(logical_not(which), which, which)};
      },
      {wave({33}, 1)});
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor a = exp(x[0]);
        return std::vector<Tensor>{neg(where(less(a, full({}, 1.0)), full({}, 0.5), a))};
      },
      {wave({33}, 1)});
}

TEST(InPlace, OneInputTwice) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor a = exp(x[0]);
        const Tensor b = a * a;
        return std::vector<Tensor>{where(less(b, a), b, b) + b};
      },
      {wave({9}, 1)});
}

TEST(InPlace, ADyingInputThatIsBroadcastIsNotOverwritten) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor row = exp(x[1]);
        const Tensor column = exp(reshape(x[1], {5, 1}));
        return std::vector<Tensor>{exp(x[0]) + row, row * column, column - exp(x[1])};
      },
      {wave({5, 5}, 1), wave({5}, 2)});
}

TEST(InPlace, SlicesOfADyingInput) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor y = exp(x[0]);
        const Tensor shifted = slice(y, 0, 0, 4) + slice(y, 0, 1, 5);
        const Tensor strided = slice(y, 0, 0, 4, 2) * slice(y, 0, 1, 4, 2);
        return std::vector<Tensor>{shifted, neg(slice(shifted, 0, 1, 3)), strided};
      },
      {wave({5}, 1)});
}

TEST(InPlace, AnInputThatIsReadLaterIsNotOverwritten) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor a = exp(x[0]);
        const Tensor view = reshape(a, {3, 2});
        const Tensor b = neg(a);
        const Tensor c = b * b;
        return std::vector<Tensor>{c + 1, sum(view, {0}), transpose(view) * 2};
      },
      {wave({6}, 1)});
}

TEST(InPlace, AChainUsesOneBuffer) {
  auto function = jit(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 20; ++i) {
          y = tanh(y);
        }
        return sum(y);
      },
      kOnlyInPlace);
  function(wave({1000}, 1));
  const ExecutableStats& stats = function.compiled()->executable()->stats();
  EXPECT_EQ(stats.instructions, 21U);
  EXPECT_EQ(stats.planned_peak_bytes, 4032U) << "1,000 floats in blocks of 64 bytes";
  EXPECT_EQ(stats.lower_bound_bytes, 4032U);
}

TEST(InPlace, ALongChainOfElementTypes) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor wide = cast(exp(x[0]), DType::float64);
        const Tensor narrow = cast(wide * 3, DType::float32);
        const Tensor whole = cast(narrow, DType::int32);
        return std::vector<Tensor>{narrow + cast(whole, DType::float32), logical_not(cast(whole, DType::boolean))};
      },
      {wave({11}, 1)});
}

TEST(Lowering, ArgumentsAreNeverWritten) {
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    auto function = jit([](const Tensor& x) { return neg(exp(x) * x) + x; }, {.pipeline = variant.pipeline});
    const Tensor x = ramp({5});
    function(x);
    function(x);
    EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3, 4, 5)) << variant.name;
  }
}

TEST(Lowering, OutputsThatAliasAreTensorsOfTheirOwn) {
  const Tensor captured = ramp({2, 3}, 10);
  const Function fn = [&](const std::vector<Tensor>& x) {
    const Tensor y = exp(x[0]);
    return std::vector<Tensor>{x[0],
                               x[0],
                               transpose(x[0]),
                               y,
                               y,
                               transpose(y),
                               captured,
                               captured,
                               slice(captured, 1, 1, 2),
                               full({2}, 3.0),
                               full({2}, 3.0)};
  };
  expect_as_eager(fn, {wave({2, 3}, 1)});
  auto function = jit(fn);
  const std::vector<Tensor> x{wave({2, 3}, 1)};
  std::vector<Tensor> results = function(x);
  const std::vector<Tensor> again = function(x);
  for (Tensor& result : results) {
    EXPECT_TRUE(result.is_contiguous());
    std::fill_n(result.mutable_data<float>(), result.numel(), -77.0F);
  }
  expect_same_bits(again, fn(x), "writing to results changes nothing else");
}

TEST(Lowering, ScalarsAndTensorsOfNoElements) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{
            exp(x[0]) + x[1],   sum(x[1], {0}),     transpose(x[1]) * 2, x[0] * x[0], reshape(x[0], {1, 1}) + x[0],
            matmul(x[1], x[2]), matmul(x[2], x[1]), softmax(x[1])};
      },
      {Tensor::scalar(0.5F), zeros({0, 3}), zeros({3, 0})});
}

TEST(Lowering, ViewsCostNoInstruction) {
  auto function = jit([](const Tensor& x) {
    return sum(slice(permute(reshape(x, {2, 3, 4}), {2, 0, 1}), 0, 1, 3) *
               expand(reshape(x, {24, 1, 1, 1}), {24, 2, 2, 3}));
  });
  function(wave({24}, 1));
  EXPECT_EQ(function.compiled()->executable()->stats().instructions, 2U);
}

TEST(Lowering, AReshapeThatHasToCopyDoes) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor flat = reshape(transpose(x[0]), {-1});
        return std::vector<Tensor>{flat, reshape(transpose(exp(x[0])), {3, 2, 2}), reshape(expand(x[1], {2, 3}), {6})};
      },
      {wave({4, 3}, 1), wave({3}, 2)});
}

TEST(Lowering, StridedArgumentsOfEveryKind) {
  const Tensor base = wave({6, 8}, 1);
  for (const Tensor& x :
       {transpose(base), slice(base, 0, 1, 5, 2), slice(base, 1, 3, 8, 2), expand(wave({1, 8}, 2), {6, 8}),
        expand(Tensor::scalar(2.0F), {3, 4}), transpose(slice(base, 0, 2, 3))}) {
    expect_as_eager(
        [](const std::vector<Tensor>& a) {
          const Tensor y = a[0];
          return std::vector<Tensor>{y * 2,
                                     sum(y, {0}),
                                     sum(y, {1}),
                                     softmax(y),
                                     transpose(y) + 1,
                                     matmul(y, transpose(y)),
                                     reshape(y, {-1}),
                                     argmax(y, 0)};
        },
        {x});
  }
}

TEST(Stats, CountWhatACallCosts) {
  const auto program = [](const Tensor& x) {
    const Tensor y = matmul(x, x);
    return std::vector<Tensor>{sum(matmul(y, x)), y};
  };
  auto planned = jit(program);
  planned(wave({16, 16}, 1));
  const ExecutableStats& stats = planned.compiled()->executable()->stats();
  EXPECT_EQ(stats.instructions, 3U);
  EXPECT_EQ(stats.allocations, 2U);
  EXPECT_EQ(stats.planned_peak_bytes, 1024U);
  EXPECT_EQ(stats.lower_bound_bytes, 1024U);
  EXPECT_EQ(stats.temporary_bytes, 1024U);
  auto replay = jit(program, {.pipeline = passes::PipelineOptions::none()});
  replay(wave({16, 16}, 1));
  EXPECT_EQ(replay.compiled()->executable()->stats().allocations, 3U);
  EXPECT_EQ(replay.compiled()->executable()->stats().planned_peak_bytes, 0U);
}

TEST(Stats, AnExecutableRefusesToRunWithinItself) {
  // Two threads at once would corrupt its arena, so it refuses; one after the other is fine.
  auto function = jit([](const Tensor& x) { return x + 1; });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(function(Tensor::scalar(1.0F)).item(), 2);
  }
}

}  // namespace
}  // namespace diptych::runtime
