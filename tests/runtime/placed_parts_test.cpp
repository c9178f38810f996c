// What a concat joins is written where it lies in the result.

#include "framework/runtime/placed_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/op.h"
#include "tests/runtime/as_eager.h"

namespace diptych::runtime {
namespace {

using diptych::testing::expect_as_eager;
using diptych::testing::Function;
using diptych::testing::i64;
using diptych::testing::ramp;
using diptych::testing::wave;
using ::testing::ElementsAre;

std::string text_of(const Place& place) {
  const std::string at =
      place.offset > 0 ? fmt::format("{}+{}", place.buffer, place.offset) : fmt::format("{}", place.buffer);
  return place.contiguous ? at : fmt::format("{} by {}", at, to_string(place.strides));
}

/// "exp(0) -> 2+64": an instruction, the buffers of its operands, and the bytes at which they begin there. Buffers are
/// numbered as inputs and results are.
std::vector<std::string> instructions_of(const Lowered& lowered) {
  std::vector<std::string> texts;
  for (const LoweredNode& node : lowered.nodes) {
    std::vector<std::string> inputs;
    for (const Place& input : node.inputs) {
      inputs.push_back(text_of(input));
    }
    texts.push_back(fmt::format("{}({}) -> {}", node.op->name, fmt::join(inputs, ", "), text_of(node.output())));
  }
  return texts;
}

/// The function as it stands, without any pass.
Lowered lowered_of(const Function& fn, const std::vector<Tensor>& arguments, bool in_place = true) {
  auto function = jit(fn, {.pipeline = passes::PipelineOptions::none()});
  function(arguments);
  std::vector<Strides> strides;
  for (const Tensor& argument : arguments) {
    strides.push_back(argument.strides());
  }
  return lower(*function.compiled()->graph(), strides, {in_place});
}

std::vector<std::string> instructions_of(const Function& fn, const std::vector<Tensor>& arguments,
                                         bool in_place = true) {
  if (in_place) {
    expect_as_eager(fn, arguments);
  }
  return instructions_of(lowered_of(fn, arguments, in_place));
}

TEST(PlacedParts, AreWrittenWhereTheyLieAndTheConcatIsGone) {
  const Function fn = [](const std::vector<Tensor>& x) { return std::vector{concat({exp(x[0]), tanh(x[1])}, 0)}; };
  const std::vector<Tensor> x{wave({2, 4}, 1), wave({3, 4}, 2)};
  EXPECT_THAT(instructions_of(fn, x, false), ElementsAre("exp(0) -> 2", "tanh(1) -> 3", "concat(2, 3) -> 4"));
  EXPECT_THAT(instructions_of(fn, x), ElementsAre("exp(0) -> 4", "tanh(1) -> 4+32"));
}

TEST(PlacedParts, ReadersOfAPartReadItThere) {
  const Function fn = [](const std::vector<Tensor>& x) {
    const Tensor a = exp(x[0]);
    const Tensor b = tanh(x[0]);
    const Tensor all = concat({a, b}, 0);
    return std::vector{all * 2, neg(b), transpose(b) + slice(b, 0, 1, 2)};
  };
  EXPECT_THAT(instructions_of(fn, {wave({2, 2}, 1)}),
              ElementsAre("exp(0) -> 3", "tanh(0) -> 3+16", ::testing::_, "mul(3, 4) -> 5", "neg(3+16) -> 6",
                          "add(3+16 by [1,2], 3+24) -> 7"));
}

TEST(PlacedParts, ArgumentsAndSecondMentionsAreCopied) {
  const Function fn = [](const std::vector<Tensor>& x) {
    const Tensor y = exp(x[0]);
    return std::vector{concat({x[0], y, y, x[0]}, 0)};
  };
  EXPECT_THAT(instructions_of(fn, {wave({2, 4}, 1)}),
              ElementsAre("exp(0) -> 2+32", "concat(0) -> 2", "concat(2+32, 0) -> 2+64"));
}

TEST(PlacedParts, ResultsConstantsAndViewsOfMoreAreCopied) {
  const Function fn = [](const std::vector<Tensor>& x) {
    const Tensor y = exp(x[0]);
    const Tensor z = tanh(x[0]);
    return std::vector{y, concat({y, slice(z, 0, 0, 1), transpose(z), reshape(exp(z), {2, 2})}, 0)};
  };
  EXPECT_THAT(instructions_of(fn, {wave({2, 2}, 1)}),
              ElementsAre("exp(0) -> 1", "tanh(0) -> 2", "exp(2) -> 4+40", "concat(1, 2, 2 by [1,2]) -> 4"));
}

TEST(PlacedParts, OfConcatsOfConcats) {
  const Function fn = [](const std::vector<Tensor>& x) {
    const Tensor inner = concat({exp(x[0]), tanh(x[0])}, 0);
    return std::vector{concat({sin(x[0]), inner}, 0)};
  };
  EXPECT_THAT(instructions_of(fn, {wave({2, 2}, 1)}), ElementsAre("exp(0) -> 5+16", "tanh(0) -> 5+32", "sin(0) -> 5"));
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        std::vector<Tensor> parts;
        for (int i = 0; i < 20; ++i) {
          parts.push_back(x[0] * i);
        }
        return std::vector{concat(parts, 0), stack(parts, 1)};
      },
      {wave({3, 2}, 1)});
}

