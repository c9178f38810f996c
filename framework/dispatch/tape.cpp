#include "framework/dispatch/tape.h"

#include <atomic>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"

namespace diptych::autograd {
namespace {

constinit std::atomic<std::uint64_t> serial_counter{1};
constinit std::atomic<std::int64_t> watched_tensors{0};  ///< leaves alive on all threads

static_assert(sizeof(TapeNode) % alignof(TapeInput) == 0);

std::size_t block_size(std::uint32_t input_count) { return sizeof(TapeNode) + input_count * sizeof(TapeInput); }

/// Frees a node that has no references left.
void free_node(TapeNode* node) noexcept {
  // Nodes form long chains: recursive release would overflow the stack, so the thread keeps a list of dead nodes.
  thread_local TapeNode* dead = nullptr;
  thread_local bool active = false;
  // A dead node no longer needs its serial.
  node->serial = reinterpret_cast<std::uintptr_t>(dead);
  dead = node;
  if (active) {
    return;
  }
  active = true;
  while (dead != nullptr) {
    TapeNode* next = dead;
    dead = reinterpret_cast<TapeNode*>(next->serial);
    const std::size_t size = block_size(next->input_count);
    if (next->is_leaf) {
      watched_tensors.fetch_sub(1, std::memory_order_relaxed);
    }
    for (TapeInput& input : next->inputs()) {
      input.~TapeInput();
    }
    next->~TapeNode();
    allocator::release({next, allocator::size_class_of(size)});
  }
  active = false;
}

TapeNode* new_node(std::uint32_t input_count) {
  const allocator::Block block = allocator::allocate(block_size(input_count));
  auto* node = ::new (block.data) TapeNode;
  node->destroy = free_node;
  node->input_count = input_count;
  // Relaxed: serials order the nodes of one thread; across threads, independent nodes may come in any order.
  node->serial = serial_counter.fetch_add(1, std::memory_order_relaxed);
  auto* inputs = reinterpret_cast<TapeInput*>(node + 1);
  for (std::uint32_t i = 0; i < input_count; ++i) {
    ::new (inputs + i) TapeInput;
  }
  return node;
}

void connect(TapeInput& input, const TapeEdge& edge) { static_cast<TapeEdge&>(input) = edge; }

Updates updates_of(const Tensor& tensor) {
  const TensorBody& body = *tensor.body();
  if (body.is_traced) {
    const Tracer* const tracer = thread_context.tracer();
    return tracer != nullptr ? tracer->updates_of(body) : Updates{};
  }
  const Storage* storage = body.storage.get();
  return storage != nullptr ? Updates{storage->version, storage->written} : Updates{};
}
std::uint32_t version_of(const Tensor& tensor) { return updates_of(tensor).version; }

/// Throws if `saved`, which is `what` that `name` saved at `where`, was updated in place since it had this version.
void check_version(const Tensor& saved, std::uint32_t version, std::string_view what, const char* name, Location where,
                   const char* pass) {
  if (version_of(saved) != version) {
    throw Error(fmt::format("{}: {} {}, which {} had saved, was changed in place at {}", pass, what,
                            to_string(saved.type()), name, to_string(updates_of(saved).last)),
                where, "update a copy() of it, or update it after the backward pass");
  }
}

void attach(Tensor& tensor, Reference<TapeNode> node, std::uint32_t output) {
  tensor.body()->tape = std::move(node);
  tensor.body()->tape_output = output;
}

}  // namespace

bool may_want_gradients() { return thread_context.grad_enabled && watched_tensors.load(std::memory_order_relaxed) > 0; }

std::uint64_t next_serial() { return serial_counter.load(std::memory_order_relaxed); }

void record(const OpDef& op, std::span<const Tensor* const> inputs, std::uint32_t watched, const void* attributes,
            Tensor& result, Location where) {
  if (!is_floating(result.body()->type.dtype)) {
    return;  // comparisons and the like: constant almost everywhere
  }
  auto owner = Reference<TapeNode>::adopt(new_node(static_cast<std::uint32_t>(inputs.size())));
  TapeNode* const node = owner.get();
  node->op = &op;
  node->where = where;
  node->attributes = AttributeValue(op.attributes, attributes);
  const bool save_all = thread_context.save_all;
  const std::uint32_t saved_inputs = save_all ? ~0U : op.saves.inputs;
  const auto tape_inputs = node->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (((watched >> i) & 1U) != 0) {
      const TensorBody& body = *inputs[i]->body();
      tape_inputs[i].node = body.tape;
      tape_inputs[i].output = body.tape_output;
      tape_inputs[i].type = body.type;
    } else {
      tape_inputs[i].type = inputs[i]->body()->type;
    }
    if (((saved_inputs >> i) & 1U) != 0) {
      // Saved inputs keep their tape: gradients of gradients go through it, and it can't be this node.
      tape_inputs[i].saved = *inputs[i];
      tape_inputs[i].version = version_of(*inputs[i]);
    }
  }
  if (op.saves.output || save_all) {
    node->saved_output = detached_alias(result);  // the result itself will refer to this node, which would make a cycle
    node->output_version = version_of(result);
  }
  attach(result, std::move(owner), 0);
}

