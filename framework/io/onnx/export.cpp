// From a graph to a model: names, initializers and nodes. What each op becomes is in the files of the families.

#include "framework/io/onnx/export.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/dispatch/apply.h"
#include "framework/io/onnx/exporter.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych::onnx {
namespace {

ValueInfo info(const std::string& name, const TensorType& type) {
  ValueInfo result{name, type.dtype, "", true, {}};
  for (const std::int64_t length : type.shape) {
    result.shape.emplace_back(length);
  }
  return result;
}

const Emitters& emitters() {
  static const Emitters all = [] {
    Emitters result;
    add_elementwise(result);
    add_axiswise(result);
    return result;
  }();
  return all;
}

}  // namespace

Exporter::Exporter(const graph::Graph& graph) : graph_(graph) {
  for (const graph::Node& node : graph.nodes) {
    opset_ = node.op == &op::gelu || node.op == &op::gelu_tanh ? kExportedOpsetWithGelu : opset_;
  }
}

Model Exporter::run() {
  if (!graph_.updates.empty()) {
    throw Unsupported("the program updates its state: export the model's forward pass alone");
  }
  result_.name = graph_.name;
  for (const graph::Input& input : graph_.inputs) {
    const std::string name = fresh(input.name.empty() ? "value" : input.name);
    names_[input.value] = name;
    if (input.kind == graph::InputKind::argument) {
      result_.inputs.push_back(info(name, graph_.types[input.value]));
    } else {
      const Tensor tensor = input.kind == graph::InputKind::state ? input.variable.value() : input.tensor;
      result_.initializers[name].tensor = contiguous(tensor);
    }
  }
  for (const auto& [value, tensor] : graph_.constants) {
    names_[value] = constant(tensor);
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    source_ = i;
    emit_node(graph_.nodes[i]);
  }
  source_.reset();
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    // An output may be an input, or stand twice: ONNX wants a name of its own for each.
    const std::string name = fresh(fmt::format("output_{}", i));
    emit("Identity", {names_.at(graph_.outputs[i])}, name);
    result_.outputs.push_back(info(name, graph_.types[graph_.outputs[i]]));
  }
  Model model;
  model.ir_version = opset_ == kExportedOpset ? 8 : 9;  // the first ones that may have these opsets
  model.producer = "diptych";
  model.opsets[""] = opset_;
  model.graph = std::make_shared<Graph>(std::move(result_));
  return model;
}

std::string Exporter::fresh(const std::string& stem) {
  std::string name = stem;
  for (int i = 1; !taken_.insert(name).second; ++i) {
    name = fmt::format("{}_{}", stem, i);
  }
  return name;
}

std::string Exporter::constant(const Tensor& tensor) {
  const std::string name = fresh("constant");
  result_.initializers[name].tensor = contiguous(tensor);
  return name;
}
std::string Exporter::integers(const std::vector<std::int64_t>& values) {
  return constant(Tensor::from(values, {static_cast<std::int64_t>(values.size())}));
}
std::string Exporter::number(double value, DType dtype) { return constant(full({}, value, dtype)); }

void Exporter::emit(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                    std::map<std::string, AttributeValue> attributes) {
  Node node;
  node.name = fmt::format("{}_{}", op, result_.nodes.size());
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  node.attributes = std::move(attributes);
  if (source_) {
    sources_[node.name] = *source_;
  }
  result_.nodes.push_back(std::move(node));
}
std::string Exporter::emit(const std::string& op, std::vector<std::string> inputs,
                           std::map<std::string, AttributeValue> attributes) {
  const std::string output = fresh("value");
  emit(op, std::move(inputs), output, std::move(attributes));
  return output;
}

void Exporter::refuse(const graph::Node& node, const std::string& why) {
  throw Unsupported(fmt::format("{} ({}) {}", node.op->name, to_string(node.provenance.where), why));
}

void Exporter::emit_node(const graph::Node& node) {
  const TensorType& type = graph_.types[node.output()];
  if (node.inputs.empty() && !node.is_control() && !node.op->effect) {
    names_[node.output()] = constant(apply_eager(*node.op, {}, node.attributes.get(), node.provenance.where));
    return;
  }
  const auto found = emitters().find(node.op);
  if (node.is_control() || found == emitters().end()) {
    refuse(node, "has no ONNX form here");
  }
  Call call{*this, node, {}, {}, type, fresh("value")};
  for (const graph::ValueId input : node.inputs) {
    call.inputs.push_back(names_.at(input));
    call.types.push_back(graph_.types[input]);
  }
  names_[node.output()] = call.result;
  found->second(call);
}

Model export_graph(const graph::Graph& graph) { return Exporter(graph).run(); }

Model export_graph(const graph::Graph& graph, std::map<std::string, std::size_t>& sources) {
  Exporter exporter(graph);
  Model model = exporter.run();
  sources = exporter.sources();
  return model;
}

}  // namespace diptych::onnx
