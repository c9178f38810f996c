#include "framework/kernels/reduction.h"

#include <cstring>

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

namespace {

/// Depends only on the size of an element, not on its type.
template <std::size_t size>
void gather_elements(const ReductionPlan& plan, const std::byte* from, std::byte* to) {
  const int last = plan.reduced_rank - 1;
  const std::int64_t run = plan.reduced[last];
  const std::int64_t stride = plan.reduced_strides[last] * static_cast<std::int64_t>(size);
  for (std::int64_t index = 0; index < plan.length; index += run) {
    const std::byte* start =
        from + ReductionPlan::offset(index / run, last, plan.reduced, plan.reduced_strides) * std::int64_t{size};
    if (stride == std::int64_t{size}) {
      std::memcpy(to, start, static_cast<std::size_t>(run) * size);
      to += run * std::int64_t{size};
      continue;
    }
    for (std::int64_t i = 0; i < run; ++i, start += stride, to += size) {
      std::memcpy(to, start, size);
    }
  }
}

}  // namespace

void gather_reduced(const ReductionPlan& plan, const void* in, std::size_t element_size, void* to) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* out = static_cast<std::byte*>(to);
  switch (element_size) {
    case 1:
      return gather_elements<1>(plan, from, out);
    case 2:
      return gather_elements<2>(plan, from, out);
    case 4:
      return gather_elements<4>(plan, from, out);
    default:
      return gather_elements<8>(plan, from, out);
  }
}

}  // namespace diptych::kernels
