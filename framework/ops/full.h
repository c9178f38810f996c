#pragma once

#include "framework/ops/op.h"

namespace diptych {

/// Public, because passes recognise constants by it.
struct FullAttributes {
  Shape shape;
  DType dtype = DType::float32;
  double value = 0;

  static constexpr auto fields() {
    return std::tuple(field("shape", &FullAttributes::shape), field("dtype", &FullAttributes::dtype),
                      field("value", &FullAttributes::value));
  }
};

const OpDef& full_op();

}  // namespace diptych
