#include "framework/io/onnx/import.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/capture/capture.h"
#include "framework/core/attributes.h"
#include "framework/core/context.h"
#include "framework/io/onnx/program.h"

namespace diptych::onnx {
namespace {

/// Number of input shapes whose plans are kept.
constexpr std::size_t kMostPlans = 16;

}  // namespace

/// The work that remains in a call with inputs of these types.
struct ImportedModel::Plan {
  std::vector<TensorType> types;
  std::vector<Value> values;  ///< the known ones that the steps read; others are set by each call and cleared after it
  std::vector<std::uint32_t> steps;
  std::vector<bool> drawn;  ///< of each output, whether it depends on random numbers
  std::vector<std::string> output_names;
};

namespace {

/// Clears the values that a call has put into a plan, even if it throws.
class Leftovers {
 public:
  explicit Leftovers(std::vector<Value>& values) : values_(values) {}
  ~Leftovers() {
    for (Value& value : values_) {
      if (!value.known) {
        value.clear();
      }
    }
  }
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

 private:
  std::vector<Value>& values_;
};

std::vector<TensorType> types_of(std::span<const Tensor> tensors) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) {
    types.push_back(tensor.type());
  }
  return types;
}

/// Throws if `input` doesn't match the model. `lengths`: the lengths of named axes, as set by earlier inputs.
void check_input(const ValueInfo& info, const Tensor& input, std::map<std::string, std::int64_t>& lengths) {
  const auto wrong = [&](const std::string& why) {
    return fmt::format("input {} is {}: {}", quote(info.name), to_string(input.type()), why);
  };
  if (!info.foreign_type.empty()) {
    throw Unsupported(fmt::format("input {} is a {}: the engine has none", quote(info.name), info.foreign_type));
  }
  if (info.dtype && input.dtype() != *info.dtype) {
    throw DTypeError(wrong(fmt::format("the model wants {}", name_of(*info.dtype))));
  }
  if (!info.has_shape) {
    return;
  }
  const Shape& shape = input.shape();
  if (static_cast<std::size_t>(shape.rank()) != info.shape.size()) {
    throw ShapeError(wrong(fmt::format("the model wants {} axes", info.shape.size())));
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto& wanted = info.shape[static_cast<std::size_t>(axis)];
    if (const auto* length = std::get_if<std::int64_t>(&wanted)) {
      if (*length != shape[axis]) {
        throw ShapeError(wrong(fmt::format("the model wants a length of {} in axis {}", *length, axis)));
      }
    } else if (const std::string& name = std::get<std::string>(wanted); !name.empty()) {
      const auto [known, is_new] = lengths.emplace(name, shape[axis]);
      if (!is_new && known->second != shape[axis]) {
        throw ShapeError(
            wrong(fmt::format("its {} is {}, elsewhere it is {}", quote(name), shape[axis], known->second)));
      }
    }
  }
}

}  // namespace

