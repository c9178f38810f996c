#include "framework/capture/graph_function.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/capture/region.h"

namespace diptych::graph {
namespace {

std::size_t count_of(const Graph& graph, InputKind kind) {
  return static_cast<std::size_t>(
      std::count_if(graph.inputs.begin(), graph.inputs.end(), [&](const Input& input) { return input.kind == kind; }));
}

void check_count(const Graph& graph, InputKind kind, std::size_t given) {
  if (const std::size_t wanted = count_of(graph, kind); wanted != given) {
    throw Error(fmt::format("the graph has {} inputs of the kind {}; {} are given", wanted, name_of(kind), given));
  }
}

}  // namespace

GraphFunction::GraphFunction(const Graph& graph, Variables states, std::vector<Tensor> captured)
    : body_(graph), results_(graph.outputs.size()), states_(std::move(states)), captured_(std::move(captured)) {
  check_count(graph, InputKind::state, states_.size());
  check_count(graph, InputKind::captured, captured_.size());
  for (const Update& update : body_.updates) {
    body_.outputs.push_back(update.value);
  }
  for (Input& input : body_.inputs) {  // not kept alive by their names
    input.variable = {};
    input.tensor = {};
  }
}

std::vector<Tensor> GraphFunction::operator()(std::span<const Tensor> arguments) const {
  check_count(body_, InputKind::argument, arguments.size());
  std::vector<Tensor> inputs;
  Variables variables;  // by input
  auto argument = arguments.begin();
  auto state = states_.begin();
  auto captured = captured_.begin();
  for (const Input& input : body_.inputs) {
    variables.push_back(input.kind == InputKind::state ? *state : Variable());
    inputs.push_back(input.kind == InputKind::state      ? (state++)->value()
                     : input.kind == InputKind::captured ? *captured++
                                                         : *argument++);
    if (inputs.back().type() != body_.types[input.value]) {
      throw Error(fmt::format("%{} of the graph is {}, not {}", input.value, to_string(body_.types[input.value]),
                              to_string(inputs.back().type())));
    }
  }
  std::vector<Tensor> outputs = evaluate(body_, inputs);
  for (std::size_t i = 0; i < body_.updates.size(); ++i) {
    variables[body_.updates[i].input].assign(outputs[results_ + i]);
  }
  outputs.resize(results_);
  return outputs;
}

}  // namespace diptych::graph
