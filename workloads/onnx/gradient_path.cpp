#include "workloads/onnx/gradient_path.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "framework/core/attributes.h"

namespace diptych::workloads {
namespace {

using onnx::Node;

/// Whether its results are integers or truth values, whatever it reads.
bool ends_gradients(const Node& node) {
  static const std::set<std::string_view> kEnds{
      "ArgMax",  "ArgMin",      "ConvInteger",   "Equal",          "Greater",       "GreaterOrEqual",
      "IsInf",   "IsNaN",       "Less",          "LessOrEqual",    "MatMulInteger", "NonMaxSuppression",
      "NonZero", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Shape",         "Size"};
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

/// What a value reaches.
struct Reach {
  std::set<std::string> differentiable;
  std::set<std::string> cut;  ///< behind a node that ends gradients
  std::string end;            ///< the first such node

  static bool meets(const std::set<std::string>& values, const onnx::Graph& graph) {
    return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                       [&](const onnx::ValueInfo& output) { return values.contains(output.name); });
  }
};

Reach reach_of(const onnx::Graph& graph, const std::string& value) {
  Reach reach{{value}, {}, ""};
  const auto reads = [](const Node& node, const std::set<std::string>& values) {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](const std::string& input) { return values.contains(input); });
  };
  for (const Node& node : graph.nodes) {
    const bool is_reached = has_body(node) || reads(node, reach.differentiable);
    if (is_reached && !ends_gradients(node)) {
      reach.differentiable.insert(node.outputs.begin(), node.outputs.end());
    } else if (is_reached || reads(node, reach.cut)) {
      reach.cut.insert(node.outputs.begin(), node.outputs.end());
      reach.end = reach.end.empty() ? fmt::format("node {} ({})", quote(node.name), node.op) : reach.end;
    }
  }
  return reach;
}

}  // namespace

std::string end_of_gradient(const onnx::Graph& graph, const std::string& value) {
  const Reach reach = reach_of(graph, value);
  return !Reach::meets(reach.differentiable, graph) && Reach::meets(reach.cut, graph) ? reach.end : "";
}

bool has_gradient(const onnx::Graph& graph, const std::string& value) {
  return Reach::meets(reach_of(graph, value).differentiable, graph);
}

}  // namespace diptych::workloads
