#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/builder.h"

/// What the tests of imported models share: calls in both modes, refusals, and small models.
namespace diptych::testing {

inline std::vector<double> doubles(const Tensor& tensor) { return tensor.to_vector<double>(); }
MATCHER_P(IsNear, tolerance, "") {  // infinities are near themselves
  return std::get<0>(arg) == std::get<1>(arg) || std::fabs(std::get<0>(arg) - std::get<1>(arg)) <= tolerance;
}

/// The outputs of a model, called as it is and as a graph: with the same bits, twice each.
inline std::vector<Tensor> both(onnx::ImportedModel& model, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> eager = model.call(inputs);
  graph::JitFunction compiled(
      [&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return model.call(arguments); },
      {.name = "model"});
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> again = model.call(inputs);
    const std::vector<Tensor> graph = compiled.call(inputs, Location::current()).outputs;
    EXPECT_EQ(graph.size(), eager.size());
    for (std::size_t k = 0; k < eager.size(); ++k) {
      EXPECT_TRUE(bitwise_equal(eager[k], again[k])) << "output " << k << ", call " << i;
      EXPECT_TRUE(bitwise_equal(eager[k], graph[k])) << "output " << k << ", graph, call " << i;
    }
  }
  return eager;
}

/// What a model is as a graph, as captured or after the passes.
inline graph::Graph graph_of(onnx::ImportedModel& model, const std::vector<Tensor>& inputs, bool optimised = false) {
  const NoGrad guard;
  graph::JitOptions options{.name = "model"};
  if (!optimised) {
    options.pipeline = passes::PipelineOptions::none();
  }
  graph::JitFunction compiled(
      [&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return model.call(arguments); }, options);
  compiled.call(inputs, Location::current());
  return *compiled.graph();
}

template <class Fn>
std::string refusal(const Fn& fn) {
  try {
    fn();
  } catch (const onnx::Unsupported& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}
template <class Fn>
std::string error_of(const Fn& fn) {
  try {
    fn();
  } catch (const onnx::Unsupported& error) {
    ADD_FAILURE() << "refused as unsupported: " << error.what();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline Builder classifier(Rng& rng) {
  return Builder()
      .input("x", DType::float32, {"batch", 6})
      .constant("w1", rng.normal({5, 6}))
      .constant("b1", rng.normal({5}))
      .constant("w2", rng.normal({5, 3}))
      .constant("b2", rng.normal({3}))
      .node("Gemm", {"x", "w1", "b1"}, {"h"}, {{"transB", onnx::AttributeValue(std::int64_t{1})}})
      .node("Relu", {"h"}, {"r"})
      .node("Gemm", {"r", "w2", "b2"}, {"y"})
      .output("y");
}

/// iteration, condition, v -> condition, v + x [, v]
inline Builder doubling(bool collects) {
  Builder body;
  body.input("i", DType::int64, {}).input("go", DType::boolean, {}).input("v", DType::float32, {2});
  body.node("Identity", {"go"}, {"still"}).node("Add", {"v", "x"}, {"next"});
  body.output("still").output("next");
  if (collects) {
    body.node("Identity", {"v"}, {"row"}).output("row");
  }
  return body;
}

/// The text for a model of one node that can't run.
inline std::string refused_node(const std::string& op, std::map<std::string, onnx::AttributeValue> attributes = {},
                                std::int64_t opset = 17, const std::string& domain = "") {
  const Builder builder = Builder(opset)
                              .input("x", DType::float32, {2, 2})
                              .node(op, {"x"}, {"y"}, std::move(attributes), domain)
                              .output("y");
  return refusal([&] { builder.imported(); });
}

}  // namespace diptych::testing
