// Kernels whose tiles are channels of [batch, channels, ...]: the statistics of batch normalisation with what makes and
// what reads them, as ops of their own and written by hand.

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/op.h"
#include "framework/ops/row_ops.h"
#include "tests/passes/fusing.h"
#include "tests/passes/programs.h"
#include "tests/support/called.h"
#include "tests/support/with_isa.h"

namespace diptych::passes {
namespace {

using diptych::testing::fusing_all;
using diptych::testing::wave;
using testing::after_fuse;
using testing::Body;
using ::testing::ElementsAre;
using testing::expect_fused_bits;
using ::testing::HasSubstr;
using testing::names_of;

/// Channels of one image and of several, of one element a plane and of more than a tile, one channel, as many as
/// images, as columns.
const std::vector<Shape> kShapes = {{2, 3, 7},       {1, 5, 17},      {4, 4, 3, 3}, {2, 4, 5, 5},
                                    {3, 4, 1, 1},    {6, 1, 50},      {5, 7, 9, 1}, {1, 1, 2, 30},
                                    {3, 2, 90, 111}, {2, 3, 4, 5, 6}, {2, 5, 3, 5}};

const ops::ChannelAttributes kAttributes{1e-5};

Tensor called(const OpDef& op, const std::vector<Tensor>& inputs) {
  return diptych::testing::called(op, inputs, &kAttributes);
}

Tensor per_channel(const Tensor& t, const Tensor& x) {
  Shape shape = Shape::filled(x.rank() - 1, 1);
  shape[0] = x.shape()[1];
  return reshape(t, shape);
}

/// x, a tensor of its shape, a weight and a bias.
std::vector<Tensor> inputs_of(const Shape& shape, DType dtype) {
  std::vector<Tensor> inputs{wave(shape, 1), wave(shape, 2), wave({shape[1]}, 3), wave({shape[1]}, 4)};
  for (Tensor& input : inputs) {
    input = cast(input, dtype);
  }
  return inputs;
}

/// Statistics of a sum, their readers, a residual; values of a channel among elements. `keeps`: what is read inside,
/// too.
template <bool keeps>
std::vector<Tensor> forward(const std::vector<Tensor>& in) {
  const Tensor x = add(in[0], in[1]);
  const Tensor statistics = called(op::batch_norm_statistics, {x});
  const Tensor y = called(op::batch_norm, {x, in[2], in[3], statistics});
  const Tensor z = relu(add(mul(y, per_channel(in[2], x)), in[0]));
  return keeps ? std::vector<Tensor>{z, statistics, y, x} : std::vector<Tensor>{z, statistics};
}

/// The axes of planes.
Axes planes_of(const Shape& shape) {
  Axes axes;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    axes.push_back(axis);
  }
  return axes;
}

/// The gradients behind a mask: of the input, the weight and, plane by plane, the bias.
template <bool keeps>
std::vector<Tensor> backward(const std::vector<Tensor>& in) {
  const Tensor dy = mul(in[1], cast(greater(in[1], full_like(in[1], 0.1)), in[1].dtype()));
  const Tensor statistics = called(op::batch_norm_statistics, {in[0]});
  std::vector<Tensor> results{called(op::batch_norm_input_gradient, {dy, in[0], in[2], statistics}),
                              called(op::batch_norm_weight_gradient, {dy, in[0], statistics})};
  if (in[0].rank() > 3) {
    results.push_back(sum(dy, planes_of(in[0].shape())));
  }
  if (keeps) {
    results.push_back(dy);
  }
  return results;
}

/// All axes but that of channels.
Axes all_but_channels(const Shape& shape) {
  Axes axes{0};
  for (const std::int64_t axis : planes_of(shape)) {
    axes.push_back(axis);
  }
  return axes;
}

/// A batch normalisation as it stands in papers, with values of a channel as [1, C, 1, 1].
template <bool keeps>
std::vector<Tensor> by_hand(const std::vector<Tensor>& in) {
  const Tensor x = add(in[0], in[1]);
  const Axes axes = all_but_channels(x.shape());
  const Tensor middle = mean(x, axes, true);
  const Tensor centred = sub(x, middle);
  const Tensor variance = mean(square(centred), axes, true);
  const Tensor y = div(centred, sqrt(variance + 1e-5));
  const Tensor z = relu(add(mul(y, per_channel(in[2], x)), per_channel(in[3], x)));
  return keeps ? std::vector<Tensor>{z, middle, variance, y, x} : std::vector<Tensor>{z};
}

/// The same with values of a channel as [C], scaled in front, and the mean of the square less the square of the mean.
std::vector<Tensor> by_hand_in_vectors(const std::vector<Tensor>& in) {
  const Tensor& x = in[0];
  const Axes axes = all_but_channels(x.shape());
  const Tensor middle = mean(x, axes);
  const Tensor variance = sub(mean(square(x), axes), square(middle));
  const Tensor scale = div(in[2], sqrt(relu(variance) + 1e-3));
  const Tensor offset = sub(in[3], mul(middle, scale));
  return {add(add(mul(add(x, in[1]), per_channel(scale, x)), per_channel(offset, x)), in[1]), offset};
}

/// The gradients of that on paper, as automatic differentiation writes them.
template <bool keeps>
std::vector<Tensor> gradients_by_hand(const std::vector<Tensor>& in) {
  return grad(
      [](const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias) {
        const std::vector<Tensor> results = by_hand<keeps>({x, y, weight, bias});
        const Tensor loss = sum(mul(results[0], y));
        return keeps ? loss + sum(square(results[2])) + sum(results[1]) : loss;
      },
      {0, 1, 2, 3})(in[0], in[1], in[2], in[3]);
}

/// What is found for a channel where no loop takes one value, where a kernel reads it, and before what it is paired
/// with.
std::vector<Tensor> corners(const std::vector<Tensor>& in) {
  const Tensor& x = in[0];
  const Axes axes = all_but_channels(x.shape());
  const Tensor y = add(x, in[1]);
  const Tensor largest = max(y, axes, true);
  const Tensor paired = relu(mul(largest, add(y, in[1])));
  const Tensor chosen = where(greater(largest, full_like(x, 0.5)), y, paired);
  const Tensor weight = tanh(add(sum(chosen, axes), in[3]));
  return {called(op::batch_norm, {chosen, weight, in[3]}),
          sum(mul(expand(largest, x.shape()), expand(per_channel(weight, x), x.shape())), axes), weight};
}

struct Case {
  Body body;
  bool has_statistics;
};
const Case kCases[] = {{forward<false>, true},           {forward<true>, true},
                       {backward<false>, true},          {backward<true>, true},
                       {by_hand<false>, false},          {by_hand<true>, false},
                       {by_hand_in_vectors, false},      {gradients_by_hand<false>, false},
                       {gradients_by_hand<true>, false}, {corners, false}};

/// Of [4, 4, ...], statistics might be sums of planes.
bool has_channels(const Case& of, const Shape& shape) { return !of.has_statistics || shape[0] != 4 || shape[1] != 4; }

/// x as it lies in other ways: channels that stand for others, and with other elements between them.
std::vector<Tensor> laid_out(const Tensor& x) {
  const Shape& shape = x.shape();
  const Shape flat{shape[0], shape[1], shape.product() / (shape[0] * shape[1])};
  std::vector<Tensor> all{transpose(copy(transpose(x, 0, -1)), 0, -1), transpose(copy(transpose(x, 0, 1)), 0, 1)};
  for (const int axis : {0, 1}) {
    all.push_back(expand(slice(x, axis, 0, 1), shape));
  }
  for (const int axis : {0, 1, x.rank() - 1}) {
    all.push_back(slice(concat({x, x}, axis), axis, 0, 2 * shape[axis], 2));
  }
  Shape one = Shape::filled(shape.rank(), 1);
  one[1] = shape[1];
  all.push_back(expand(reshape(slice(slice(reshape(x, flat), 0, 0, 1), 2, 0, 1), one), shape));
  all.push_back(expand(reshape(slice(reshape(x, {x.numel()}), 0, 0, 1), Shape::filled(shape.rank(), 1)), shape));
  return all;
}

TEST(FuseChannels, BatchNormWithWhatIsAroundItGivesEagersBits) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Shape& shape : kShapes) {
      const std::vector<Tensor> inputs = inputs_of(shape, dtype);
      const std::string what = to_string(inputs[0].type());
      for (const Case& of : kCases) {
        for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
          if (is_supported(isa)) {
            const diptych::testing::WithIsa with(isa);
            expect_fused_bits(of.body, inputs, what, has_channels(of, shape));
          }
        }
      }
    }
  }
}

