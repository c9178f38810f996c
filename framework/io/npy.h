#pragma once

#include <filesystem>

#include "framework/core/tensor.h"

namespace diptych::io {

/// An array that NumPy has saved [NumPy, "NPY format"]: versions 1 to 3, little-endian, of the engine's types,
/// row-major (column-major ones are turned). Throws FileError, which says what is wrong.
Tensor load_npy(const std::filesystem::path& path);
/// Version 1; bf16 is saved as float32, NumPy has none. An error leaves no file behind. Throws FileError.
void save_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace diptych::io
