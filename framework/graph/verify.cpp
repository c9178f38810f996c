#include <algorithm>

#include <fmt/format.h>

#include "framework/dispatch/op.h"
#include "framework/graph/control_ops.h"
#include "framework/graph/fused_op.h"

namespace diptych::graph {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.types.size(), false) {}

  void run() {
    for (const Input& input : graph_.inputs) {
      define(input.value, "input");
      require(!input.variable.defined() || input.variable.type() == graph_.types[input.value],
              "a state input has its variable's type", input.value);
      require(!input.tensor.defined() || input.tensor.type() == graph_.types[input.value],
              "a captured input has its tensor's type", input.value);
    }
    for (const auto& [value, tensor] : graph_.constants) {
      define(value, "constant");
      require(tensor.type() == graph_.types[value] && tensor.is_contiguous(), "a constant is dense and of its type",
              value);
    }
    for (const Node& node : graph_.nodes) {
      check(node);
    }
    for (ValueId output : graph_.outputs) {
      use(output, "return");
    }
    std::vector<bool> updated(graph_.inputs.size(), false);
    for (const Update& update : graph_.updates) {
      use(update.value, "update");
      require(update.input < graph_.inputs.size() && graph_.inputs[update.input].kind == InputKind::state,
              "an update is of a state input", update.value);
      require(!updated[update.input], "a state input is updated once", update.value);
      updated[update.input] = true;
      require(graph_.types[update.value] == graph_.types[graph_.inputs[update.input].value],
              "an update has the state's type", update.value);
    }
  }

 private:
  void require(bool condition, std::string_view what, ValueId value) const {
    if (!condition) {
      throw Malformation{fmt::format("graph {} is malformed: {} (%{})", quote(graph_.name), what, value), value};
    }
  }
  void define(ValueId value, std::string_view what) {
    require(value < defined_.size(), fmt::format("a {} has a type", what), value);
    require(!defined_[value], "a value is defined once", value);
    defined_[value] = true;
  }
  void use(ValueId value, std::string_view what) const {
    require(value < defined_.size() && defined_[value], fmt::format("a value is defined before {} uses it", what),
            value);
  }
  void check(const Node& node) {
    if (find_control_op(node.op->name) == node.op || node.op == &fused_op()) {
      check_regions(node);
      return;
    }
    require(node.regions.empty() && node.outputs.size() == 1,
            fmt::format("{} has one output and no regions", node.op->name), node.output());
    require(node.op->takes(node.inputs.size()), fmt::format("{} has {} inputs", node.op->name, node.op->arity()),
            node.output());
    for (ValueId input : node.inputs) {
      use(input, node.op->name);
    }
    define(node.output(), node.op->name);
    require(node.attributes.type() == node.op->attributes, "a node has its op's attributes", node.output());
    const auto types = graph_.input_types(node);
    TensorType inferred;
    try {
      node.op->infer_type({*node.op, types, node.attributes.get(), node.provenance.where}, inferred);
    } catch (const Error& error) {
      require(false, error.what(), node.output());
    }
    require(inferred == graph_.types[node.output()],
            fmt::format("{} has type {}, inferred {}", node.op->name, to_string(graph_.types[node.output()]),
                        to_string(inferred)),
            node.output());
  }

  void check_regions(const Node& node) {
    for (ValueId input : node.inputs) {
      use(input, node.op->name);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      define(node.outputs[i], node.op->name);
    }
    require(node.attributes.type() == node.op->attributes, "a node has its op's attributes", node.output());
    for (const auto& region : node.regions) {
      const bool pure =
          region->updates.empty() && std::all_of(region->inputs.begin(), region->inputs.end(),
                                                 [](const Input& input) { return input.kind == InputKind::argument; });
      require(pure, fmt::format("a region of {} takes arguments only and updates nothing", node.op->name),
              node.output());
      if (const auto problem = find_malformation(*region)) {
        require(false, fmt::format("in a region of {}: {}", node.op->name, problem->what), node.output());
      }
    }
    std::vector<TensorType> types;
    try {
      const auto inputs = graph_.input_types(node);
      types = node.is_control() ? control_output_types(node, inputs) : fused_output_types(node, inputs);
    } catch (const Error& error) {
      require(false, error.what(), node.output());
    }
    require(types.size() == node.outputs.size(), fmt::format("{} has {} outputs", node.op->name, types.size()),
            node.output());
    for (std::size_t i = 0; i < types.size(); ++i) {
      require(types[i] == graph_.types[node.outputs[i]],
              fmt::format("output {} of {} has type {}, inferred {}", i, node.op->name,
                          to_string(graph_.types[node.outputs[i]]), to_string(types[i])),
              node.output());
    }
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

std::optional<Malformation> find_malformation(const Graph& graph) {
  try {
    Verifier(graph).run();
  } catch (const Malformation& problem) {
    return problem;
  }
  return std::nullopt;
}

void verify(const Graph& graph) {
  if (const auto problem = find_malformation(graph)) {
    throw InternalError(problem->what);
  }
}

}  // namespace diptych::graph
