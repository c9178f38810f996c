#include "framework/capture/capture.h"

#include <atomic>
#include <unordered_set>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/lengths.h"
#include "framework/core/tensor_body.h"
#include "framework/core/text.h"
#include "framework/dispatch/op.h"
#include "framework/graph/control_ops.h"
#include "framework/ops/elementwise.h"

namespace diptych::graph {
namespace {

std::atomic<std::uint64_t> capture_counter{1};
constinit thread_local const char* module_scope = "";

/// Names from models' files may repeat: two models in a program, bodies, and names that are equal once cut. Readers
/// must still be able to tell the inputs apart.
void make_names_unique(std::vector<Input>& inputs) {
  std::unordered_set<std::string> taken;
  for (const Input& input : inputs) {
    taken.insert(input.name);
  }
  std::unordered_set<std::string> seen;
  for (Input& input : inputs) {
    if (input.name.empty() || seen.insert(input.name).second) {
      continue;
    }
    std::string name;
    for (int copy = 2; name.empty() || !taken.insert(name).second; ++copy) {
      name = fmt::format("{} #{}", input.name, copy);
    }
    input.name = std::move(name);
  }
}

}  // namespace

// Every tracer is a Capture.
Capture* active_capture() { return static_cast<Capture*>(thread_context.tracer()); }

CaptureScope::CaptureScope(Capture& capture)
    : previous_(thread_context.inlines_graphs() ? thread_context.interpreter : nullptr) {
  thread_context.interpreter = &capture;
}
CaptureScope::~CaptureScope() {
  thread_context.interpreter = previous_ != nullptr ? previous_ : thread_context.dispatch;
}

ModuleScope::ModuleScope(std::string_view name) {
  if (thread_context.tracer() != nullptr) {
    previous_ = module_scope;
    module_scope = intern(*module_scope == '\0' ? std::string(name) : fmt::format("{}.{}", module_scope, name));
  }
}
ModuleScope::~ModuleScope() {
  if (previous_ != nullptr) {
    module_scope = previous_;
  }
}

Capture::Capture(std::string name) : Capture(std::move(name), nullptr, false) {}

Capture::Capture(std::string name, Capture* parent, bool region)
    : serial_(capture_counter.fetch_add(1, std::memory_order_relaxed)), region_(region), parent_(parent) {
  graph_.name = std::move(name);
}

Capture Capture::of_region(std::string name) { return {std::move(name), active_capture(), true}; }

/// Whether `serial` is that of this capture or of an enclosing one.
bool Capture::is_within(std::uint64_t serial) const {
  return serial == serial_ || (parent_ != nullptr && parent_->is_within(serial));
}

Tensor Capture::traced(ValueId value) {
  TensorBody* body = new_body();
  body->type = graph_.types[value];
  body->strides = contiguous_strides(body->type.shape);
  body->numel = body->type.shape.product();
  body->is_traced = true;
  body->trace_value = value;
  body->trace_serial = serial_;
  return Tensor::adopt(body);
}

Tensor Capture::argument(const TensorType& type, std::string name, const Strides* strides) {
  const ValueId value = graph_.new_value(type);
  if (strides != nullptr && !is_contiguous(type.shape, *strides)) {
    strides_.emplace(value, *strides);
  }
  graph_.inputs.push_back({value, InputKind::argument, std::move(name), {}, {}});
  return traced(value);
}

void Capture::name(const Tensor& tensor, std::string_view name) {
  const TensorBody& body = *tensor.body();
  const bool own = body.is_traced && body.trace_serial == serial_;
  if (!own && parent_ != nullptr) {
    parent_->name(tensor, name);
    return;
  }
  constexpr int kMostColumns = 80;
  std::string shown = shorten_middle(name, kMostColumns);
  if (shown.empty()) {
    return;
  }
  if (!body.is_traced) {
    named_.try_emplace(&body, NamedTensor{tensor, std::move(shown)});
    return;
  }
  for (Input& input : graph_.inputs) {
    if (own && input.value == body.trace_value && input.kind == InputKind::argument &&
        named_arguments_.try_emplace(input.value, shown).second) {
      input.name = shown;
    }
  }
}

std::string Capture::given_name(const Tensor& tensor) const {
  const TensorBody& body = *tensor.body();
  if (body.is_traced && body.trace_serial == serial_) {
    const auto found = named_arguments_.find(body.trace_value);
    return found == named_arguments_.end() ? "" : found->second;
  }
  const auto found = named_.find(&body);
  return found != named_.end() ? found->second.name : parent_ != nullptr ? parent_->given_name(tensor) : "";
}

ValueId Capture::value_of(const Tensor& tensor, const char* op, Location where) {
  if (!tensor.defined()) {
    throw Error(fmt::format("{}: an input is undefined", op), where, "assign a value to it first");
  }
  TensorBody* body = tensor.body();
  if (body->is_traced) {
    if (!is_within(body->trace_serial)) {
      throw CaptureError(fmt::format("{}: an input belongs to a graph whose capture has ended", op), where,
                         "return it from the captured function instead of keeping it");
    }
    if (body->trace_serial == serial_) {
      return replaced_.empty() ? body->trace_value : current(body->trace_value);
    }
  }
  if (region_) {
    return close_over(tensor);
  }
  if (thread_context.grad_enabled && body->tape) {
    throw CaptureError(
        fmt::format("{}: a tensor that gradients are asked for is captured from outside the function", op), where,
        "pass it as an argument, or through stop_gradient() outside the function");
  }
  const auto found = captured_.find(body);
  if (found != captured_.end()) {
    return found->second;
  }
  const ValueId value = graph_.new_value(body->type);
  std::string name = given_name(tensor);
  if (name.empty()) {
    name = fmt::format("captured{}", captured_.size());
  }
  captured_.emplace(body, value);
  graph_.inputs.push_back({value, InputKind::captured, std::move(name), {}, tensor});
  return value;
}

Tensor Capture::apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where) {
  const trace::Zone zone(&op.label);
  if (!op.takes(inputs.size())) {
    throw Error(fmt::format("{}: takes {} inputs, got {}", op.name, op.arity(), inputs.size()), where, "");
  }
  Node node{&op, AttributeValue(op.attributes, attributes), {}, {}, {{next_source_op()}, module_scope, where}};
  std::array<const TensorType*, kMaxInputs> types{};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(value_of(*inputs[i], op.name, where));
    types[i] = &inputs[i]->body()->type;
  }
  TensorType type;
  op.infer_type({op, {types.data(), inputs.size()}, attributes, where}, type);
  check_countable(type, op.name, where);
  const ValueId output = graph_.new_value(type);
  node.outputs = {output};
  graph_.nodes.push_back(std::move(node));
  return traced(output);
}

