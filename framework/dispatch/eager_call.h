#pragma once

#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"

/// Shared by direct eager and interpreters that compute.
namespace diptych::detail {

/// Throws for a wrong number of inputs, and for an input that is undefined or traced.
[[noreturn]] void fail_inputs(const OpDef& op, std::span<const Tensor* const> inputs, Location where);

/// Makes `output`, which has its type set, a view of `input`; false if the op gives no view for this layout.
inline bool make_view(const OpDef& op, const TensorBody& input, const void* attributes, TensorBody* output) {
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

}  // namespace diptych::detail