ImportedModel::ImportedModel(std::shared_ptr<const Model> model, const ImportOptions& options)
    : model_(std::move(model)) {
  for (const ValueInfo& input : inputs_of(*model_->graph)) {
    const auto list = options.lists.find(input.name);
    if (!input.is_list()) {
      inputs_.push_back(input);
    } else if (list == options.lists.end()) {
      throw Unsupported(fmt::format("input {} is a {}: the engine has none", quote(input.name), input.foreign_type));
    } else {
      for (std::size_t i = 0; i < list->second.tensors.size(); ++i) {
        inputs_.push_back({fmt::format("{}[{}]", input.name, i)});
      }
    }
  }
  std::erase_if(inputs_, [&](const ValueInfo& input) { return options.bound.contains(input.name); });
  program_ = std::make_unique<GraphProgram>(compile(*model_->graph, *model_));
  for (const auto& [name, tensor] : options.bound) {
    const auto found = program_->numbers.find(name);
    const auto input = found == program_->numbers.end()
                           ? program_->inputs.end()
                           : std::find(program_->inputs.begin(), program_->inputs.end(), found->second);
    if (input == program_->inputs.end()) {
      throw Error(fmt::format("the model has no input {}", quote(name)));
    }
    const auto info = std::find_if(model_->graph->inputs.begin(), model_->graph->inputs.end(),
                                   [&wanted = name](const ValueInfo& each) { return each.name == wanted; });
    std::map<std::string, std::int64_t> lengths;
    check_input(*info, tensor, lengths);
    program_->inputs.erase(input);
    program_->constants.push_back({found->second, {tensor, true}});
  }
  for (const std::string& name : options.arguments) {
    const auto found = program_->numbers.find(name);
    const auto constant = std::find_if(program_->constants.begin(), program_->constants.end(), [&](const auto& each) {
      return found != program_->numbers.end() && each.first == found->second;
    });
    if (constant == program_->constants.end()) {
      throw Error(fmt::format("the model has no initializer {}", quote(name)));
    }
    arguments_.push_back(constant->second.tensor);
    program_->inputs.push_back(constant->first);
    program_->constants.erase(constant);
  }
  for (const int number : program_->inputs) {
    Slot slot{number};
    for (const auto& [name, list] : options.lists) {
      const auto found = program_->numbers.find(name);
      if (found != program_->numbers.end() && found->second == number) {
        slot = {number, list.is_sequence, list.is_absent, list.tensors.size()};
      }
    }
    slots_.push_back(slot);
  }
}

ImportedModel::~ImportedModel() = default;
ImportedModel::ImportedModel(ImportedModel&&) noexcept = default;
ImportedModel& ImportedModel::operator=(ImportedModel&&) noexcept = default;

void ImportedModel::check(std::span<const Tensor> inputs) const {
  if (inputs.size() != inputs_.size() + arguments_.size()) {
    throw Error(fmt::format("the model takes {} inputs, got {}", inputs_.size() + arguments_.size(), inputs.size()));
  }
  std::map<std::string, std::int64_t> lengths;  // lengths of named axes
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const Tensor& given = inputs[inputs_.size() + i];
    if (given.type() != arguments_[i].type()) {
      throw ShapeError(fmt::format("an argument is {}, its initializer is {}", to_string(given.type()),
                                   to_string(arguments_[i].type())));
    }
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    check_input(inputs_[i], inputs[i], lengths);
  }
}

void ImportedModel::set_inputs(std::vector<Value>& values, std::span<const Tensor> tensors) const {
  std::size_t next = 0;
  for (const Slot& slot : slots_) {
    Value& value = values[static_cast<std::size_t>(slot.number)];
    const std::span<const Tensor> mine = tensors.subspan(next, slot.tensors);
    next += slot.tensors;
    if (slot.is_absent) {
      value = absent_optional();
    } else if (slot.is_sequence) {
      value = sequence_of({mine.begin(), mine.end()});
    } else {
      value.tensor = mine[0];
    }
  }
}

/// Uses a capture that is thrown away: types and known values follow without running a node.
std::unique_ptr<ImportedModel::Plan> ImportedModel::make_plan(const std::vector<TensorType>& types) const {
  graph::Capture capture("onnx");
  auto plan = std::make_unique<Plan>();
  const Leftovers leftovers(plan->values);
  plan->types = types;
  plan->values.resize(program_->numbers.size());
  for (const auto& [number, value] : program_->constants) {
    plan->values[static_cast<std::size_t>(number)] = value;
  }
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < types.size(); ++i) {
    arguments.push_back(capture.argument(types[i], fmt::format("input_{}", i)));
  }
  set_inputs(plan->values, arguments);
  {
    const graph::CaptureScope scope(capture);
    const NoGrad guard;
    program_->name_values(plan->values);
    plan->steps = program_->interpret(plan->values);
  }
  for (std::size_t i = 0; i < program_->outputs.size(); ++i) {
    const Value& value = plan->values[static_cast<std::size_t>(program_->outputs[i])];
    const std::string& name = model_->graph->outputs[i].name;
    for (std::size_t k = 0; k < value.count(); ++k) {
      plan->drawn.push_back(value.drawn);
      plan->output_names.push_back(value.items != nullptr ? fmt::format("{}[{}]", name, k) : name);
    }
  }
  program_->drop_unread(plan->steps, plan->values);
  return plan;
}

