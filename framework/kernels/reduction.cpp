#include "framework/kernels/reduction.h"

namespace diptych::kernels {

ReductionPlan plan_reduction(const Operand& input, const Axes& axes) {
  ReductionPlan plan;
  const Shape& shape = input.type->shape;
  const auto append = [](int& rank, std::int64_t* lengths, std::int64_t* strides, std::int64_t length,
                         std::int64_t stride) {
    if (length == 1) {
      return;
    }
    if (rank > 0 && strides[rank - 1] == stride * length) {
      lengths[rank - 1] *= length;
      strides[rank - 1] = stride;
    } else {
      lengths[rank] = length;
      strides[rank] = stride;
      ++rank;
    }
  };
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t length = shape[axis];
    const std::int64_t stride = (*input.strides)[axis];
    if (axes.contains(axis)) {
      plan.length *= length;
      append(plan.reduced_rank, plan.reduced, plan.reduced_strides, length, stride);
    } else {
      plan.outputs *= length;
      append(plan.kept_rank, plan.kept, plan.kept_strides, length, stride);
    }
  }
  return plan;
}

}  // namespace diptych::kernels
