#include "framework/transforms/cut_call.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "framework/graph/rewriter.h"
#include "framework/kernels/gemm.h"
#include "framework/transforms/split_gradient.h"

namespace diptych::graph {
namespace {

/// Whether the graph computes something of its first `count` arguments, and of these captured tensors, or returns it.
std::vector<bool> reads_of(const Graph& graph, std::size_t count, std::span<const Tensor> captured) {
  const Users users(graph);
  std::vector<bool> reads(count + captured.size(), false);
  std::size_t argument = 0;
  for (const Input& input : graph.inputs) {
    const bool is_read = users.count(input.value) > 0 || users.is_result(input.value);
    if (input.kind == InputKind::argument && argument < count) {
      reads[argument++] = is_read;
    }
    for (std::size_t i = 0; i < captured.size() && input.kind == InputKind::captured; ++i) {
      reads[count + i] = reads[count + i] || (is_read && captured[i].body() == input.tensor.body());
    }
  }
  return reads;
}

/// The state input of this variable.
std::size_t state_of(const Graph& graph, const Variable& variable) {
  const auto found = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const Input& input) {
    return input.kind == InputKind::state && input.variable == variable;
  });
  internal_check(found != graph.inputs.end(), "a state is missing");
  return static_cast<std::size_t>(found - graph.inputs.begin());
}

/// Lets the calls of `graph` update the states as `captured` does: the nodes that the updates need are added, of which
/// CSE drops those that are there already. The inputs of both are the arguments, then the states. False, and nothing
/// changes, if one of these nodes has an effect, which would happen twice.
bool add_updates(const Graph& captured, Graph& graph) {
  std::set<ValueId> needed;
  for (const Update& update : captured.updates) {
    needed.insert(update.value);
  }
  std::vector<const Node*> nodes;  // from the last to the first
  for (auto node = captured.nodes.rbegin(); node != captured.nodes.rend(); ++node) {
    if (std::any_of(node->outputs.begin(), node->outputs.end(),
                    [&](ValueId output) { return needed.contains(output); })) {
      if (has_effect(*node)) {
        return false;
      }
      nodes.push_back(&*node);
      needed.insert(node->inputs.begin(), node->inputs.end());
    }
  }
  std::map<ValueId, ValueId> inside;
  std::vector<ValueId> arguments;
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::argument) {
      arguments.push_back(input.value);
    }
  }
  std::size_t argument = 0;
  for (const Input& input : captured.inputs) {
    if (input.kind == InputKind::argument) {
      inside[input.value] = arguments[argument++];
    } else if (input.kind == InputKind::state) {
      inside[input.value] = graph.inputs[state_of(graph, input.variable)].value;
    } else {
      const auto known = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const Input& other) {
        return other.kind == InputKind::captured && other.tensor.body() == input.tensor.body();
      });
      if (known != graph.inputs.end()) {
        inside[input.value] = known->value;
        continue;
      }
      inside[input.value] = graph.new_value(captured.types[input.value]);
      graph.inputs.push_back(input);
      graph.inputs.back().value = inside[input.value];
    }
  }
  for (const auto& [value, tensor] : captured.constants) {
    inside[value] = graph.new_value(captured.types[value]);
    graph.constants.emplace_back(inside[value], tensor);
  }
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    Node node = **at;
    for (ValueId& input : node.inputs) {
      input = inside.at(input);
    }
    for (ValueId& output : node.outputs) {
      inside[output] = graph.new_value(captured.types[output]);
      output = inside[output];
    }
    graph.nodes.push_back(std::move(node));
  }
  for (const Update& update : captured.updates) {
    const std::size_t state = state_of(graph, captured.inputs[update.input].variable);
    graph.updates.push_back({static_cast<std::uint32_t>(state), inside.at(update.value)});
  }
  return true;
}

