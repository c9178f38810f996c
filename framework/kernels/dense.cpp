#include "framework/kernels/dense.h"

#include "framework/kernels/elementwise.h"

namespace diptych::kernels {

Dense::Dense(const Operand& operand) : data_(operand.data) {
  if (operand.contiguous) {
    return;
  }
  static const OpDef* const copy_op = find_op("copy");
  const Strides strides = contiguous_strides(operand.type->shape);
  copy_ = allocate_storage(static_cast<std::size_t>(operand.type->shape.product()) * size_of(operand.type->dtype));
  elementwise({copy_op, &operand, 1, nullptr, {copy_->data(), operand.type, &strides, true}});
  data_ = copy_->data();
}

}  // namespace diptych::kernels