ImportedModel::Plan& ImportedModel::plan_of(std::span<const Tensor> inputs) {
  check(inputs);
  const std::vector<TensorType> types = types_of(inputs);
  auto found = std::find_if(plans_.begin(), plans_.end(), [&](const auto& plan) { return plan->types == types; });
  if (found == plans_.end()) {
    std::unique_ptr<Plan> made = make_plan(types);
    if (plans_.size() == kMostPlans) {
      plans_.erase(plans_.begin());
    }
    plans_.push_back(std::move(made));
    found = plans_.end() - 1;
  }
  return **found;
}

std::vector<Tensor> ImportedModel::call(std::span<const Tensor> inputs) {
  Plan& plan = plan_of(inputs);
  const Leftovers leftovers(plan.values);
  set_inputs(plan.values, inputs);
  program_->name_values(plan.values);
  program_->repeat(plan.steps, plan.values);
  std::vector<Tensor> outputs;
  for (const int output : program_->outputs) {
    const Value& value = plan.values[static_cast<std::size_t>(output)];
    if (value.items != nullptr) {
      outputs.insert(outputs.end(), value.items->begin(), value.items->end());
    } else if (!value.absent) {
      outputs.push_back(value.tensor);
    }
  }
  return outputs;
}

std::vector<std::string> ImportedModel::output_names(std::span<const Tensor> inputs) {
  return plan_of(inputs).output_names;
}

void check_supported(const Model& model) { compile(*model.graph, model); }

std::vector<bool> ImportedModel::drawn_outputs(std::span<const Tensor> inputs) { return plan_of(inputs).drawn; }

std::vector<ValueInfo> inputs_of(const Graph& graph) {
  std::vector<ValueInfo> inputs = graph.inputs;
  std::erase_if(inputs, [&](const ValueInfo& input) { return graph.initializers.contains(input.name); });
  return inputs;
}

namespace {

/// The values whose elements have to be known before a graph is made: everything that a host input depends on.
std::set<int> known_ahead(const GraphProgram& program) {
  std::set<int> needed;
  for (const GraphProgram::Step& step : program.steps) {
    for (const int input : step.translation.host_inputs) {
      if (static_cast<std::size_t>(input) < step.inputs.size()) {
        needed.insert(step.inputs[static_cast<std::size_t>(input)]);
      }
    }
  }
  return program.sources_of(std::move(needed));
}

}  // namespace

std::vector<std::string> shape_inputs(const Model& model) {
  const GraphProgram program = compile(*model.graph, model);
  const std::set<int> needed = known_ahead(program);
  std::vector<std::string> names;
  for (const ValueInfo& input : inputs_of(*model.graph)) {
    const auto number = program.numbers.find(input.name);
    if (number != program.numbers.end() && needed.contains(number->second)) {
      names.push_back(input.name);
    }
  }
  return names;
}

std::vector<std::string> weights(const Model& model) {
  const GraphProgram program = compile(*model.graph, model);
  std::set<int> others = known_ahead(program);
  for (const Node& node : model.graph->nodes) {
    constexpr std::size_t kMean = 3;
    for (std::size_t i = kMean; node.op == "BatchNormalization" && i < node.inputs.size(); ++i) {
      if (const auto statistic = program.numbers.find(node.inputs[i]); statistic != program.numbers.end()) {
        others.insert(statistic->second);
      }
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, initializer] : model.graph->initializers) {
    const auto number = program.numbers.find(name);
    if (number != program.numbers.end() && !others.contains(number->second) && initializer.tensor.defined() &&
        is_floating(initializer.tensor.dtype()) && initializer.tensor.rank() > 0) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace diptych::onnx
