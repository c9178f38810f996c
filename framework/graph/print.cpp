#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"
#include "framework/graph/ir.h"

namespace diptych::graph {
namespace {

template <class T>
std::string print_element(T value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
    return print_element(static_cast<float>(value));
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) {  // its payload matters: equal means bitwise equal
      if constexpr (sizeof(T) == 4) {
        return fmt::format("bits:{:#x}", std::bit_cast<std::uint32_t>(value));
      } else {
        return fmt::format("bits:{:#x}", std::bit_cast<std::uint64_t>(value));
      }
    }
  }
  return fmt::format("{}", value);
}

std::string print_elements(const Tensor& tensor) {
  return visit(tensor.dtype(), [&]<class T>() {
    const std::span<const T> values(tensor.data<T>(), static_cast<std::size_t>(tensor.numel()));
    bool same = values.size() > 1;
    for (const T& value : values) {
      same = same && std::memcmp(&value, &values[0], sizeof(T)) == 0;
    }
    if (same) {
      return fmt::format("splat {}", print_element(values[0]));
    }
    std::string text = "{";
    for (const T& value : values) {
      text += (text.size() == 1 ? "" : ", ") + print_element(value);
    }
    return text + "}";
  });
}

std::string print_provenance(const Provenance& provenance) {
  std::string ids;
  for (std::uint32_t id : provenance.source_ops) {
    ids += fmt::format("{}{}", ids.empty() ? "" : ",", id);
  }
  return fmt::format("@ [{}] {} {} {}", ids, quote(provenance.scope), quote(provenance.where.file),
                     provenance.where.line);
}

}  // namespace

std::string print_node(const Graph& graph, const Node& node) {
  std::string outputs;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    outputs += fmt::format("{}%{}: {}", i == 0 ? "" : ", ", output, to_string(graph.types[output]));
  }
  std::string inputs;
  for (ValueId input : node.inputs) {
    inputs += fmt::format("{}%{}", inputs.empty() ? "" : ", ", input);
  }
  const std::string attributes = node.attributes.print();
  return fmt::format("{} = {}({}){}", outputs, node.op->name, inputs,
                     attributes.empty() ? "" : fmt::format(" {{{}}}", attributes));
}

namespace {

/// A graph with each line indented by `indent`, without a final newline.
std::string print_graph(const Graph& graph, const std::string& indent) {
  std::string text = fmt::format("graph {}(", quote(graph.name));
  for (const Input& input : graph.inputs) {
    text += fmt::format("{}\n{}    %{}: {} {} {}", &input == graph.inputs.data() ? "" : ",", indent, input.value,
                        to_string(graph.types[input.value]), name_of(input.kind), quote(input.name));
  }
  text += ") {\n";
  for (const auto& [value, tensor] : graph.constants) {
    text +=
        fmt::format("{}  const %{}: {} = {}\n", indent, value, to_string(graph.types[value]), print_elements(tensor));
  }
  for (const Node& node : graph.nodes) {
    text += fmt::format("{}  {}", indent, print_node(graph, node));
    for (std::size_t i = 0; i < node.regions.size(); ++i) {
      text += fmt::format("{}\n{}    {}", i == 0 ? " [" : ",", indent, print_graph(*node.regions[i], indent + "    "));
    }
    text += fmt::format("{}  {}\n", node.regions.empty() ? "" : fmt::format("\n{}  ]", indent),
                        print_provenance(node.provenance));
  }
  for (const Update& update : graph.updates) {
    text += fmt::format("{}  update %{} <- %{}\n", indent, graph.inputs[update.input].value, update.value);
  }
  text += indent + "  return";
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    text += fmt::format("{}%{}", i == 0 ? " " : ", ", graph.outputs[i]);
  }
  return text + "\n" + indent + "}";
}

}  // namespace

std::string print(const Graph& graph) { return print_graph(graph, "") + "\n"; }

}  // namespace diptych::graph
