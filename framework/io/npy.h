#pragma once

#include <filesystem>

#include "framework/core/tensor.h"

namespace diptych::io {

/// Loads an array saved by NumPy [NumPy, "NPY format"]: versions 1 to 3, little-endian, of the engine's types,
/// row-major (column-major arrays are transposed). Throws FileError, which says what is wrong.
Tensor load_npy(const std::filesystem::path& path);
/// Writes version 1; bf16 is saved as float32, because NumPy has no bf16. An error leaves no file behind. Throws
/// FileError.
void save_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace diptych::io
