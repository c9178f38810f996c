#include "framework/kernels/elementwise.h"

namespace diptych::kernels {

bool linear_strides(const KernelCall& call, std::int64_t* strides) {
  const Shape& shape = call.output.type->shape;
  for (int i = 0; i < call.input_count; ++i) {
    const Operand& input = call.inputs[i];
    if (input.contiguous && input.type->shape == shape) [[likely]] {
      strides[i] = static_cast<std::int64_t>(size_of(input.type->dtype));
    } else if (input.type->shape.product() == 1) {
      strides[i] = 0;
    } else {
      return false;
    }
  }
  strides[call.input_count] = static_cast<std::int64_t>(size_of(call.output.type->dtype));
  return true;
}

ElementwisePlan plan_elementwise(const KernelCall& call) {
  const Shape& shape = call.output.type->shape;
  const int rank = shape.rank();
  const int operands = call.input_count + 1;

  // Byte strides of every operand, broadcast to the output's shape.
  std::int64_t strides[kMaxRank][kMaxElementwiseInputs + 1] = {};
  for (int k = 0; k < operands; ++k) {
    const Operand& operand = k < call.input_count ? call.inputs[k] : call.output;
    const int offset = rank - operand.type->shape.rank();
    for (int axis = offset; axis < rank; ++axis) {
      const bool repeated = operand.type->shape[axis - offset] == 1;
      strides[axis][k] =
          repeated ? 0 : (*operand.strides)[axis - offset] * static_cast<std::int64_t>(size_of(operand.type->dtype));
    }
  }

  // Merge neighbouring axes that every operand walks as one; drop axes of length 1.
  std::int64_t lengths[kMaxRank];
  std::int64_t merged[kMaxRank][kMaxElementwiseInputs + 1];
  int count = 0;
  for (int axis = 0; axis < rank; ++axis) {
    if (shape[axis] == 1) {
      continue;
    }
    bool mergeable = count > 0;
    for (int k = 0; mergeable && k < operands; ++k) {
      mergeable = merged[count - 1][k] == strides[axis][k] * shape[axis];
    }
    if (mergeable) {
      lengths[count - 1] *= shape[axis];
    } else {
      lengths[count++] = shape[axis];
    }
    for (int k = 0; k < operands; ++k) {
      merged[count - 1][k] = strides[axis][k];
    }
  }

  ElementwisePlan plan;
  if (count == 0) {  // a single element, or none of rank 0
    plan.inner = shape.product();
    return plan;
  }
  plan.inner = lengths[count - 1];
  plan.outer_rank = count - 1;
  for (int k = 0; k < operands; ++k) {
    plan.inner_strides[k] = merged[count - 1][k];
    for (int axis = 0; axis < plan.outer_rank; ++axis) {
      plan.outer_strides[axis][k] = merged[axis][k];
    }
  }
  for (int axis = 0; axis < plan.outer_rank; ++axis) {
    plan.outer[axis] = lengths[axis];
  }
  return plan;
}

void run_elementwise(const ElementwisePlan& plan, LoopFn loop, void* const* data, int operands,
                     const void* attributes) {
  if (plan.inner == 0) {
    return;
  }
  if (plan.outer_rank == 0) {
    loop(plan.inner, data, plan.inner_strides, attributes);
    return;
  }
  for (int axis = 0; axis < plan.outer_rank; ++axis) {
    if (plan.outer[axis] == 0) {
      return;
    }
  }
  void* pointers[kMaxElementwiseInputs + 1];
  for (int k = 0; k < operands; ++k) {
    pointers[k] = data[k];
  }
  std::int64_t index[kMaxRank] = {};
  for (;;) {
    loop(plan.inner, pointers, plan.inner_strides, attributes);
    int axis = plan.outer_rank - 1;
    for (;; --axis) {
      if (axis < 0) {
        return;
      }
      const bool wraps = ++index[axis] == plan.outer[axis];
      const std::int64_t steps = wraps ? 1 - plan.outer[axis] : 1;
      for (int k = 0; k < operands; ++k) {
        pointers[k] = static_cast<std::byte*>(pointers[k]) + plan.outer_strides[axis][k] * steps;
      }
      if (!wraps) {
        break;
      }
      index[axis] = 0;
    }
  }
}

void elementwise(const KernelCall& call) {
  const TensorType* types[kMaxElementwiseInputs];
  void* data[kMaxElementwiseInputs + 1];
  for (int i = 0; i < call.input_count; ++i) {
    types[i] = call.inputs[i].type;
    data[i] = call.inputs[i].data;
  }
  data[call.input_count] = call.output.data;
  const LoopFn loop = call.op->loop({types, static_cast<std::size_t>(call.input_count)}, *call.output.type);
  std::int64_t strides[kMaxElementwiseInputs + 1];
  if (linear_strides(call, strides)) [[likely]] {
    loop(call.output.type->shape.product(), data, strides, call.attributes);
    return;
  }
  run_elementwise(plan_elementwise(call), loop, data, call.input_count + 1, call.attributes);
}

}  // namespace diptych::kernels
