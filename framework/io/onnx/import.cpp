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
  inputs_ = inputs_of(*model_->graph);
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
  for (std::size_t i = 0; i < types.size(); ++i) {
    plan->values[static_cast<std::size_t>(program_->inputs[i])].tensor =
        capture.argument(types[i], fmt::format("input_{}", i));
  }
  {
    const graph::CaptureScope scope(capture);
    const NoGrad guard;
    program_->name_values(plan->values);
    plan->steps = program_->interpret(plan->values);
  }
  for (const int output : program_->outputs) {
    if (plan->values[static_cast<std::size_t>(output)].items != nullptr) {
      throw Unsupported("an output is a sequence: the engine has none");
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
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    plan.values[static_cast<std::size_t>(program_->inputs[i])].tensor = inputs[i];
  }
  program_->name_values(plan.values);
  program_->repeat(plan.steps, plan.values);
  std::vector<Tensor> outputs;
  for (const int output : program_->outputs) {
    outputs.push_back(plan.values[static_cast<std::size_t>(output)].tensor);
  }
  return outputs;
}

std::vector<ValueInfo> inputs_of(const Graph& graph) {
  std::vector<ValueInfo> inputs = graph.inputs;
  std::erase_if(inputs, [&](const ValueInfo& input) { return graph.initializers.contains(input.name); });
  return inputs;
}

namespace {

/// The values whose elements have to be known before a graph is made. Backwards: everything that a host input depends
/// on, except for steps that read types alone.
std::set<int> known_ahead(const GraphProgram& program) {
  std::set<int> needed;
  for (std::size_t i = program.steps.size(); i-- > 0;) {
    const GraphProgram::Step& step = program.steps[i];
    const bool all = !step.translation.by_type && std::any_of(step.outputs.begin(), step.outputs.end(),
                                                              [&](int output) { return needed.contains(output); });
    if (all) {
      needed.insert(step.inputs.begin(), step.inputs.end());
    }
    for (const int input : step.translation.host_inputs) {
      if (static_cast<std::size_t>(input) < step.inputs.size()) {
        needed.insert(step.inputs[static_cast<std::size_t>(input)]);
      }
    }
  }
  return needed;
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