/// Captures the function and, for each of the sets, its gradients by what `line` wants as one graph. `call` gets what
/// is known of its backward graphs. Its cotangents are those of all results that are in some set.
Graph joint_of(const CallToCut& of, std::span<const ResultSet> sets, Guards& guards, SplitCall& call,
               GradientCompilation& line, Location where) {
  Capture capture(of.options.name);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < of.arguments.size(); ++i) {
    inputs.push_back(capture.argument(of.arguments[i], fmt::format("argument{}", i), &of.strides[i]));
  }
  for (const Variable& state : of.states) {
    inputs.push_back(capture.argument(state.type(), state.name()));
  }
  std::vector<Cotangents> cotangents;
  for (const ResultSet& set : sets) {
    cotangents.push_back({set, {}});
  }
  std::size_t number = inputs.size();
  for (std::size_t i = 0; i < of.results.size(); ++i) {
    Tensor cotangent;
    for (Cotangents& known : cotangents) {
      if (known.given[i]) {
        cotangent =
            cotangent.defined() ? cotangent : capture.argument(of.results[i], fmt::format("cotangent{}", number++));
        known.tensors.push_back(cotangent);
      }
    }
  }
  const CaptureScope scope(capture);
  const Guards::Recorder recorder(guards);
  std::vector<Tensor> results;
  const auto gradients =
      gradients_of(of.function, of.arguments.size(), of.states, inputs, line.wanted, cotangents, &results);
  call = SplitCall();
  call.results = of.results.size();
  line.backwards.clear();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    SplitCall::Backward& backward = call.backwards.emplace_back();
    backward.given = sets[i];
    for (const Tensor& gradient : gradients[i]) {
      backward.wanted.push_back(gradient.defined());
      if (gradient.defined()) {
        results.push_back(gradient);
      }
    }
    line.backwards.push_back({.given = sets[i], .passes = {}});
  }
  return capture.finish(results, where);
}

/// A state that isn't among the arguments is read by a gradient rule, when the gradient is computed and not before.
bool reads_state(const Graph& joint) {
  const Users users(joint);
  return std::any_of(joint.inputs.begin(), joint.inputs.end(), [&](const Input& input) {
    return input.kind == InputKind::state && (users.count(input.value) > 0 || users.is_result(input.value));
  });
}

/// Lets the forward graph give each value once, and `call` know which of them are saved: results, or those behind them.
void give_once(Graph& forward, SplitCall& call) {
  const std::vector<ValueId> values = std::move(forward.outputs);
  forward.outputs.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(call.results));
  for (std::size_t i = call.results; i < values.size(); ++i) {
    const auto at = std::find(forward.outputs.begin(), forward.outputs.end(), values[i]);
    call.saved.push_back(static_cast<std::size_t>(at - forward.outputs.begin()));
    if (at == forward.outputs.end()) {
      forward.outputs.push_back(values[i]);
    }
  }
}

/// Of the results that are in some set, those that are in this one: by cotangent of the joint graph.
std::vector<bool> given_of(const SplitCall& call, const ResultSet& set) {
  std::vector<bool> given;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (std::any_of(call.backwards.begin(), call.backwards.end(),
                    [&](const SplitCall::Backward& backward) { return bool(backward.given[i]); })) {
      given.push_back(set[i]);
    }
  }
  return given;
}

/// The backward graph of each set. Of the arguments of `all`, the cotangents are those from `cotangents` on.
std::vector<Graph> backward_graphs(Graph all, std::size_t cotangents, const SplitCall& call) {
  std::vector<Graph> graphs;
  if (call.backwards.size() == 1) {
    graphs.push_back(std::move(all));
    return graphs;
  }
  std::size_t first = 0;
  for (const SplitCall::Backward& backward : call.backwards) {
    const auto count = static_cast<std::size_t>(std::count(backward.wanted.begin(), backward.wanted.end(), true));
    graphs.push_back(part_of_backward(all, first, count, cotangents, given_of(call, backward.given)));
    first += count;
  }
  return graphs;
}

