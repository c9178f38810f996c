#include "framework/transforms/call_gradient.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "framework/autograd/backward.h"
#include "framework/core/context.h"
#include "framework/ops/creation.h"
#include "framework/ops/debug.h"
#include "framework/ops/elementwise.h"

namespace diptych::graph {
namespace {

/// The gradient of a graph call.
class GraphCallRule final : public autograd::CustomRule {
 public:
  explicit GraphCallRule(RecordedCall call) : call_(std::move(call)) {}

  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    std::vector<Tensor> given;
    for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
      if (is_floating(call_.outputs[i].dtype)) {
        given.push_back(cotangents[i].defined()
                            ? cotangents[i]
                            : full(call_.outputs[i].shape, 0.0, call_.outputs[i].dtype, call_.where));
      }
    }
    std::vector<Tensor> arguments = call_.inputs;
    std::vector<Tensor> flat;
    const bool is_cut = call_.split != nullptr && !is_recorded(given);
    if (is_cut) {
      arguments.insert(arguments.end(), call_.saved.begin(), call_.saved.end());
      for (const Tensor& cotangent : given) {
        arguments.push_back(cotangent.is_contiguous() ? cotangent : copy(cotangent, call_.where));
      }
      call_.split->backward->run(arguments, flat);
    } else {
      arguments.insert(arguments.end(), given.begin(), given.end());
      flat = call_.backward->call(arguments, call_.where).outputs;
    }
    std::vector<Tensor> gradients;
    std::size_t next = 0;
    for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
      const bool is_given = is_floating(call_.inputs[i].dtype()) && (!is_cut || call_.split->wanted[i]);
      gradients.push_back(is_given ? flat[next++] : Tensor());
    }
    return gradients;
  }

 private:
  /// Whether this gradient is to have a gradient, or is part of another graph.
  bool is_recorded(std::span<const Tensor> cotangents) const {
    const auto is_watched = [](const Tensor& tensor) { return tensor.requires_grad(); };
    return thread_context.inlines_graphs() ||
           (thread_context.grad_enabled && (std::any_of(call_.inputs.begin(), call_.inputs.end(), is_watched) ||
                                            std::any_of(cotangents.begin(), cotangents.end(), is_watched)));
  }

  RecordedCall call_;
};

/// The state input of this variable.
std::size_t state_of(const Graph& graph, const Variable& variable) {
  const auto found = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const Input& input) {
    return input.kind == InputKind::state && input.variable == variable;
  });
  internal_check(found != graph.inputs.end(), "a state is missing");
  return static_cast<std::size_t>(found - graph.inputs.begin());
}

}  // namespace

std::unique_ptr<autograd::CustomRule> rule_of_call(RecordedCall call) {
  return std::make_unique<GraphCallRule>(std::move(call));
}

std::vector<Tensor> gradients_of(const JitFunction::Function& forward, std::size_t argument_count,
                                 const Variables& variables, std::span<const Tensor> tensors,
                                 const std::vector<bool>& wanted, std::vector<Tensor>* results) {
  const EnableGrad enable;  // captured from within a backward pass, which doesn't record
  const std::uint64_t entry_serial = autograd::next_serial();
  const std::size_t input_count = argument_count + variables.size();
  std::vector<Tensor> watched;
  std::vector<Tensor> targets;
  for (std::size_t i = 0; i < input_count; ++i) {
    const bool is_wanted = is_floating(tensors[i].dtype()) && (wanted.empty() || wanted[i]);
    watched.push_back(is_wanted ? autograd::watch(tensors[i]) : tensors[i]);
    if (is_wanted) {
      targets.push_back(watched.back());
    }
  }
  std::vector<VariableRead> reads;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    reads.push_back({variables[i], watched[argument_count + i]});
  }
  const Rebind rebind(reads);
  const std::vector<Tensor> all = [&] {
    std::shared_ptr<void> ignored;
    std::optional<debug::Unobserved> again;  // the call itself has shown what is computed here for its gradient alone
    if (results == nullptr) {
      again.emplace();
    }
    return forward(std::span(watched).first(argument_count), ignored);
  }();
  std::vector<Tensor> floating;
  std::copy_if(all.begin(), all.end(), std::back_inserter(floating),
               [](const Tensor& result) { return is_floating(result.dtype()); });
  if (results != nullptr) {
    *results = all;
  }
  return autograd::gradients(floating, targets, tensors.subspan(input_count), {true, entry_serial}, Location::current())
      .gradients;
}

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

}  // namespace diptych::graph
