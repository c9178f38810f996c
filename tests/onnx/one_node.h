#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/imported.h"
#include "tests/support/short_run.h"

/// Models of one node: their outputs, and their gradients against finite differences.
namespace diptych::testing {

using Attributes = std::map<std::string, onnx::AttributeValue>;

inline onnx::AttributeValue number(std::int64_t value) { return onnx::AttributeValue(value); }

/// A model of one node whose inputs are the tensors; integers are constants. `op` may have the domain in front:
/// "ai.onnx.preview.training::Adam".
inline Builder of_one(const std::string& op, const std::vector<Tensor>& inputs, const Attributes& attributes = {},
                      int outputs = 1, std::int64_t opset = 25) {
  Builder builder(opset);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    names.push_back(inputs[i].defined() ? "x" + std::to_string(i) : "");
    if (inputs[i].defined() && is_floating(inputs[i].dtype())) {
      const Shape& shape = inputs[i].shape();
      builder.input(names.back(), inputs[i].dtype(), {shape.begin(), shape.end()});
    } else if (inputs[i].defined()) {
      builder.constant(names.back(), inputs[i]);
    }
  }
  std::vector<std::string> results;
  for (int i = 0; i < outputs; ++i) {
    results.push_back("y" + std::to_string(i));
    builder.output(results.back());
  }
  const std::size_t colons = op.find("::");
  return colons == std::string::npos
             ? builder.node(op, names, results, attributes)
             : builder.node(op.substr(colons + 2), names, results, attributes, op.substr(0, colons));
}

inline std::vector<Tensor> floating(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> result;
  for (const Tensor& input : inputs) {
    if (input.defined() && is_floating(input.dtype())) {
      result.push_back(input);
    }
  }
  return result;
}

/// Its outputs, with the same bits in eager and in a graph.
inline std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& inputs,
                               const Attributes& attributes = {}, int outputs = 1, std::int64_t opset = 25) {
  onnx::ImportedModel model = of_one(op, inputs, attributes, outputs, opset).imported();
  return both(model, floating(inputs));
}

/// The sum of all floating outputs, each element with a weight of its own.
class WeightedSum {
 public:
  WeightedSum(onnx::ImportedModel& model, const std::vector<Tensor>& given) : model_(model) {
    for (const Tensor& output : model.call(given)) {
      weights_.push_back(is_floating(output.dtype())
                             ? Rng(77 + weights_.size()).normal(output.shape(), 0, 1, output.dtype())
                             : Tensor());
    }
  }

  Tensor operator()(const std::vector<Tensor>& inputs) const {
    const std::vector<Tensor> outputs = model_.call(inputs);
    Tensor total = full({}, 0, DType::float64);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (weights_[i].defined()) {
        total = add(total, sum(mul(outputs[i], weights_[i])));
      }
    }
    return total;
  }

 private:
  onnx::ImportedModel& model_;
  std::vector<Tensor> weights_;
};

/// The gradients of that sum by all inputs, with the same bits in eager and in a graph.
inline std::vector<Tensor> gradients(onnx::ImportedModel& model, const std::vector<Tensor>& given) {
  const WeightedSum loss(model, given);
  const auto at = [&](const std::vector<Tensor>& inputs) {
    return vjp([&](const std::vector<Tensor>& x) { return loss(x); }, inputs).second(full({}, 1, DType::float64));
  };
  const std::vector<Tensor> eager = at(given);
  graph::JitFunction compiled(
      [&](std::span<const Tensor> inputs, std::shared_ptr<void>&) {
        return at(std::vector<Tensor>(inputs.begin(), inputs.end()));
      },
      {.name = "gradients"});
  const std::vector<Tensor> graph = compiled.call(given, Location::current()).outputs;
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(eager[i], graph[i])) << "input " << i << ", in a graph";
  }
  return eager;
}

/// The gradients of a model by all its inputs, which are f64, against central differences; in a short run, those of
/// every fifth element.
inline void expect_gradients(const Builder& builder, const std::vector<Tensor>& given) {
  onnx::ImportedModel model = builder.imported();
  const WeightedSum loss(model, given);
  const std::vector<Tensor> found = gradients(model, given);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::vector<double> values = doubles(given[i]);
    const std::vector<double> all = doubles(found[i]);
    std::vector<double> taken;
    std::vector<double> wanted;
    double largest = 0;
    const std::size_t step = is_short_run() ? 5 : 1;
    for (std::size_t k = i % step; k < values.size(); k += step) {
      constexpr double kStep = 1e-6;
      const auto at = [&](double by) {
        std::vector<double> moved = values;
        moved[k] += by;
        std::vector<Tensor> x = given;
        x[i] = Tensor::from(moved, given[i].shape());
        return loss(x).item();
      };
      taken.push_back(all[k]);
      wanted.push_back((at(kStep) - at(-kStep)) / (2 * kStep));
      largest = std::max(largest, std::fabs(wanted.back()));
    }
    ASSERT_EQ(all.size(), values.size());
    EXPECT_THAT(taken, ::testing::Pointwise(IsNear(2e-7 * (1 + largest)), wanted)) << "input " << i;
  }
}

/// The same for a model of one node, over all its outputs.
inline void expect_gradients(const std::string& op, const std::vector<Tensor>& inputs,
                             const Attributes& attributes = {}, int outputs = 1, std::int64_t opset = 25) {
  SCOPED_TRACE(op);
  expect_gradients(of_one(op, inputs, attributes, outputs, opset), floating(inputs));
}

inline Tensor random(std::uint64_t seed, const Shape& shape) { return Rng(seed).normal(shape, 0, 1, DType::float64); }

}  // namespace diptych::testing