TEST(PlacedParts, InTwoConcatsLieInOneOfThem) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor y = exp(x[0]);
        const Tensor z = tanh(x[0]);
        return std::vector{concat({y}, 0) * 2, concat({y, z}, 0) + 1, concat({z, y}, 1) - 1, concat({y}, 0)};
      },
      {wave({3, 3}, 1)});
}

TEST(PlacedParts, OfEmptyTensorsNeedNoCopy) {
  const Function fn = [](const std::vector<Tensor>& x) {
    return std::vector{concat({x[1], exp(x[0]), x[1]}, 0), concat({exp(x[1]), x[1]}, 0)};
  };
  EXPECT_THAT(instructions_of(fn, {wave({2, 4}, 1), zeros({0, 4})}),
              ElementsAre("exp(0) -> 3", "exp(1) -> 4", "concat(4, 1) -> 5"));
}

TEST(PlacedParts, StayAsTheyWereWhenTheyAreUpdatedLater) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const Tensor a = exp(x[0]);
        const Tensor all = concat({a, tanh(x[0])}, 0);
        add_(a, x[0]);
        const Tensor again = concat({a, a}, 0);
        mul_(a, x[0]);
        return std::vector{all, again + 1, a};
      },
      {wave({4, 4}, 1)});
}

TEST(PlacedParts, OfEveryKindOfInstruction) {
  expect_as_eager(
      [](const std::vector<Tensor>& x) {
        const auto positive = greater(sum(x[0]), full({}, 0.0));
        const Tensor branch = cond(
            positive, [](const Tensor& y) { return exp(y); }, [](const Tensor& y) { return neg(y); }, x[0]);
        const Tensor product = relu(linear(x[0], x[1], x[2]));
        const Tensor both = product + x[0];
        const Tensor rows = softmax(x[0]);
        return std::vector{concat({branch, product, both, rows, matmul(x[0], x[1]), sum(x[0], {0}, true)}, 0) * 2,
                           concat({both * 2, product * both, rows / both}, 0)};
      },
      {wave({6, 6}, 1), wave({6, 6}, 2), wave({6}, 3)});
}

TEST(PlacedParts, OfEveryElementType) {
  for (const DType dtype : {DType::float64, DType::bfloat16, DType::int32, DType::boolean, DType::uint8}) {
    expect_as_eager(
        [&](const std::vector<Tensor>& x) {
          const Tensor y = cast(x[0], dtype);
          return std::vector{concat({y, cast(exp(x[0]), dtype), y}, 0), concat({y, cast(tanh(x[0]), dtype)}, 1)};
        },
        {wave({3, 5}, 1)});
  }
}