TEST(FuseChannels, OperandsOfEveryLayoutGiveEagersBits) {
  for (const Shape& shape : kShapes) {
    std::vector<Tensor> inputs = inputs_of(shape, DType::float32);
    const std::vector<Tensor> dense = inputs;
    inputs[2] = expand(slice(inputs[2], 0, 0, 1), {shape[1]});
    inputs[3] = slice(concat({inputs[3], inputs[3]}, 0), 0, 0, 2 * shape[1], 2);
    for (const Case& of : kCases) {
      for (std::size_t i = 0; i < 2; ++i) {
        const std::vector<Tensor> layouts = laid_out(dense[i]);
        for (std::size_t k = 0; k < layouts.size(); ++k) {
          inputs[i] = layouts[k];
          ASSERT_EQ(inputs[i].shape(), shape);
          expect_fused_bits(of.body, inputs,
                            to_string(shape) + ", input " + std::to_string(i) + ", layout " + std::to_string(k),
                            has_channels(of, shape));
        }
        inputs[i] = dense[i];
      }
    }
  }
}

// Temporaries that end inside, in whose places the results may lie.
TEST(FuseChannels, ResultsInThePlacesOfTemporariesGiveEagersBits) {
  const auto body = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const std::vector<Tensor> first = forward<true>({cumsum(in[0], 0), cumsum(in[1], 0), in[2], in[3]});
    const std::vector<Tensor> second = backward<true>({cumsum(first[3], 0), cumsum(first[2], 1), in[2], in[3]});
    const std::vector<Tensor> third = by_hand<true>({cumsum(second[0], 0), cumsum(in[1], 1), in[2], in[3]});
    return {cumsum(first[0], 0), cumsum(second[0], 1), cumsum(second.back(), 0), second[1],
            cumsum(third[0], 0), cumsum(third[1], 1),  cumsum(third[3], 0)};
  };
  for (const Shape& shape : kShapes) {
    expect_fused_bits(body, inputs_of(shape, DType::float32), to_string(shape), true);
  }
}

