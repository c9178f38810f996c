#include "framework/ops/op.h"

#include <algorithm>

#include <fmt/format.h>

namespace diptych {

namespace {

std::vector<const OpDef*>& mutable_registry() {
  static std::vector<const OpDef*> ops;
  return ops;
}

std::string describe(const InferCall& call, std::string_view what) {
  std::string types;
  for (const TensorType* type : call.inputs) {
    types += fmt::format("{}{}", types.empty() ? "" : " x ", to_string(*type));
  }
  std::string text = fmt::format("{}: {}: {}", call.op.name, what, types);
  if (call.op.attributes != nullptr) {
    text += fmt::format(" {{{}}}", call.op.attributes->print(call.attributes));
  }
  return text;
}

}  // namespace

std::string OpDef::arity() const {
  return least_inputs < 0 ? fmt::format("{}", inputs) : fmt::format("{} to {}", least_inputs, inputs);
}

void InferCall::fail_shape(std::string_view what, std::string_view hint) const {
  throw ShapeError(describe(*this, what), where, hint);
}

void InferCall::fail_dtype(std::string_view what, std::string_view hint) const {
  throw DTypeError(describe(*this, what), where, hint);
}

std::span<const OpDef* const> registry() { return mutable_registry(); }

const OpDef* find_op(std::string_view name) {
  const auto ops = registry();
  const auto found = std::lower_bound(ops.begin(), ops.end(), name,
                                      [](const OpDef* op, std::string_view wanted) { return op->name < wanted; });
  return found != ops.end() && (*found)->name == name ? *found : nullptr;
}

Op::Op(const OpDef& definition) : definition_(definition) {
  auto& ops = mutable_registry();
  const std::string_view name = definition_.name;
  const auto place = std::lower_bound(ops.begin(), ops.end(), name,
                                      [](const OpDef* op, std::string_view wanted) { return op->name < wanted; });
  internal_check(place == ops.end() || (*place)->name != name, "an op's name is used once");
  ops.insert(place, &definition_);
}

Cost cost_of(const OpDef& op, std::span<const TensorType* const> inputs, const void* attributes,
             const TensorType& output) {
  Cost cost;
  if (op.flops != nullptr) {
    cost.flops = op.flops(InferCall{op, inputs, attributes, {}}, output);
  }
  const auto bytes = [](const TensorType& type) {
    return static_cast<double>(type.shape.product()) * static_cast<double>(size_of(type.dtype));
  };
  if (op.view == nullptr) {
    cost.bytes = bytes(output);
    for (const TensorType* input : inputs) {
      cost.bytes += bytes(*input);
    }
  }
  return cost;
}

}  // namespace diptych
