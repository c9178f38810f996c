#pragma once

#include <cstdint>

#include "framework/io/safetensors.h"

/// The JSON header of a safetensors file: the untrusted part.
namespace diptych::io::detail {

struct HeaderEntry {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0;  ///< bytes after the header
  std::uint64_t end = 0;
};

struct Header {
  std::vector<HeaderEntry> entries;  ///< sorted by `begin`
  std::map<std::string, std::string> metadata;
};

/// Checked: every entry has as many bytes as its type requires, and together they are exactly the `data_bytes` after
/// the header.
Header parse_header(std::string_view json, std::uint64_t data_bytes, const std::string& origin);

/// The header of `file`, padded with spaces so that the elements after it are aligned to 8 bytes; `order` receives the
/// tensors in the order of their elements.
std::string print_header(const TensorFile& file, std::vector<const NamedTensor*>& order);

}  // namespace diptych::io::detail