TEST(FuseChannels, NarrowTypesGiveEagersBits) {
  const auto body = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {relu(called(op::batch_norm, {add(in[0], in[1]), in[2], in[3]})),
            called(op::batch_norm_input_gradient, {neg(in[1]), in[0], in[2]})};
  };
  for (const Shape& shape : kShapes) {
    for (const Body& each : {Body(body), Body(by_hand<true>), Body(gradients_by_hand<true>)}) {
      expect_fused_bits(each, inputs_of(shape, DType::bfloat16), to_string(shape), true);
    }
  }
}

// Every op that reduces planes and channels, on every type that it has; elements read what is found for their channel.
TEST(FuseChannels, ReductionsGiveEagersBits) {
  std::set<std::string> tried;
  for (const OpDef* op : registry()) {
    if (op->kind != OpKind::reduction || op->rows == nullptr || op->can_fail) {
      continue;
    }
    std::set<DType> types;
    for (const Sample& sample : op->samples()) {
      const DType dtype = sample.inputs[0].type.dtype;
      if (sample.inputs.size() != 1 || !types.insert(dtype).second) {
        continue;
      }
      for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{1, 3, 4, 5}, Shape{3, 1, 4, 5}, Shape{2, 2, 1, 7},
                                 Shape{3, 2, 1, 1}, Shape{2, 3, 2, 3, 2}}) {
        const Tensor x = cast(wave(shape, 1) * 3.0, dtype);
        for (const Axes& axes : {planes_of(shape), all_but_channels(shape)}) {
          for (const bool keepdims : {false, true}) {
            const bool are_planes = axes[0] == 2;
            if (are_planes && keepdims && shape[0] != 1) {
              continue;  // [N, C, 1, 1] stays outside
            }
            AttributeValue attributes = sample.attributes;
            const AttributeType& fields = *attributes.type();
            ASSERT_TRUE(fields.parse_field(attributes.get(), "axes", to_string(axes)));
            ASSERT_TRUE(fields.parse_field(attributes.get(), "keepdims", keepdims ? "true" : "false"));
            const auto body = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
              const Tensor first = dtype == DType::boolean ? logical_not(in[0]) : square(in[0]);
              std::vector<Tensor> results{diptych::testing::called(*op, {first}, attributes.get()), first};
              if (keepdims && !are_planes) {
                results.push_back(less(first, cast(results[0], dtype)));
              }
              return results;
            };
            expect_fused_bits(body, {x}, std::string(op->name) + to_string(axes) + " of " + to_string(x.type()), true);
          }
        }
        tried.insert(op->name);
      }
    }
  }
  EXPECT_THAT(tried, ::testing::IsSupersetOf({"sum", "prod", "max", "min", "any", "all", "var", "logsumexp"}));
}

