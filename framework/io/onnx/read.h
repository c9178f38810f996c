#pragma once

#include <filesystem>
#include <string>

#include "framework/core/tensor.h"

namespace diptych::onnx {

/// The tensor of a TensorProto's bytes; `path`: the file that they are from, for messages.
Tensor parse_tensor(const std::string& bytes, const std::filesystem::path& path);

}  // namespace diptych::onnx