/// Compiles the backward graph of each set.
void compile_backwards(const CallToCut& of, std::vector<Graph> graphs, std::size_t cotangents,
                       const passes::PipelineOptions& pipeline, SplitCall& call, GradientCompilation& line) {
  for (std::size_t i = 0; i < call.backwards.size(); ++i) {
    SplitCall::Backward& backward = call.backwards[i];
    Graph& graph = graphs[i];
    line.backwards[i].passes = passes::run_pipeline(graph, pipeline);
    line.backwards[i].nodes = count_nodes(graph);
    backward.reads = reads_of(graph, cotangents, call.captured);
    std::vector<Strides> strides(of.strides.begin(), of.strides.end());
    for (std::size_t k = strides.size(); k < graph.inputs.size(); ++k) {
      if (const Input& input = graph.inputs[k]; input.kind == InputKind::argument) {
        strides.push_back(contiguous_strides(graph.types[input.value].shape));
      }
    }
    backward.executable = make_executable(graph, strides, pipeline);
  }
}

}  // namespace

std::size_t count_effects(const Graph& graph) {
  return static_cast<std::size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), has_effect));
}

std::vector<Tensor> captured_of(const Graph& graph) {
  std::vector<Tensor> captured;
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::captured && std::none_of(captured.begin(), captured.end(), [&](const Tensor& known) {
          return known.body() == input.tensor.body();
        })) {
      captured.push_back(input.tensor);
    }
  }
  return captured;
}

std::unique_ptr<runtime::Executable> make_executable(const Graph& graph, std::span<const Strides> strides,
                                                     const passes::PipelineOptions& pipeline) {
  const auto enabled = [&](const char* step) { return !pipeline.disabled.contains(step); };
  return std::make_unique<runtime::Executable>(
      graph, strides,
      runtime::ExecutableOptions{enabled(passes::kMemoryPlan), enabled(passes::kInPlace), enabled(passes::kPacking),
                                 enabled(passes::kSideBySide)});
}

std::shared_ptr<SplitCall> cut_call(const CallToCut& of, const GradientSets::Expected& expected, Guards& guards,
                                    GradientCompilation& line, Location where) {
  if (kernels::active_gemm() == kernels::Gemm::openblas) {
    line.uncut = "OpenBLAS's bits follow strides, which a cut makes dense";
    return nullptr;
  }
  auto call = std::make_shared<SplitCall>();
  Graph joint = joint_of(of, expected.sets, guards, *call, line, where);
  if (expected.sets.size() > 1 && count_effects(joint) > of.effects) {  // each belongs to one gradient
    if (!expected.is_guess) {
      line.uncut = "gradients of several sets of results have effects";
      return nullptr;
    }
    joint = joint_of(of, std::span(expected.sets).first(1), guards, *call, line, where);
  }
  passes::PipelineOptions before = of.options.pipeline;
  before.observe = nullptr;
  before.disabled.insert(passes::kFusingPasses.begin(), passes::kFusingPasses.end());
  line.joint = passes::run_pipeline(joint, before);
  if (reads_state(joint)) {
    line.uncut = "a gradient rule reads a state when the gradient is computed";
    return nullptr;
  }
  if (!joint.updates.empty()) {
    line.uncut = "a gradient rule updates a state";
    return nullptr;
  }
  const std::size_t input_count = of.arguments.size() + of.states.size();
  SplitGradient split = split_gradient(joint, input_count, call->results);
  for (std::size_t i = 0; i < of.states.size(); ++i) {
    Input& input = split.forward.inputs[of.arguments.size() + i];
    input.kind = InputKind::state;
    input.variable = of.states[i];
  }
  if (!of.with_updates.updates.empty() && !add_updates(of.with_updates, split.forward)) {
    line.uncut = "a state that it updates needs an effect, which would happen twice";
    return nullptr;
  }
  const std::size_t cotangents = input_count + split.forward.outputs.size() - call->results;
  give_once(split.forward, *call);
  call->captured = captured_of(joint);
  passes::PipelineOptions after = of.options.pipeline;
  after.observe = nullptr;
  after.vetoed.clear();
  line.forward = passes::run_pipeline(split.forward, after);
  line.forward_nodes = count_nodes(split.forward);
  line.saved_bytes = split.saved_bytes;
  call->forward = make_executable(split.forward, of.strides, after);
  compile_backwards(of, backward_graphs(std::move(split.backward), cotangents, *call), cotangents, after, *call, line);
  return call;
}

}  // namespace diptych::graph