// Whole steps, whose temporaries lie in the places of others.
TEST(FuseChannels, StepsOfTrainingGiveEagersBits) {
  for (const Shape& shape : kShapes) {
    const auto run = [&](bool compiled) {
      Variable mean(zeros({shape[1]}));
      Variable variance(ones({shape[1]}));
      const auto loss = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
        const Tensor y = relu(batch_norm(x * 0.7, w, b, mean, variance) + x);
        return sum(square(batch_norm(y, w, b, {}, {}) - 0.3));
      };
      auto fast = jit(
          [&](const std::vector<Tensor>& in) {
            return grad(loss, {0, 1, 2})(in[0], in[2], in[3]);
          },
          {.pipeline = fusing_all()});
      std::vector<Tensor> results;
      for (int i = 0; i < 2; ++i) {
        const std::vector<Tensor> in = inputs_of(shape, DType::float32);
        const std::vector<Tensor> step = compiled ? fast(in) : grad(loss, {0, 1, 2})(in[0], in[2], in[3]);
        results.insert(results.end(), step.begin(), step.end());
      }
      results.insert(results.end(), {mean.value(), variance.value()});
      return results;
    };
    if (shape.product() > shape[1]) {
      diptych::testing::expect_same_bits(run(true), run(false), to_string(shape));
    }
  }
}

/// A batch normalisation with its statistics between elementwise ops, of [batch, 3, 5, 7].
graph::Graph norm_of(const std::string& shape, const std::string& channels) {
  const std::string type = "f32[" + shape + "]";
  const std::string row = "f32[" + channels + "]";
  return graph::parse("graph \"g\"(%0: " + type + " argument \"x\", %1: " + row + " argument \"w\") {\n%2: " + type +
                      " = exp(%0)\n%3: f32[" + channels + ",4] = batch_norm_statistics(%2) {eps=1e-05}\n%4: " + type +
                      " = batch_norm(%2, %1, %1, %3) {eps=1e-05}\n%5: " + type + " = relu(%4)\n  return %5, %3\n}");
}

TEST(FuseChannels, StatisticsStandWithTheirProducerAndTheirReader) {
  const graph::Graph graph = after_fuse(norm_of("2,3,5,7", "3"));
  ASSERT_THAT(names_of(graph), ElementsAre("fused"));
  EXPECT_THAT(names_of(*graph.nodes[0].regions[0]), ElementsAre("exp", "batch_norm_statistics", "batch_norm", "relu"));
  EXPECT_EQ(graph::print(graph::parse(graph::print(graph))), graph::print(graph));
}

/// A batch normalisation without the ops of its name, of images; a sum is [C] first, or [1, C, 1, 1] at once.
graph::Graph norm_by_hand(const Shape& shape, bool keepdims) {
  const std::string all = ": f32" + to_string(shape) + " = ";
  const std::string one = to_string(Shape{shape[1]});
  const std::string few = to_string(Shape{1, shape[1], 1, 1});
  const auto sum_of = [&](const std::string& total, const std::string& x, const std::string& result) {
    return total + ": f32" + (keepdims ? few : one) + " = sum(" + x +
           ") {axes=[0,2,3], keepdims=" + (keepdims ? "true" : "false") + "}\n" + result + ": f32" + few +
           " = reshape(" + total + ") {shape=" + few + "}\n";
  };
  return graph::parse("graph \"g\"(%0: f32" + to_string(shape) + " argument \"x\", %1: f32" + few +
                      " argument \"w\") {\n" + sum_of("%2", "%0", "%3") + "%4" + all + "sub(%0, %3)\n%5" + all +
                      "square(%4)\n" + sum_of("%6", "%5", "%7") + "%8: f32" + few + " = sqrt(%7)\n%9" + all +
                      "div(%4, %8)\n%10" + all + "mul(%9, %1)\n  return %10\n}");
}

