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

/// Those of `flat` where `wanted` holds, and undefined tensors between them.
std::vector<Tensor> by_input(const std::vector<bool>& wanted, std::span<const Tensor> flat) {
  std::vector<Tensor> gradients(wanted.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) {
      gradients[i] = flat[next++];
    }
  }
  return gradients;
}

/// The gradient of a graph call.
class GraphCallRule final : public autograd::CustomRule {
 public:
  explicit GraphCallRule(RecordedCall call) : call_(std::move(call)) {}

  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    std::vector<bool> given(call_.outputs.size(), false);
    std::vector<Tensor> of_given;
    for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
      given[i] = is_floating(call_.outputs[i].dtype) && cotangents[i].defined();
      if (given[i]) {
        of_given.push_back(cotangents[i]);
      }
    }
    call_.gradient->note_given(given);
    if (call_.split == nullptr || call_.split->given != given || is_recorded(of_given)) {
      return call_.gradient->call(call_.inputs, {call_.wanted, given}, of_given, call_.where);
    }
    std::vector<Tensor> arguments = call_.inputs;
    arguments.insert(arguments.end(), call_.saved.begin(), call_.saved.end());
    for (const Tensor& cotangent : of_given) {
      arguments.push_back(cotangent.is_contiguous() ? cotangent : copy(cotangent, call_.where));
    }
    std::vector<Tensor> flat;
    call_.split->backward->run(arguments, flat);
    return by_input(call_.split->wanted, flat);
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

CallGradient::CallGradient(JitFunction::Function function, std::size_t argument_count, Variables states,
                           JitOptions options, std::shared_ptr<CallLock> turns)
    : function_(std::move(function)),
      argument_count_(argument_count),
      states_(std::move(states)),
      options_(std::move(options)),
      turns_(std::move(turns)) {
  options_.name += ".backward";
  options_.pipeline.vetoed.clear();  // values of another graph
}

std::vector<Tensor> CallGradient::call(std::span<const Tensor> inputs, const Which& which,
                                       std::span<const Tensor> cotangents, Location where) {
  std::vector<Tensor> tensors(inputs.begin(), inputs.end());
  tensors.insert(tensors.end(), cotangents.begin(), cotangents.end());
  if (thread_context.inlines_graphs()) {
    return gradients_of(function_, argument_count_, states_, tensors, which, nullptr);
  }
  const CallLock::Scope turn(*turns_);
  const auto known = functions_.find(which);
  JitFunction& function =
      known != functions_.end()
          ? known->second
          : functions_
                .try_emplace(
                    which,
                    [forward = function_, argument_count = argument_count_, variables = states_, which](
                        std::span<const Tensor> all, std::shared_ptr<void>& structure) {
                      std::vector<Tensor> gradients =
                          gradients_of(forward, argument_count, variables, all, which, nullptr);
                      auto has = std::make_shared<std::vector<bool>>();
                      for (const Tensor& gradient : gradients) {
                        has->push_back(gradient.defined());
                      }
                      std::erase_if(gradients, [](const Tensor& gradient) { return !gradient.defined(); });
                      structure = std::move(has);
                      return gradients;
                    },
                    options_, turns_)
                .first->second;
  const JitFunction::Result result = function.call(tensors, where);
  return by_input(*static_cast<const std::vector<bool>*>(result.structure.get()), result.outputs);
}

std::vector<bool> CallGradient::last_given() const {
  const CallLock::Scope scope(lock_);
  return last_given_;
}

void CallGradient::note_given(const std::vector<bool>& given) {
  const CallLock::Scope scope(lock_);
  last_given_ = given;
}

std::vector<Tensor> gradients_of(const JitFunction::Function& forward, std::size_t argument_count,
                                 const Variables& variables, std::span<const Tensor> tensors,
                                 const CallGradient::Which& which, std::vector<Tensor>* results) {
  const EnableGrad enable;  // captured from within a backward pass, which doesn't record
  const std::uint64_t entry_serial = autograd::next_serial();
  const std::size_t input_count = argument_count + variables.size();
  std::vector<Tensor> watched;
  std::vector<Tensor> targets;
  std::vector<bool> is_target;
  for (std::size_t i = 0; i < input_count; ++i) {
    is_target.push_back(is_floating(tensors[i].dtype()) && which.wanted[i]);
    watched.push_back(is_target[i] ? autograd::watch(tensors[i]) : tensors[i]);
    if (is_target[i]) {
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
  std::vector<Tensor> of_given;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (which.given[i]) {
      of_given.push_back(all[i]);
    }
  }
  if (results != nullptr) {
    *results = all;
  }
  autograd::BackwardOptions options{true, entry_serial};
  options.leaves_undefined = true;
  return by_input(
      is_target,
      autograd::gradients(of_given, targets, tensors.subspan(input_count), options, Location::current()).gradients);
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
