#include "framework/kernels/elementwise.h"

#include <algorithm>

#include "framework/core/strided_copy.h"
#include "framework/kernels/bound_call.h"

namespace diptych::kernels {

void detail::run_in_blocks(LoopFn loop, int inputs, const std::int64_t* sizes, const Plane& plane, void* const* data,
                           const void* attributes) {
  // All operands of a block fit the L1 cache; a transposed one is copied by tiles, so rows are short.
  constexpr std::int64_t kBlock = 1024;
  constexpr std::int64_t kColumnsOfBlock = 64;
  alignas(64) std::byte room[kMaxElementwiseInputs + 1][kBlock * sizeof(double)];
  const std::int64_t width =
      plane.rows == 1 ? std::min(plane.columns, kBlock) : std::min(plane.columns, kColumnsOfBlock);
  const std::int64_t height = std::min(plane.rows, kBlock / std::max<std::int64_t>(width, 1));
  bool filled[kMaxElementwiseInputs + 1] = {};
  for (std::int64_t row = 0; row < plane.rows; row += height) {
    const std::int64_t rows = std::min(height, plane.rows - row);
    for (std::int64_t column = 0; column < plane.columns; column += width) {
      const std::int64_t columns = std::min(width, plane.columns - column);
      const auto place = [&](int k) {
        return static_cast<std::byte*>(data[k]) + row * plane.row_strides[k] + column * plane.strides[k];
      };
      const auto is_dense = [&](int k) {
        return plane.strides[k] == sizes[k] && (rows == 1 || plane.row_strides[k] == columns * sizes[k]);
      };
      const auto strides_of = [&](int k) {
        return Strides{plane.row_strides[k] / sizes[k], plane.strides[k] / sizes[k]};
      };
      const auto size_of_element = [&](int k) { return static_cast<std::size_t>(sizes[k]); };
      void* block[kMaxElementwiseInputs + 1];
      for (int k = 0; k <= inputs; ++k) {
        block[k] = is_dense(k) ? place(k) : static_cast<void*>(room[k]);
        if (block[k] == room[k] && k < inputs && !filled[k]) {
          strided_copy({rows, columns}, size_of_element(k), place(k), strides_of(k), room[k], {columns, 1});
          // A single value serves all blocks, because the first block is the largest.
          filled[k] = plane.strides[k] == 0 && (plane.rows == 1 || plane.row_strides[k] == 0);
        }
      }
      loop(rows * columns, block, sizes, attributes);
      if (block[inputs] == room[inputs]) {
        strided_copy({rows, columns}, size_of_element(inputs), room[inputs], {columns, 1}, place(inputs),
                     strides_of(inputs));
      }
    }
  }
}

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

void broadcast_strides(const TensorType& type, const Strides& strides, const Shape& shape, std::int64_t* to,
                       std::int64_t apart) {
  const int offset = shape.rank() - type.shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool repeated = axis < offset || type.shape[axis - offset] == 1;
    to[axis * apart] = repeated ? 0 : strides[axis - offset] * static_cast<std::int64_t>(size_of(type.dtype));
  }
}

int merge_axes(const Shape& shape, int operands, std::int64_t* lengths, std::int64_t* strides) {
  int count = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) {
      continue;
    }
    const std::int64_t* const here = strides + static_cast<std::ptrdiff_t>(axis) * operands;
    bool mergeable = count > 0;
    for (int k = 0; mergeable && k < operands; ++k) {
      mergeable = strides[(count - 1) * operands + k] == here[k] * shape[axis];
    }
    if (mergeable) {
      lengths[count - 1] *= shape[axis];
    } else {
      lengths[count++] = shape[axis];
    }
    for (int k = 0; k < operands; ++k) {
      strides[(count - 1) * operands + k] = here[k];
    }
  }
  return count;
}