TEST(FuseChannels, ANormWrittenByHandIsFoundByItsStructure) {
  for (const bool keepdims : {false, true}) {
    const graph::Graph graph = after_fuse(norm_by_hand({2, 3, 5, 7}, keepdims));
    ASSERT_THAT(names_of(graph), ElementsAre("fused"));
    EXPECT_THAT(names_of(*graph.nodes[0].regions[0]),
                ElementsAre("sum", "reshape", "sub", "square", "sum", "reshape", "sqrt", "div", "mul"));
    EXPECT_EQ(graph::print(graph::parse(graph::print(graph))), graph::print(graph));
  }
}

/// From 512 elements a channel and 128 KiB on; planes may be short, because broadcasting over them takes longer apart.
TEST(FuseChannels, ReductionsOfChannelsPayWhereTheirReadersAreAmongThem) {
  const auto count = [](const graph::Graph& graph) { return after_fuse(graph, 1).nodes.size(); };
  EXPECT_EQ(count(norm_by_hand({32, 16, 8, 8}, false)), 1U);
  EXPECT_EQ(count(norm_by_hand({256, 64, 2, 2}, false)), 1U);
  EXPECT_GT(count(norm_by_hand({8, 16, 8, 8}, false)), 1U) << "is small";
  EXPECT_GT(count(norm_by_hand({1, 512, 14, 14}, false)), 1U) << "has few elements a channel";
  EXPECT_GT(count(norm_by_hand({1024, 256, 1, 1}, false)), 1U) << "a channel's elements lie apart";
  EXPECT_GT(count(norm_by_hand({16, 4, 64, 64}, false)), 1U) << "has few channels, which threads would share";
  EXPECT_GT(count(norm_by_hand({8, 3, 256, 256}, false)), 1U) << "a channel is larger than the cache";
  const auto after = [](const std::string& lines, const std::string& results) {
    return names_of(after_fuse(testing::program_of("f32[8,64,28,28]", lines, results), 1));
  };
  EXPECT_THAT(after("%2: f32[8,64,28,28] = mul(%0, %1)\n%3: f32[64] = sum(%2) {axes=[0,2,3]}\n", "%3"),
              ElementsAre("fused"));
  EXPECT_THAT(
      after("%2: f32[1,64,1,1] = sum(%0) {axes=[0,2,3], keepdims=true}\n%3: f32[8,64,28,28] = sub(%0, %2)\n", "%3"),
      ElementsAre("sum", "sub"))
      << "saves one pass";
  EXPECT_THAT(
      after("%2: f32[8,64,28,28] = mul(%0, %1)\n%3: f32[64] = sum(%2) {axes=[0,2,3]}\n%4: f32[64] = exp(%3)\n", "%4"),
      ElementsAre("fused", "exp"))
      << "64 calls for one";
}

TEST(FuseChannels, OnlyTensorsBeyondTheCachesPay) {
  EXPECT_THAT(names_of(after_fuse(norm_of("8,64,28,28", "64"), 1)),
              ElementsAre("exp", "batch_norm_statistics", "batch_norm", "relu"));
  EXPECT_THAT(names_of(after_fuse(norm_of("8,128,28,28", "128"), 1)), ElementsAre("fused"));
  // Statistics and norm save one pass together.
  const auto alone = [](const std::string& shape) {
    const std::string type = "f32[" + shape + "]";
    return names_of(
        after_fuse(graph::parse("graph \"g\"(%0: " + type + " argument \"x\", %1: f32[64] argument \"w\") {\n" +
                                "%2: f32[64,4] = batch_norm_statistics(%0) {eps=1e-05}\n%3: " + type +
                                " = batch_norm(%0, %1, %1, %2) {eps=1e-05}\n  return %3\n}"),
                   1));
  };
  EXPECT_THAT(alone("8,64,56,56"), ElementsAre("batch_norm_statistics", "batch_norm"));
  EXPECT_THAT(alone("32,64,56,56"), ElementsAre("fused"));
  EXPECT_THAT(names_of(after_fuse(norm_of("8,3,256,256", "3"), 1)),
              ElementsAre("exp", "batch_norm_statistics", "batch_norm", "relu"))
      << "a channel larger than the cache";
  EXPECT_THAT(names_of(after_fuse(norm_of("256,512,4,4", "512"), 1)),
              ElementsAre("exp", "batch_norm_statistics", "batch_norm", "relu"))
      << "short planes";
}

