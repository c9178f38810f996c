#include "framework/dispatch/op.h"

#include <algorithm>

#include <fmt/format.h>

namespace diptych {

namespace {

/// The parts of an op that compute.
struct Computing {
  explicit Computing(OpDef& definition)
      : op(&definition), kernel(definition.kernel), loops(definition.loops), select_loop(definition.select_loop) {}

  OpDef* op;
  Kernel kernel;
  std::array<LoopSet, kDTypeCount> loops;
  decltype(OpDef::select_loop) select_loop;
};

struct Registry {
  std::vector<const OpDef*> all;
  std::vector<const OpDef*> pure;
  std::vector<Computing> computing;  ///< of all ops, in order of registration
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

void OpDef::refuse_storage(const InferCall& call) {
  call.fail_dtype("doesn't compute on types for storage", "cast to f32, i32 or i64 first, and the result back");
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
  ops.computing.emplace_back(definition_);
}

WithoutKernels::WithoutKernels() {
  constexpr LoopFn idle = [](std::int64_t, void* const*, const std::int64_t*, const void*) {};
  for (const Computing& computing : mutable_registry().computing) {
    OpDef& op = *computing.op;
    if (!op.elementwise()) {
      op.kernel = [](const KernelCall&) {};
      continue;
    }
    // The kernel is kept: it chooses the loop and how to walk the operands, which is part of the cost outside the loop.
    for (LoopSet& loops : op.loops) {
      if (loops[0] != nullptr) {
        loops.fill(idle);
      }
    }
    if (op.select_loop != nullptr) {
      op.select_loop = [](std::span<const TensorType* const>, const TensorType&) { return LoopSet{idle, idle, idle}; };
    }
  }
}

WithoutKernels::~WithoutKernels() {
  for (const Computing& computing : mutable_registry().computing) {
    computing.op->kernel = computing.kernel;
    computing.op->loops = computing.loops;
    computing.op->select_loop = computing.select_loop;
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
