// Cross entropies in kernels with what stands around them: bits and errors of eager.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/apply.h"
#include "framework/ops/row_ops.h"
#include "tests/graph/variants.h"

namespace diptych::passes {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::fusing_all;
using diptych::testing::message_of;
using diptych::testing::pipeline_variants;
using diptych::testing::Variant;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

Tensor labels_of(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < rows; ++row) {
    labels.push_back(row * 7 % classes);
  }
  return Tensor::from(labels, {rows});
}

/// Loss and gradient, with an op before the loss and one behind its gradient.
std::vector<Tensor> step(const Tensor& x, const Tensor& labels, const CrossEntropyOptions& options) {
  const auto loss = [&](const Tensor& a) { return cross_entropy(tanh(a * 0.5), labels, options); };
  const auto both = value_and_grad(loss)(x);
  return {both.value, both.arguments.at(0) * 2.0};
}

TEST(CheckLabels, GivesEagersBitsInEveryVariant) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    for (const double smoothing : {0.0, 0.1}) {
      for (const bool ignores : {false, true}) {
        const CrossEntropyOptions options{.label_smoothing = smoothing,
                                          .ignore_index = ignores ? std::optional<std::int64_t>(7) : std::nullopt};
        const Tensor x = cast(Rng(1).normal({37, 19}), dtype);
        const Tensor labels = labels_of(37, 19);
        const std::vector<Tensor> expected = step(x, labels, options);
        for (const Variant& variant : pipeline_variants()) {
          auto function = jit([&](const Tensor& a, const Tensor& b) { return step(a, b, options); },
                              {.pipeline = variant.pipeline});
          const std::vector<Tensor> actual = function(x, labels);
          expect_same_bits(actual[0], expected[0], variant.name);
          expect_same_bits(actual[1], expected[1], variant.name);
        }
      }
    }
  }
}

TEST(CheckLabels, LossAndGradientAreOneKernelWithTheOpsAroundThem) {
  auto function = jit([](const Tensor& a, const Tensor& b) { return step(a, b, {}); }, {.pipeline = fusing_all()});
  function(Rng(1).normal({37, 19}), labels_of(37, 19));
  std::vector<std::vector<std::string>> kernels;
  for (const graph::Node& node : function.compiled()->graph()->nodes) {
    for (const auto& region : node.regions) {
      kernels.emplace_back();
      for (const graph::Node& inner : region->nodes) {
        kernels.back().emplace_back(inner.op->name);
      }
    }
  }
  EXPECT_THAT(kernels, ::testing::Contains(IsSupersetOf(
                           {"tanh", "cross_entropy_of_classes", "cross_entropy_backward_of_classes", "mul"})));
}

TEST(CheckLabels, FailsAsEagerDoesAndLeavesStates) {
  Variable calls(Tensor::scalar(0.0F), "calls");
  const auto program = [&](const Tensor& x, const Tensor& labels) {
    calls.assign(add(calls.value(), ones({})));
    return step(x, labels, {});
  };
  const Tensor x = Rng(1).normal({37, 19});
  for (const std::int64_t wrong : {std::int64_t{19}, std::int64_t{-1}}) {
    std::vector<std::int64_t> labels = labels_of(37, 19).to_vector<std::int64_t>();
    labels[30] = wrong;
    const Tensor given = Tensor::from(labels, {37});
    const std::string in_eager = message_of<Error>([&] { step(x, given, {})[0].to_vector<float>(); });
    auto function = jit(program, {.pipeline = fusing_all()});
    const std::string in_graph = message_of<Error>([&] { function(x, given)[0].to_vector<float>(); });
    EXPECT_THAT(in_graph, HasSubstr("cross_entropy: index " + std::to_string(wrong) + " at position 30"));
    EXPECT_EQ(in_graph.substr(0, in_graph.find('\n')), in_eager.substr(0, in_eager.find('\n')));
    EXPECT_EQ(calls.value().item(), 0);
  }
}

TEST(CheckLabels, WhatNothingHasCheckedIsNoNumber) {
  const Tensor x = Rng(1).normal({3, 4});
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{1, 4, -5}, {3});
  const Tensor scale = ones({3});
  const ops::CrossEntropyAttributes attributes;
  const std::vector<float> losses =
      apply(op::cross_entropy_of_classes, std::array{&x, &labels}, &attributes, Location::current()).to_vector<float>();
  const std::vector<float> gradient =
      apply(op::cross_entropy_backward_of_classes, std::array{&x, &labels, &scale}, &attributes, Location::current())
          .to_vector<float>();
  EXPECT_FALSE(std::isnan(losses[0]) || std::isnan(gradient[0]));
  for (const std::size_t row : {1U, 2U}) {
    EXPECT_TRUE(std::isnan(losses[row]) && std::isnan(gradient[row * 4]) && std::isnan(gradient[row * 4 + 3])) << row;
  }
}

}  // namespace
}  // namespace diptych::passes
