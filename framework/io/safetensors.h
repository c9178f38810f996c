#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/tensor.h"

/// The safetensors format [huggingface/safetensors, README "Format"]: named tensors in one file that other libraries
/// can read too. Types F32, F64, BF16, I32, I64, U8, BOOL; little-endian, row-major, dense.
///
///   8 bytes   length of the header, little-endian
///   header    {"<name>": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ..., "__metadata__": {"k": "v"}}
///   elements  without holes or overlaps
namespace diptych::io {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct TensorFile {
  std::vector<NamedTensor> tensors;  ///< in the order of their elements in the file
  std::map<std::string, std::string> metadata;

  /// Null if there is no tensor of this name.
  const Tensor* find(std::string_view name) const;
};

/// Maximum length in bytes of a header, for reading and writing, as in the reference implementation.
inline constexpr std::size_t kMaxHeaderBytes = 100'000'000;

/// Writes a new file and moves it to `path` when it is complete and on disk: readers of `path` see either the old file
/// or the new one, and an error leaves nothing behind. Throws Error for names that occur twice or are not UTF-8,
/// FileError.
void save_safetensors(const std::filesystem::path& path, const TensorFile& file);

/// Throws FileError, which names the tensor and the problem, for anything but a well-formed file. Allocates no more
/// than the file has bytes, whatever its header claims.
TensorFile load_safetensors(const std::filesystem::path& path);

/// The same from memory; `origin` names it in messages.
TensorFile parse_safetensors(std::string_view bytes, const std::string& origin);

}  // namespace diptych::io
