#include "framework/dispatch/apply.h"

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/lengths.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/eager_call.h"
#include "framework/dispatch/element_error.h"
#include "framework/dispatch/tape.h"

namespace diptych {

[[gnu::noinline, gnu::cold]] void detail::fail_inputs(const OpDef& op, std::span<const Tensor* const> inputs,
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

namespace {

using detail::fail_inputs;
using detail::make_view;

[[gnu::noinline, gnu::cold]] void make_inputs_ready(const OpDef& op, std::span<const Tensor* const> inputs,
                                                    Location where) {
  for (const Tensor* input : inputs) {
    if (!input->defined() || input->is_traced()) {
      fail_inputs(op, inputs, where);
    }
    make_ready(*input->body());
  }
}

/// The result of an eager op whose kernel runs immediately.
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
  op.infer_type({op, {types, count}, attributes, where}, output->type);
  if (op.view != nullptr && make_view(op, *inputs[0]->body(), attributes, output)) {
    return result;
  }
  allocate_dense(output, op.name, where);
  try {
    op.kernel(
        {&op, operands, static_cast<int>(count), attributes, {output->data, &output->type, &output->strides, true}});
  } catch (ElementError& error) {
    error.locate(where);
    throw;
  }
  return result;
}

Tensor compute_in_zone(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where) {
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
  Interpreter* const interpreter = context.interpreter;
  Tensor result = interpreter == nullptr ? compute_in_zone(op, inputs, attributes, where)
                                         : interpreter->apply(op, inputs, attributes, where);
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