TEST(PlacedParts, AlongAnInnerAxisAreWrittenWithGapsByKernelsThatCan) {
  const Function fn = [](const std::vector<Tensor>& x) {
    return std::vector{concat({embedding(x[0], x[1]), embedding(x[0], x[2]), exp(x[3])}, 1)};
  };
  const std::vector<Tensor> x{i64({2, 0, 1, 1, 2}, {5}), wave({3, 2}, 1), wave({3, 4}, 2), wave({5, 3}, 3)};
  EXPECT_THAT(instructions_of(fn, x), ElementsAre("embedding(0, 1) -> 7 by [9,1]", "embedding(0, 2) -> 7+8 by [9,1]",
                                                  "exp(3) -> 6", "concat(6) -> 7+24 by [9,1]"));
  const Function with_reader = [](const std::vector<Tensor>& in) {
    const Tensor y = embedding(in[0], in[1]);
    return std::vector{concat({y, embedding(in[0], in[2])}, 1), exp(y)};
  };
  EXPECT_THAT(instructions_of(with_reader, x), ElementsAre("embedding(0, 1) -> 4", "embedding(0, 2) -> 6+8 by [6,1]",
                                                           "concat(4) -> 6 by [6,1]", "exp(4) -> 7"));
}

TEST(PlacedParts, RowsOfEveryShapeHaveGaps) {
  const Tensor table = wave({4, 4, 4}, 1);
  for (const Tensor& indices : {i64({1}, {1}), i64({3, 0, 1}, {3}), i64({3, 0, 1, 2}, {2, 2}), i64({0, 2}, {2, 1})}) {
    for (int axis = 0; axis < indices.rank() + 2; ++axis) {
      expect_as_eager(
          [&](const std::vector<Tensor>& x) {
            return std::vector{concat({embedding(x[0], x[1]), embedding(x[0], x[1] * 2)}, axis)};
          },
          {indices, table});
    }
    for (int of = 0; of < 3; ++of) {
      for (int axis = 0; axis < indices.rank() + 2; ++axis) {
        expect_as_eager(
            [&](const std::vector<Tensor>& x) {
              const Tensor y = index_select(x[1], of, x[0]);
              return std::vector{concat({index_select(neg(x[1]), of, x[0]), y, exp(y)}, axis) * 2,
                                 concat({concat({index_select(x[1], of, x[0])}, 0), y}, axis)};
            },
            {indices, table});
      }
    }
  }
}

TEST(PlacedParts, KernelsOfElementsWriteRunsWithGaps) {
  const Function fn = [](const std::vector<Tensor>& x) { return std::vector{concat({exp(x[0]), neg(x[1])}, 1)}; };
  EXPECT_THAT(instructions_of(fn, {wave({5, 40}, 1), wave({5, 32}, 2)}),
              ElementsAre("exp(0) -> 4 by [72,1]", "neg(1) -> 4+160 by [72,1]"));
  EXPECT_THAT(instructions_of(fn, {wave({5, 40}, 1), wave({5, 31}, 2)}),
              ElementsAre("exp(0) -> 4 by [71,1]", "neg(1) -> 3", "concat(3) -> 4+160 by [71,1]"))
      << "short runs are copied";
}

TEST(PlacedParts, FusedKernelsWriteRunsWithGaps) {
  const Function fn = [](const std::vector<Tensor>& x) {
    const Tensor a = tanh(x[0]) * x[1];  // x[1] is a row
    const Tensor kept = exp(x[0] * 2);
    const Tensor b = kept + x[0];
    const Tensor c = greater(neg(x[0]), x[1]);
    return std::vector{concat({a, b}, -1), kept, concat({c, logical_not(less(x[0] + 1, x[1]))}, -1)};
  };
  for (const Shape& shape : {Shape{5, 40}, Shape{300, 70}, Shape{3, 2100}, Shape{4, 1, 33}, Shape{2, 3, 64}}) {
    expect_as_eager(fn, {wave(shape, 1), wave({shape.back()}, 2)});
  }
  const Function middle = [](const std::vector<Tensor>& x) {
    return std::vector{concat({tanh(x[0]) * x[1], exp(x[0]) - x[0], slice(neg(x[0]) + 1, 1, 0, 2)}, 1)};
  };
  expect_as_eager(middle, {wave({7, 5, 9}, 1), wave({9}, 2)});
  expect_as_eager(middle, {transpose(wave({7, 9, 5}, 1)), wave({9}, 2)});
}