std::vector<Tensor> Capture::record_control(const OpDef& op, std::span<const Tensor> inputs, const void* attributes,
                                            std::vector<std::shared_ptr<const Graph>> regions, Location where) {
  Node node{&op, AttributeValue(op.attributes, attributes), {},
            {},  {{next_source_op()}, module_scope, where}, std::move(regions)};
  std::vector<const TensorType*> types;
  for (const Tensor& input : inputs) {
    node.inputs.push_back(value_of(input, op.name, where));
    types.push_back(&input.type());
  }
  std::vector<Tensor> outputs;
  for (const TensorType& type : control_output_types(node, types)) {
    check_countable(type, op.name, where);
    const ValueId value = graph_.new_value(type);
    node.outputs.push_back(value);
    outputs.push_back(traced(value));
  }
  graph_.nodes.push_back(std::move(node));
  return outputs;
}

Variables Capture::assigned_variables() const {
  Variables assigned;
  for (const Variable& variable : used_variables_) {
    const VariableEntry& entry = variables_.at(variable.state());
    const TensorBody& current = *entry.current.body();
    if (!current.is_traced || current.trace_serial != serial_ || last_of(current.trace_value) != entry.input) {
      assigned.push_back(variable);
    }
  }
  return assigned;
}

void Capture::use(const Tensor& tensor, Location where) { value_of(tensor, "return", where); }

ValueId Capture::close_over(const Tensor& outer) {
  const auto [found, is_new] = captured_.try_emplace(outer.body(), 0);
  if (is_new) {
    found->second = graph_.new_value(outer.type());
    closed_.push_back(outer);  // held because the map is keyed by address
  }
  return found->second;
}