TapeEdge edge_of(const Tensor& tensor) {
  const TensorBody& body = *tensor.body();
  return {body.tape, body.tape_output, body.type};
}

void record_custom(std::unique_ptr<CustomRule> rule, std::span<const TapeEdge> inputs, std::span<Tensor> outputs,
                   Location where) {
  TapeNode* node = new_node(static_cast<std::uint32_t>(inputs.size()));
  auto owner = Reference<TapeNode>::adopt(node);
  for (const Tensor& output : outputs) {
    rule->output_types_.push_back(output.type());
  }
  node->custom = std::move(rule);
  node->where = where;
  node->output_count = static_cast<std::uint32_t>(outputs.size());
  const auto tape_inputs = node->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    connect(tape_inputs[i], inputs[i]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_floating(outputs[i].dtype())) {
      attach(outputs[i], owner, static_cast<std::uint32_t>(i));
    }
  }
}

void record_custom(std::unique_ptr<CustomRule> rule, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                   Location where) {
  std::vector<TapeEdge> edges;
  for (const Tensor& input : inputs) {
    edges.push_back(edge_of(input));
  }
  record_custom(std::move(rule), edges, outputs, where);
}

Tensor alias_with_tape(const Tensor& tensor) {
  Tensor alias = detached_alias(tensor);
  attach(alias, tensor.body()->tape, tensor.body()->tape_output);
  return alias;
}

void replace_tape(const Tensor& tensor, const Tensor& result) {
  TensorBody& body = *tensor.body();
  TapeNode* const newest = result.body()->tape.get();
  if (newest != nullptr && !body.references.unique()) {  // otherwise nothing can have saved it
    std::vector<TapeNode*> open{newest};
    std::unordered_set<const TapeNode*> seen{newest};
    while (!open.empty()) {
      TapeNode& node = *open.back();
      open.pop_back();
      for (TapeInput& input : node.inputs()) {
        if (input.saved.defined() && input.saved.body() == &body) {
          input.saved = alias_with_tape(tensor);
        }
        if (TapeNode* const next = input.node.get(); next != nullptr && seen.insert(next).second) {
          open.push_back(next);
        }
      }
    }
  }
  body.tape = result.body()->tape;
  body.tape_output = result.body()->tape_output;
}

Tensor watch(const Tensor& tensor, Location where) {
  if (!is_floating(tensor.dtype())) {
    throw DTypeError(fmt::format("grad: a gradient by {} doesn't exist", to_string(tensor.type())), where,
                     "gradients are by floating-point tensors; cast it, or choose other argument positions");
  }
  Tensor alias = detached_alias(tensor);
  TapeNode* node = new_node(1);
  node->where = where;
  node->is_leaf = true;
  watched_tensors.fetch_add(1, std::memory_order_relaxed);
  connect(node->inputs()[0], edge_of(tensor));
  attach(alias, Reference<TapeNode>::adopt(node), 0);
  return alias;
}

SaveAll::SaveAll() : previous_(thread_context.save_all) { thread_context.save_all = true; }
SaveAll::~SaveAll() { thread_context.save_all = previous_; }

SavedTensor::SavedTensor(const Tensor& tensor) : tensor_(alias_with_tape(tensor)), version_(version_of(tensor)) {}

void SavedTensor::check(const char* name, Location where) const {
  check_version(tensor_, version_, "a tensor", name, where, "gradient");
}

void check_saved(TapeNode& node, const char* pass) {
  const char* name = node.op != nullptr ? node.op->name : "a graph call";
  if (node.released) {
    throw Error(fmt::format("{}: what {} had saved was freed by an earlier backward", pass, name), node.where,
                "compute the forward pass again, or ask the first backward to retain the graph");
  }
  for (const TapeInput& input : node.inputs()) {
    if (input.saved.defined() && version_of(input.saved) != input.version) {
      check_version(input.saved, input.version, fmt::format("input {}", &input - node.inputs().data()), name,
                    node.where, pass);
    }
  }
  if (node.saved_output.defined()) {
    check_version(node.saved_output, node.output_version, "the result", name, node.where, pass);
  }
}

}  // namespace diptych::autograd
