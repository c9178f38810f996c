#include "framework/runtime/check_stages.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"
#include "framework/runtime/executable.h"

namespace diptych::runtime {
namespace {

using graph::Graph;
using graph::InputKind;
using graph::ValueId;

/// The graph as a function of its arguments alone: states are read, as captured tensors are, and never written. What
/// they become is behind the outputs, for each of them: a pass may find that one stays what it is, and drop its update.
Graph without_effects(const Graph& graph) {
  Graph copy = graph;
  for (std::uint32_t i = 0; i < copy.inputs.size(); ++i) {
    graph::Input& input = copy.inputs[i];
    if (input.kind != InputKind::state) {
      continue;
    }
    input.tensor = input.variable.value();
    input.kind = InputKind::captured;
    input.variable = {};
    const auto update = std::find_if(copy.updates.begin(), copy.updates.end(),
                                     [&](const graph::Update& candidate) { return candidate.input == i; });
    copy.outputs.push_back(update != copy.updates.end() ? update->value : input.value);
  }
  copy.updates.clear();
  return copy;
}

std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> arguments) {
  const EagerScope eager;
  const NoGrad no_tape;
  std::vector<Strides> strides;
  for (const Tensor& argument : arguments) {
    strides.push_back(argument.strides());
  }
  std::vector<Tensor> outputs;
  Executable(graph, strides, {}).run(arguments, outputs);
  return outputs;
}

/// "1.5 (0x1.8p+0)": what can be read, and every bit.
std::string element_text(const Tensor& tensor, std::int64_t element) {
  const double value = slice(flatten(tensor), 0, element, element + 1).item();
  return is_floating(tensor.dtype()) ? fmt::format("{} ({:a})", value, value) : fmt::format("{}", value);
}

}  // namespace

Evaluation evaluate_stage(const Graph& graph, std::span<const Tensor> arguments) {
  const Graph as_it_stands = without_effects(graph);
  Graph all_values = as_it_stands;
  all_values.outputs.clear();
  Evaluation evaluation;
  for (const graph::Node& node : graph.nodes) {
    for (const ValueId output : node.outputs) {
      all_values.outputs.push_back(output);
      evaluation.values.push_back({output, node.op->name, {}});
    }
  }
  std::vector<Tensor> values = run(all_values, arguments);
  for (std::size_t i = 0; i < values.size(); ++i) {
    evaluation.values[i].tensor = std::move(values[i]);
  }
  const std::vector<Tensor> results = run(as_it_stands, arguments);
  for (std::size_t i = 0; i < results.size(); ++i) {
    evaluation.results.push_back({as_it_stands.outputs[i],
                                  i < graph.outputs.size() ? fmt::format("(output {})", i) : "(a new state)",
                                  results[i]});
  }
  return evaluation;
}

std::string to_string(const Difference& difference) {
  return fmt::format("%{} {}, {}: element {} is {}, not {}", difference.value, difference.op,
                     to_string(difference.type), difference.element, difference.actual, difference.expected);
}

std::optional<Difference> first_difference(const Tensor& expected, const Tensor& actual) {
  Difference difference;
  difference.type = actual.type();
  if (expected.type() != actual.type()) {
    difference.expected = to_string(expected.type());
    difference.actual = to_string(actual.type());
    return difference;
  }
  if (bitwise_equal(expected, actual)) {
    return std::nullopt;
  }
  const Tensor a = contiguous(expected);
  const Tensor b = contiguous(actual);
  const std::size_t size = size_of(a.dtype());
  const auto* at_a = static_cast<const std::byte*>(a.body()->data);
  const auto* at_b = static_cast<const std::byte*>(b.body()->data);
  for (; std::memcmp(at_a, at_b, size) == 0; at_a += size, at_b += size) {
    ++difference.element;
  }
  difference.expected = element_text(a, difference.element);
  difference.actual = element_text(b, difference.element);
  return difference;
}

std::optional<Difference> first_difference(const Evaluation& earlier, const Evaluation& later) {
  const auto compare = [](const Tensor& expected, const Evaluation::Value& actual) {
    std::optional<Difference> difference = first_difference(expected, actual.tensor);
    if (difference) {
      difference->value = actual.value;
      difference->op = actual.op;
    }
    return difference;
  };
  std::map<ValueId, Tensor> known;
  for (const Evaluation::Value& value : earlier.values) {
    known[value.value] = value.tensor;
  }
  for (const Evaluation::Value& value : later.values) {
    const auto found = known.find(value.value);
    if (found == known.end()) {
      continue;
    }
    if (std::optional<Difference> difference = compare(found->second, value)) {
      return difference;
    }
  }
  // What took another's place has another number: the results stay in theirs.
  for (std::size_t i = 0; i < earlier.results.size(); ++i) {
    if (std::optional<Difference> difference = compare(earlier.results[i].tensor, later.results[i])) {
      return difference;
    }
  }
  return std::nullopt;
}

std::vector<std::optional<Difference>> differences_of(std::span<const Graph> stages,
                                                      std::span<const Tensor> arguments) {
  std::vector<std::optional<Difference>> differences(stages.size());
  std::optional<Evaluation> before;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    Evaluation after = evaluate_stage(stages[i], arguments);
    if (before) {
      differences[i] = first_difference(*before, after);
    }
    before = std::move(after);
  }
  return differences;
}

}  // namespace diptych::runtime