TEST(PlacedParts, ThatComeTooEarlyAreCopied) {
  // x stays small while the tensors of the wide layers are alive: the result of both would be there, too.
  const Function fn = [](const std::vector<Tensor>& x) {
    const Tensor skipped = exp(x[0]);
    const Tensor wide = matmul(matmul(skipped, x[1]), x[2]);
    return std::vector{neg(concat({skipped, matmul(wide, x[3])}, 0))};
  };
  EXPECT_THAT(instructions_of(fn, {wave({16, 16}, 1), wave({16, 64}, 2), wave({64, 64}, 3), wave({64, 16}, 4)}),
              ElementsAre("exp(0) -> 4", "matmul(4, 1) -> 5", "matmul(5, 2) -> 6", "matmul(6, 3) -> 8+1024",
                          "concat(4) -> 8", "neg(8) -> 9"));
}

/// Two calls of a step in eager and as each kind of graph.
void expect_states_as_eager(const std::function<Tensor(Variable& state, const Tensor& x)>& step) {
  const Tensor x = wave({2, 3}, 1);
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    Variable mine(wave({4, 3}, 2), "state");
    Variable theirs(wave({4, 3}, 2), "state");
    auto graph = jit([&](const Tensor& with) { return step(mine, with); }, {.pipeline = variant.pipeline});
    for (int call = 0; call < 3; ++call) {
      diptych::testing::expect_same_bits(graph(x), step(theirs, x), variant.name);
      EXPECT_TRUE(bitwise_equal(mine.value(), theirs.value())) << variant.name << ", call " << call;
    }
  }
}

TEST(PlacedParts, OfANewStateLieInItOnceTheOldOneIsRead) {
  Variable state(wave({4, 3}, 2), "state");
  const auto instructions = [&](const std::function<Tensor(Variable & state, const Tensor& x)>& step) {
    expect_states_as_eager(step);
    return instructions_of(
        lowered_of([&](const std::vector<Tensor>& x) { return std::vector{step(state, x[0])}; }, {wave({2, 3}, 1)}));
  };
  // Buffer 0 is the argument, 1 the state.
  EXPECT_THAT(instructions([](Variable& of, const Tensor& x) {
                const Tensor old = neg(of.value());
                of.assign(concat({exp(x), tanh(x)}, 0));
                return old;
              }),
              ElementsAre("neg(1) -> 2", "exp(0) -> 1", "tanh(0) -> 1+24"));
  EXPECT_THAT(instructions([](Variable& of, const Tensor& x) {
                const Tensor first = exp(x);
                const Tensor old = neg(of.value());
                of.assign(concat({first, tanh(x)}, 0));
                return old;
              }),
              ElementsAre("exp(0) -> 2", "neg(1) -> 3", "tanh(0) -> 1+24", "concat(2) -> 1"));
}

TEST(PlacedParts, AStateStaysIfTheCallFailsBehindAPartOfTheNewOne) {
  Variable state(ramp({4, 3}), "state");
  auto graph = jit(
      [&](const Tensor& x, const Tensor& at) {
        const Tensor first = exp(x);
        const Tensor second = index_select(x, 0, at);
        state.assign(concat({first, second}, 0));
        return sum(first);
      },
      {.pipeline = passes::PipelineOptions{}});
  const Tensor x = wave({2, 3}, 1);
  graph(x, i64({0, 1}, {2}));
  const Tensor before = copy(state.value());
  EXPECT_THROW(graph(x * 2, i64({0, 7}, {2})), Error);
  EXPECT_TRUE(bitwise_equal(state.value(), before));
}

TEST(PlacedParts, TakeLessMemoryAndAreCountedSo) {
  const auto stats_of = [](bool in_place) {
    graph::JitOptions options;
    if (!in_place) {
      options.pipeline.disabled.insert(passes::kInPlace);
    }
    auto function = jit([](const Tensor& x) { return sum(concat({exp(x), tanh(x)}, 0), {1}); }, options);
    function(wave({16, 16}, 1));
    return function.compiled()->executable()->stats();
  };
  EXPECT_EQ(stats_of(false).instructions, 4U);
  EXPECT_EQ(stats_of(false).planned_peak_bytes, 4096U) << "both parts and the whole";
  EXPECT_EQ(stats_of(true).instructions, 3U);
  EXPECT_EQ(stats_of(true).planned_peak_bytes, 2048U) << "the whole";
}

}  // namespace
}  // namespace diptych::runtime
