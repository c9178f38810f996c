#pragma once

#include "framework/core/dtype.h"

namespace diptych::kernels {

/// Calls `fn.template operator()<T>()` with float or double: the types of kernels that through_float() calls.
template <class Fn>
void visit_wide_float(DType dtype, const Fn& fn) {
  dtype == DType::float32 ? fn.template operator()<float>() : fn.template operator()<double>();
}

}  // namespace diptych::kernels
