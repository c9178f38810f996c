#include "framework/ops/apply.h"

#include <fmt/format.h>

#include "framework/autograd/tape.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/graph/capture.h"
#include "framework/runtime/launch_queue.h"
#include "framework/runtime/pipeline.h"

namespace diptych {
namespace {

[[noreturn, gnu::noinline, gnu::cold]] void fail_inputs(const OpDef& op, std::span<const Tensor* const> inputs,
                                                        Location where) {
  if (!op.takes(inputs.size())) {
    throw Error(fmt::format("{}: takes {} inputs, got {}", op.name, op.arity(), inputs.size()), where, "");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->defined()) {
      throw Error(fmt::format("{}: input {} is undefined", op.name, i), where, "assign a value to it first");
    }
    if (inputs[i]->is_traced()) {
      throw CaptureError(fmt::format("{}: input {} belongs to a graph whose capture has ended", op.name, i), where,
                         "return it from the captured function instead of keeping it");
    }
  }
  throw InternalError("inputs were refused without a reason");
}

[[gnu::noinline, gnu::cold]] void make_inputs_ready(const OpDef& op, std::span<const Tensor* const> inputs,
                                                    Location where) {
  for (const Tensor* input : inputs) {
    if (!input->defined() || input->is_traced()) {
      fail_inputs(op, inputs, where);
    }
    make_ready(*input->body());
  }
}

/// Makes `output` a view of `input`, if the op has one for this layout.
bool make_view(const OpDef& op, const TensorBody& input, const void* attributes, TensorBody* output) {
  Layout layout;
  if (!op.view(input.type, input.strides, output->type, attributes, layout)) {
    return false;
  }
  output->strides = layout.strides;
  output->numel = output->type.shape.product();
  output->storage = input.storage;
  output->storage->viewed = true;
  output->data = input.bytes() + layout.offset * static_cast<std::int64_t>(size_of(input.type.dtype));
  output->contiguous = is_contiguous(output->type.shape, output->strides);
  output->is_pending = input.is_pending;
  return true;
}

/// The result of an eager op whose kernel runs now.
Tensor compute(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where) {
  const TensorType* types[kMaxInputs];
  Operand operands[kMaxInputs];
  const auto count = inputs.size();
  if (!op.takes(count)) [[unlikely]] {
    fail_inputs(op, inputs, where);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const TensorBody* body = inputs[i]->body();
    if (body == nullptr || (body->is_traced | body->is_pending)) [[unlikely]] {
      make_inputs_ready(op, inputs, where);
    }
    types[i] = &body->type;
    operands[i] = {body->data, &body->type, &body->strides, body->contiguous};
  }

  TensorBody* output = new_body();
  Tensor result = Tensor::adopt(output);
  op.infer({op, {types, count}, attributes, where}, output->type);
  if (op.view != nullptr && make_view(op, *inputs[0]->body(), attributes, output)) {
    return result;
  }
  allocate_dense(output);
  op.kernel(
      {&op, operands, static_cast<int>(count), attributes, {output->data, &output->type, &output->strides, true}});
  return result;
}

/// The result of an eager op whose kernel is handed to the launch thread.
Tensor launch(runtime::LaunchQueue& queue, const OpDef& op, std::span<const Tensor* const> inputs,
              const void* attributes, Location where) {
  const TensorType* types[kMaxInputs];
  Operand operands[kMaxInputs];
  const auto count = inputs.size();
  if (!op.takes(count)) [[unlikely]] {
    fail_inputs(op, inputs, where);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const TensorBody* body = inputs[i]->body();
    if (body == nullptr || body->is_traced) [[unlikely]] {
      fail_inputs(op, inputs, where);
    }
    if (body->is_pending && body->storage->launch_queue != queue.id()) [[unlikely]] {
      make_ready(*body);
    }
    types[i] = &body->type;
    operands[i] = {body->data, &body->type, &body->strides, body->contiguous};
  }

  TensorBody* output = new_body();
  Tensor result = Tensor::adopt(output);
  op.infer({op, {types, count}, attributes, where}, output->type);
  if (op.view != nullptr && make_view(op, *inputs[0]->body(), attributes, output)) {
    return result;
  }
  const std::int64_t bytes = output->type.shape.product() * static_cast<std::int64_t>(size_of(output->type.dtype));
  queue.reserve(bytes);
  allocate_dense(output);
  queue.submit(
      {&op, operands, static_cast<int>(count), attributes, {output->data, &output->type, &output->strides, true}},
      inputs, result, bytes, where);
  return result;
}

constexpr trace::Label kDispatch{"dispatch", trace::Category::op};

/// Under capture, or pipelined. A pipelined kernel has its own zone, on the launch thread.
[[gnu::noinline]] Tensor defer(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes,
                               Location where) {
  if (graph::Capture* capture = thread_context.capture) {
    const trace::Zone zone(&op.label);
    return capture->record(op, inputs, attributes, where);
  }
  if (op.effect) {
    synchronize();  // what it does is seen in the program's order
    const trace::Zone zone(&op.label);
    return compute(op, inputs, attributes, where);
  }
  Tensor result;
  {
    const trace::Zone zone(&kDispatch);
    result = launch(*thread_context.launch_queue, op, inputs, attributes, where);
  }
  if (launch_blocking()) [[unlikely]] {
    synchronize();
  }
  return result;
}

Tensor compute_traced(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where) {
  const trace::Zone zone(&op.label);
  return compute(op, inputs, attributes, where);
}

}  // namespace

Tensor apply_eager(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where) {
  return compute(op, inputs, attributes, where);
}

Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where) {
  ThreadContext& context = thread_context;
  ++context.dispatches;
  // One branch for both.
  const bool direct = (context.capture == nullptr) & (context.launch_queue == nullptr);
  Tensor result = direct ? compute_traced(op, inputs, attributes, where) : defer(op, inputs, attributes, where);
  if (context.grad_enabled) {
    std::uint32_t watched = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      watched |= static_cast<std::uint32_t>(static_cast<bool>(inputs[i]->body()->tape)) << i;
    }
    if (watched != 0) {
      autograd::record(op, inputs, watched, attributes, result, where);
    }
  }
  return result;
}

}  // namespace diptych
