#pragma once

#include <string_view>

#include "framework/io/onnx/operators.h"

namespace diptych::onnx {

/// `translation` of the operator `op`, for inputs of types for storage, too. An operator that only moves elements is
/// given them as they are. Any other gets them in the types that the engine computes in, and its results go back to the
/// type of its input: f16 is computed in f32 and rounded once, integers wrap around.
Translation for_storage_types(std::string_view op, Translation translation);

}  // namespace diptych::onnx