ElementwisePlan plan_elementwise(const KernelCall& call) {
  const Shape& shape = call.output.type->shape;
  const int operands = call.input_count + 1;
  std::int64_t strides[kMaxRank * (kMaxElementwiseInputs + 1)];
  for (int k = 0; k < operands; ++k) {
    const Operand& operand = k < call.input_count ? call.inputs[k] : call.output;
    broadcast_strides(*operand.type, *operand.strides, shape, strides + k, operands);
  }
  std::int64_t lengths[kMaxRank];
  const int count = merge_axes(shape, operands, lengths, strides);
  const auto merged = [&](int axis, int k) { return strides[axis * operands + k]; };

  ElementwisePlan plan;
  for (int k = 0; k < operands; ++k) {
    plan.sizes[k] =
        static_cast<std::int64_t>(size_of((k < call.input_count ? call.inputs[k] : call.output).type->dtype));
  }
  if (count == 0) {  // a single element, or an empty tensor of rank 0
    plan.inner = shape.product();
    return plan;
  }
  plan.inner = lengths[count - 1];
  plan.outer_rank = count - 1;
  unsigned pattern = 0;
  for (int k = 0; k < operands; ++k) {
    plan.inner_strides[k] = merged(count - 1, k);
    pattern |= static_cast<unsigned>(merged(count - 1, k) == 0) << k;
    plan.is_strided = plan.is_strided || (merged(count - 1, k) != 0 && merged(count - 1, k) != plan.sizes[k]);
    for (int axis = 0; axis < plan.outer_rank; ++axis) {
      plan.outer_strides[axis][k] = merged(axis, k);
    }
  }
  plan.is_strided = plan.is_strided || !detail::has_loop(static_cast<std::size_t>(call.input_count), pattern);
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
  for (int axis = 0; axis < plan.outer_rank; ++axis) {
    if (plan.outer[axis] == 0) {
      return;
    }
  }
  // Blocks are gathered from the last two axes at once.
  const int walked = plan.is_strided && plan.outer_rank > 0 ? plan.outer_rank - 1 : plan.outer_rank;
  const bool has_rows = walked < plan.outer_rank;
  const std::int64_t no_strides[kMaxElementwiseInputs + 1] = {};
  const detail::Plane plane{has_rows ? plan.outer[walked] : 1, plan.inner,
                            has_rows ? plan.outer_strides[walked] : no_strides, plan.inner_strides};
  void* pointers[kMaxElementwiseInputs + 1];
  for (int k = 0; k < operands; ++k) {
    pointers[k] = data[k];
  }
  std::int64_t index[kMaxRank] = {};
  for (;;) {
    if (plan.is_strided) {
      detail::run_in_blocks(loop, operands - 1, plan.sizes, plane, pointers, attributes);
    } else {
      loop(plan.inner, pointers, plan.inner_strides, attributes);
    }
    int axis = walked - 1;
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

void LinearCall::run_in_parts(int operands, const void* attributes) const {
  constexpr std::int64_t kTogether = 1024;  // elements, so that parts share no cache line
  parallel_for((count + kTogether - 1) / kTogether, kTogether * kNanosecondsOfScalar,
               [&](std::int64_t first, std::int64_t last) {
                 void* part[kMaxElementwiseInputs + 1];
                 for (int k = 0; k < operands; ++k) {
                   part[k] = static_cast<std::byte*>(data[k]) + first * kTogether * strides[k];
                 }
                 loop(std::min(last * kTogether, count) - first * kTogether, part, strides, attributes);
               });
}

void StridedCall::run(int operands, const void* attributes) const {
  if (thread_count() == 1) [[likely]] {
    run_elementwise(plan, loop, data, operands, attributes);
    return;
  }
  const bool has_outer = plan.outer_rank > 0;
  const std::int64_t items = has_outer ? plan.outer[0] : plan.inner;
  double nanoseconds = kNanosecondsOfScalar;
  for (int axis = 1; axis < plan.outer_rank; ++axis) {
    nanoseconds *= static_cast<double>(plan.outer[axis]);
  }
  nanoseconds *= has_outer ? static_cast<double>(plan.inner) : 1;
  parallel_for(items, nanoseconds, [&](std::int64_t first, std::int64_t last) {
    ElementwisePlan part = plan;
    (has_outer ? part.outer[0] : part.inner) = last - first;
    void* pointers[kMaxElementwiseInputs + 1];
    for (int k = 0; k < operands; ++k) {
      pointers[k] =
          static_cast<std::byte*>(data[k]) + first * (has_outer ? plan.outer_strides[0] : plan.inner_strides)[k];
    }
    run_elementwise(part, loop, pointers, operands, attributes);
  });
}

void elementwise(const KernelCall& call) {
  LinearCall linear;
  if (bind(call, linear)) [[likely]] {
    linear.run(call.input_count + 1, call.attributes);
    return;
  }
  StridedCall strided;
  bind(call, strided);
  strided.run(call.input_count + 1, call.attributes);
}

}  // namespace diptych::kernels
