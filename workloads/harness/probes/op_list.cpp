#include "workloads/harness/probes/op_list.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/apply.h"
#include "framework/dispatch/tape.h"
#include "framework/kernels/bound_call.h"
#include "framework/runtime/memory_plan.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {

/// A kernel with its pointers bound. For elementwise ops over dense memory, this is only the loop: choosing it is part
/// of dispatch.
struct OpList::Call {
  std::array<Operand, kMaxInputs> operands;
  KernelCall kernel;
  kernels::LinearCall loop;
  bool is_loop = false;

  void run() const {
    if (is_loop) {
      loop.run(kernel.input_count + 1, kernel.attributes);
    } else {
      kernel.op->kernel(kernel);
    }
  }
};

OpList::OpList(const graph::Graph& graph, std::span<const Tensor> arguments) {
  inputs_.resize(graph.types.size());
  std::size_t next_argument = 0;
  for (const graph::Input& input : graph.inputs) {
    inputs_[input.value] = input.kind == graph::InputKind::argument ? arguments[next_argument++]
                           : input.kind == graph::InputKind::state  ? input.variable.value()
                                                                    : input.tensor;
  }
  for (const auto& [value, tensor] : graph.constants) {
    inputs_[value] = tensor;
  }
  const NoGrad no_tape;
  values_ = inputs_;
  for (const graph::Node& node : graph.nodes) {
    if (node.is_control() || node.op->effect) {
      throw Error(fmt::format("{} is {}", node.op->name, node.is_control() ? "control flow" : "an effect"));
    }
    ListedOp op{node.op, node.attributes.get(), node.inputs, node.output(), {}, false};
    Tensor output = apply_op(op, values_);
    const TensorBody* first = node.inputs.empty() ? nullptr : values_[node.inputs[0]].body();
    op.is_view = first != nullptr && node.op->view != nullptr && output.body()->storage.get() == first->storage.get();
    values_[node.output()] = std::move(output);
    ops_.push_back(std::move(op));
  }
  find_deaths(graph);
  live_ = inputs_;
  watched_ = inputs_;
  for (Tensor& value : watched_) {
    if (value.defined() && is_floating(value.dtype())) {
      value = autograd::watch(value);
    }
  }
  plan(graph);
}

OpList::~OpList() = default;

void OpList::find_deaths(const graph::Graph& graph) {
  std::vector<bool> read(graph.types.size(), false);
  for (graph::ValueId output : graph.outputs) {
    read[output] = true;
  }
  for (const graph::Update& update : graph.updates) {
    read[update.value] = true;
  }
  for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) {
    const auto dies = [&](graph::ValueId value) {
      if (!read[value] && !inputs_[value].defined()) {
        op->dying.push_back(value);
      }
      read[value] = true;
    };
    dies(op->output);
    std::for_each(op->inputs.begin(), op->inputs.end(), dies);
  }
}

Tensor OpList::apply_op(const ListedOp& op, const std::vector<Tensor>& values) const {
  std::array<const Tensor*, kMaxInputs> inputs{};
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    inputs[i] = &values[op.inputs[i]];
  }
  return apply(*op.op, std::span(inputs.data(), op.inputs.size()), op.attributes, Location::current());
}

void OpList::plan(const graph::Graph& graph) {
  // A view is in its input's buffer, which is freed after the last of its views.
  std::vector<graph::ValueId> owner(graph.types.size());
  for (graph::ValueId value = 0; value < owner.size(); ++value) {
    owner[value] = value;
  }
  std::vector<runtime::Lifetime> lifetimes;
  std::vector<std::int64_t> buffer_of(graph.types.size(), -1);
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    const ListedOp& op = ops_[i];
    for (const graph::ValueId input : op.inputs) {
      if (const std::int64_t buffer = buffer_of[owner[input]]; buffer >= 0) {
        lifetimes[static_cast<std::size_t>(buffer)].last = i;
      }
    }
    if (op.is_view) {
      owner[op.output] = owner[op.inputs[0]];
    } else {
      buffer_of[op.output] = static_cast<std::int64_t>(lifetimes.size());
      lifetimes.push_back({values_[op.output].body()->storage->bytes, i, i});
    }
  }
  const auto live_to_the_end = [&](graph::ValueId value) {
    if (const std::int64_t buffer = buffer_of[owner[value]]; buffer >= 0) {
      lifetimes[static_cast<std::size_t>(buffer)].last = static_cast<std::uint32_t>(ops_.size());
    }
  };
  std::for_each(graph.outputs.begin(), graph.outputs.end(), live_to_the_end);
  for (const graph::Update& update : graph.updates) {
    live_to_the_end(update.value);
  }
  const runtime::MemoryPlan plan = runtime::plan_memory(lifetimes);
  arena_ = allocate_storage(plan.peak);
  const auto place = [&](graph::ValueId value) -> void* {
    const TensorBody& body = *values_[value].body();
    const std::int64_t buffer = buffer_of[owner[value]];
    if (buffer < 0) {
      return body.data;
    }
    const std::ptrdiff_t offset = body.bytes() - values_[owner[value]].body()->bytes();
    return static_cast<std::byte*>(arena_->data()) + plan.offsets[static_cast<std::size_t>(buffer)] + offset;
  };
  planned_calls_ = bind_kernels(place);
  calls_ = bind_kernels([&](graph::ValueId value) { return values_[value].body()->data; });
}

