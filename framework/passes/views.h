#pragma once

#include "framework/core/attributes.h"
#include "framework/ops/shape_ops.h"

namespace diptych::passes {

/// Of a reshape or an expand that a pass inserts.
inline AttributeValue to_shape(const Shape& shape) {
  const ops::ShapeAttributes attributes{shape};
  return {&attribute_type<ops::ShapeAttributes>, &attributes};
}

}  // namespace diptych::passes
