#include "framework/ops/op.h"

#include <algorithm>

#include <fmt/format.h>

namespace diptych {

namespace {

struct Registry {
  std::vector<const OpDef*> all;
  std::vector<const OpDef*> pure;
};
Registry& mutable_registry() {
  static Registry ops;
  return ops;
}

bool by_name(const OpDef* op, std::string_view name) { return op->name < name; }

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

std::span<const OpDef* const> registry() { return mutable_registry().pure; }

const OpDef* find_op(std::string_view name) {
  const auto& ops = mutable_registry().all;
  const auto found = std::lower_bound(ops.begin(), ops.end(), name, by_name);
  return found != ops.end() && (*found)->name == name ? *found : nullptr;
}

Op::Op(const OpDef& definition) : definition_(definition) {
  const std::string_view name = definition_.name;
  internal_check(find_op(name) == nullptr, "an op's name is used once");
  Registry& ops = mutable_registry();
  const auto insert = [&](std::vector<const OpDef*>& list) {
    list.insert(std::lower_bound(list.begin(), list.end(), name, by_name), &definition_);
  };
  insert(ops.all);
  if (!definition_.effect) {
    insert(ops.pure);
  }
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