/// `place` gives the address of a value's elements.
template <class Place>
std::vector<std::unique_ptr<OpList::Call>> OpList::bind_kernels(const Place& place) const {
  std::vector<std::unique_ptr<Call>> calls;
  for (const ListedOp& op : ops_) {
    calls.push_back(nullptr);
    if (op.is_view) {
      continue;
    }
    auto call = std::make_unique<Call>();
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorBody& body = *values_[op.inputs[i]].body();
      call->operands[i] = {place(op.inputs[i]), &body.type, &body.strides, body.contiguous};
    }
    const TensorBody& output = *values_[op.output].body();
    call->kernel = {op.op,
                    call->operands.data(),
                    static_cast<int>(op.inputs.size()),
                    op.attributes,
                    {place(op.output), &output.type, &output.strides, true}};
    call->is_loop = op.op->elementwise() && kernels::bind(call->kernel, call->loop);
    calls.back() = std::move(call);
  }
  return calls;
}

void OpList::release(const ListedOp& op, std::vector<Tensor>& values) const {
  for (const graph::ValueId value : op.dying) {
    values[value] = Tensor();
  }
}

std::size_t OpList::run_recorded(std::size_t nodes) {
  const EnableGrad enable;
  const std::uint64_t start = autograd::next_serial();
  std::size_t count = 0;
  while (count < ops_.size() && autograd::next_serial() - start < nodes) {
    const ListedOp& op = ops_[count++];
    watched_[op.output] = apply_op(op, watched_);
    release(op, watched_);
  }
  for (std::size_t i = 0; i < count; ++i) {
    watched_[ops_[i].output] = Tensor();
  }
  return count;
}

void OpList::run_first(std::size_t count) {
  const NoGrad no_tape;
  for (std::size_t i = 0; i < count; ++i) {
    live_[ops_[i].output] = apply_op(ops_[i], live_);
    release(ops_[i], live_);
  }
  for (std::size_t i = 0; i < count; ++i) {
    live_[ops_[i].output] = Tensor();
  }
}

double OpList::seconds_within(std::span<const OpRange> ranges) {
  const NoGrad no_tape;
  double seconds = 0;
  std::size_t next = 0;
  const auto run_until = [&](std::size_t end) {
    for (; next < std::min(end, ops_.size()); ++next) {
      live_[ops_[next].output] = apply_op(ops_[next], live_);
      release(ops_[next], live_);
    }
  };
  for (const OpRange& range : ranges) {
    run_until(range.begin);
    const double start = steady_seconds();
    run_until(range.end);
    seconds += steady_seconds() - start;
  }
  run_until(ops_.size());
  for (const ListedOp& op : ops_) {
    live_[op.output] = Tensor();
  }
  return seconds;
}

void OpList::run_eager() { run_first(ops_.size()); }

void OpList::run_kernels() {
  for (const auto& call : planned_calls_) {
    if (call != nullptr) {
      call->run();
    }
  }
}

namespace {

void infer(const ListedOp& op, const std::vector<Tensor>& values) {
  std::array<const TensorType*, kMaxInputs> types{};
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    types[i] = &values[op.inputs[i]].body()->type;
  }
  TensorType output;
  op.op->infer_type({*op.op, {types.data(), op.inputs.size()}, op.attributes, Location::current()}, output);
  asm volatile("" : : "g"(&output) : "memory");
}

/// A tensor of the output's type; for a view, without its own elements.
Tensor allocate(const ListedOp& op, const std::vector<Tensor>& values) {
  TensorBody* body = new_body();
  Tensor result = Tensor::adopt(body);
  if (!op.is_view) {
    body->type = values[op.output].body()->type;
    allocate_dense(body);
  }
  return result;
}

}  // namespace

void OpList::run_inference() {
  for (const ListedOp& op : ops_) {
    infer(op, values_);
  }
}

void OpList::run_allocation() {
  for (const ListedOp& op : ops_) {
    live_[op.output] = allocate(op, values_);
    release(op, live_);
  }
  for (const ListedOp& op : ops_) {
    live_[op.output] = Tensor();
  }
}

std::vector<OpList::Kind> OpList::kinds() const {
  std::vector<Kind> kinds;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.name == ops_[i].op->name; });
    if (kind == kinds.end()) {
      kinds.push_back({ops_[i].op->name, {}});
      kind = std::prev(kinds.end());
    }
    kind->ops.push_back(i);
  }
  return kinds;
}

void OpList::apply_kind(const Kind& kind) const {
  const NoGrad no_tape;
  for (const std::size_t i : kind.ops) {
    apply_op(ops_[i], values_);
  }
}

void OpList::run_kernels_of(const Kind& kind) const {
  for (const std::size_t i : kind.ops) {
    if (calls_[i] != nullptr) {
      calls_[i]->run();
    }
  }
}

void OpList::infer_kind(const Kind& kind) const {
  for (const std::size_t i : kind.ops) {
    infer(ops_[i], values_);
  }
}

void OpList::allocate_kind(const Kind& kind) const {
  for (const std::size_t i : kind.ops) {
    allocate(ops_[i], values_);
  }
}

}  // namespace diptych::workloads