ValueId Capture::close_over(const Variable& variable) {
  read(variable);
  return variables_.at(variable.state()).input;
}

std::shared_ptr<const Graph> Capture::finish_region(std::span<const ValueId> inputs, std::span<const Tensor> outputs,
                                                    Location where) {
  for (const Tensor& output : outputs) {
    graph_.outputs.push_back(value_of(output, "return", where));
  }
  std::vector<std::string> names(graph_.types.size());
  for (const Input& input : graph_.inputs) {
    names[input.value] = input.name;
  }
  for (const Tensor& closed : closed_) {
    names[captured_.at(closed.body())] = given_name(closed);
  }
  for (const Variable& variable : used_variables_) {
    names[variables_.at(variable.state()).input] = variable.name();
  }
  graph_.inputs.clear();
  for (ValueId value : inputs) {
    std::string name = names[value].empty() ? fmt::format("closed{}", graph_.inputs.size()) : names[value];
    graph_.inputs.push_back({value, InputKind::argument, std::move(name), {}, {}});
  }
  make_names_unique(graph_.inputs);
  return std::make_shared<const Graph>(std::move(graph_));
}

Tensor Capture::read(const Variable& variable) {
  const auto found = variables_.find(variable.state());
  if (found != variables_.end()) {
    return found->second.current;
  }
  const ValueId value = graph_.new_value(variable.type());
  if (region_) {
    used_variables_.push_back(variable);
    Tensor current = traced(value);
    variables_.emplace(variable.state(), VariableEntry{value, current});
    return current;
  }
  const auto index = static_cast<std::uint32_t>(graph_.inputs.size());
  graph_.inputs.push_back({value, InputKind::state, variable.name(), variable, {}});
  Tensor current = traced(value);
  variables_.emplace(variable.state(), VariableEntry{index, current});
  return current;
}

void Capture::write(const Variable& variable, const Tensor& value) {
  read(variable);  // makes it an input, so that its old storage can be reused
  variables_.at(variable.state()).current = value;
}

void Capture::assign(const Variable& variable, const Tensor& value, Location where) {
  bool is_view = !value.is_traced() && !value.is_contiguous();
  if (value.is_traced()) {
    const ValueId id = value_of(value, "assign", where);
    for (const Node& node : graph_.nodes) {
      is_view = is_view || (node.output() == id && node.op->view != nullptr);
    }
  }
  const Tensor stored = is_view ? copy(value, where) : value;
  // Gradients don't flow through assignments. A region isn't recorded on the tape, so it has to say so itself.
  write(variable, region_ ? stop_gradient(stored, where) : stored);
}

Graph Capture::finish(std::span<const Tensor> outputs, Location where) {
  for (const Tensor& output : outputs) {
    graph_.outputs.push_back(value_of(output, "return", where));
  }
  for (std::uint32_t i = 0; i < graph_.inputs.size(); ++i) {
    if (graph_.inputs[i].kind != InputKind::state) {
      continue;
    }
    const VariableEntry& entry = variables_.at(graph_.inputs[i].variable.state());
    const ValueId value = value_of(entry.current, "assign", where);  // may add a captured input, so hold no references
    if (value != graph_.inputs[i].value) {
      graph_.updates.push_back({i, value});
    }
  }
  make_names_unique(graph_.inputs);
  return std::move(graph_);
}

std::string Capture::describe(const TensorBody& body) const {
  return body.trace_serial == serial_ ? describe_value(body.trace_value)
         : parent_ != nullptr         ? parent_->describe(body)
                                      : kEndedCapture;
}

std::string Capture::describe_value(ValueId value) const {
  for (const Node& node : graph_.nodes) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == value) {
        return fmt::format("{} at {}", node.op->name, to_string(node.provenance.where));
      }
    }
  }
  for (const Input& input : graph_.inputs) {
    if (input.value == value) {
      return fmt::format("{} '{}'", name_of(input.kind), printable(input.name));
    }
  }
  for (const Variable& variable : used_variables_) {
    if (variables_.at(variable.state()).input == value) {
      return fmt::format("variable '{}'", printable(variable.name()));
    }
  }
  return "an op";
}

}  // namespace diptych::graph
