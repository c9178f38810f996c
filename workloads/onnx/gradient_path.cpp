#include "workloads/onnx/gradient_path.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "framework/core/attributes.h"

namespace diptych::workloads {
namespace {

using onnx::Node;

/// Whether its results are integers, truth values or random, whatever it reads.
bool ends_gradients(const Node& node) {
  static const std::set<std::string_view> kEnds{"ArgMax",
                                                "ArgMin",
                                                "Bernoulli",
                                                "BitCast",
                                                "ConvInteger",
                                                "Equal",
                                                "Greater",
                                                "GreaterOrEqual",
                                                "IsInf",
                                                "IsNaN",
                                                "Less",
                                                "LessOrEqual",
                                                "MatMulInteger",
                                                "Multinomial",
                                                "NonMaxSuppression",
                                                "NonZero",
                                                "OptionalHasElement",
                                                "QLinearConv",
                                                "QLinearMatMul",
                                                "QuantizeLinear",
                                                "RandomNormalLike",
                                                "RandomUniformLike",
                                                "Shape",
                                                "Size"};
  if (node.op != "Cast" || !node.domain.empty()) {
    return node.domain.empty() && kEnds.contains(node.op);
  }
  const auto to = node.attributes.find("to");
  const auto* code = to != node.attributes.end() ? std::get_if<std::int64_t>(&to->second) : nullptr;
  const auto dtype = code != nullptr ? onnx::dtype_of_code(*code) : std::nullopt;
  return dtype && !is_floating(*dtype);
}

/// Its graphs may read any value.
bool has_body(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& attribute) {
    return std::holds_alternative<std::shared_ptr<const onnx::Graph>>(attribute.second);
  });
}

}  // namespace

std::string end_of_gradient(const onnx::Graph& graph, const std::string& value) {
  std::set<std::string> differentiable{value};
  std::set<std::string> cut;
  std::string end;
  const auto reads = [](const Node& node, const std::set<std::string>& values) {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](const std::string& input) { return values.contains(input); });
  };
  for (const Node& node : graph.nodes) {
    const bool is_reached = has_body(node) || reads(node, differentiable);
    if (is_reached && !ends_gradients(node)) {
      differentiable.insert(node.outputs.begin(), node.outputs.end());
    } else if (is_reached || reads(node, cut)) {
      cut.insert(node.outputs.begin(), node.outputs.end());
      end = end.empty() ? fmt::format("node {} ({})", quote(node.name), node.op) : end;
    }
  }
  const auto any_output_in = [&](const std::set<std::string>& values) {
    return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                       [&](const onnx::ValueInfo& output) { return values.contains(output.name); });
  };
  return !any_output_in(differentiable) && any_output_in(cut) ? end : "";
}

GradientSources::GradientSources(const onnx::Graph& graph) {
  for (const onnx::ValueInfo& output : graph.outputs) {
    values_.insert(output.name);
  }
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool counts =
        !ends_gradients(*node) && std::any_of(node->outputs.begin(), node->outputs.end(),
                                              [&](const std::string& output) { return values_.contains(output); });
    if (counts) {
      values_.insert(node->inputs.begin(), node->inputs.end());
      any_ = any_ || has_body(*node);
    }
  }
}

}  // namespace diptych::workloads