TEST(FuseChannels, OtherChannelsAndOtherRowsStayApart) {
  const auto names = [](const std::string& lines, const std::string& results) {
    return names_of(after_fuse(testing::program_of("f32[2,3,5,7]", lines, results)));
  };
  // Two images of [3, 5, 7] aren't one of [3, 2, 35].
  EXPECT_THAT(names("%2: f32[2,3,5,7] = exp(%0)\n%3: f32[3,2,35] = reshape(%2) {shape=[3,2,35]}\n"
                    "%4: f32[2,4] = batch_norm_statistics(%3) {eps=1e-05}\n",
                    "%4"),
              ElementsAre("exp", "reshape", "batch_norm_statistics"));
  // A reshape that keeps the channels costs nothing.
  EXPECT_THAT(names("%2: f32[2,3,5,7] = exp(%0)\n%3: f32[3,4] = batch_norm_statistics(%2) {eps=1e-05}\n"
                    "%4: f32[2,3,35] = reshape(%2) {shape=[2,3,35]}\n%5: f32[2,3,35] = neg(%4)\n",
                    "%3, %5"),
              ElementsAre("fused"));
  // Rows of the last axis.
  EXPECT_THAT(names("%2: f32[2,3,5,7] = softmax(%0)\n%3: f32[3,4] = batch_norm_statistics(%2) {eps=1e-05}\n", "%3"),
              ElementsAre("softmax", "batch_norm_statistics"));
  // Four channels of four images: is it a number for each image of each channel, or four for each channel?
  EXPECT_THAT(names_of(after_fuse(testing::program_of(
                  "f32[4,4,5,7]", "%2: f32[4,4,5,7] = exp(%0)\n%3: f32[4,4] = sum(%2) {axes=[2,3]}\n", "%3"))),
              ElementsAre("exp", "sum"));
  // A number for each channel, read as one for each column; then as one for each channel.
  const auto read_as = [](const std::string& shape) {
    return names_of(
        after_fuse(testing::program_of("f32[2,3,5,3]",
                                       "%2: f32[3] = sum(%0) {axes=[0,2,3]}\n%3: f32" + shape +
                                           " = reshape(%2) {shape=" + shape + "}\n%4: f32[2,3,5,3] = sub(%0, %3)\n",
                                       "%4")));
  };
  EXPECT_THAT(read_as("[1,3]"), ElementsAre("sum", "reshape", "sub"));
  EXPECT_THAT(read_as("[3,1,1]"), ElementsAre("fused"));
  // What is found for a plane isn't read by elements inside.
  EXPECT_THAT(names("%2: f32[2,3] = sum(%0) {axes=[2,3]}\n%3: f32[2,3] = exp(%2)\n", "%3"), ElementsAre("sum", "exp"));
}

TEST(FuseChannels, DamagedRegionsAreRefused) {
  const std::string good = graph::print(after_fuse(norm_of("2,3,5,7", "3")));
  const auto with = testing::errors_of(good);
  EXPECT_THAT(with("relu(%4)", "softmax(%4)"), HasSubstr("softmax"));
  EXPECT_THAT(with("batch_norm(%2, %1, %1, %3)", "batch_norm(%2, %1, %1, %0)"), HasSubstr("batch_norm"));
  const auto by_hand = testing::errors_of(graph::print(after_fuse(norm_by_hand({3, 3, 5, 3}, false))));
  EXPECT_THAT(by_hand("= sqrt(", "= softmax("), HasSubstr("softmax"));
  // As a number for each column, for each image, for each plane.
  for (const char* const shape : {"[1,3]", "[3,1,1,1]", "[3,1,1]"}) {
    const std::string reshaped = std::string("f32") + shape + " = reshape(%2) {shape=" + shape + "}";
    const std::string error = by_hand("f32[1,3,1,1] = reshape(%2) {shape=[1,3,1,1]}", reshaped);
    EXPECT_EQ(error == "no error", shape == std::string("[3,1,1]")) << shape << ": " << error;
  }
}

}  // namespace
}  // namespace diptych::passes
