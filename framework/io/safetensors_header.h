#pragma once

#include <cstdint>

#include "framework/io/safetensors.h"

/// The JSON header of a safetensors file: the part that can't be trusted.
namespace diptych::io::detail {

struct HeaderEntry {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0;  ///< bytes after the header
  std::uint64_t end = 0;
};

struct Header {
  std::vector<HeaderEntry> entries;  ///< by `begin`
  std::map<std::string, std::string> metadata;
};

/// Checked: every entry has the bytes of its type, and together they are exactly the `data_bytes` behind the header.
Header parse_header(std::string_view json, std::uint64_t data_bytes, const std::string& origin);

/// The header of `file`, padded with spaces so that the elements behind it are aligned to 8 bytes; `order` gets the
/// tensors in the order in which their elements follow.
std::string print_header(const TensorFile& file, std::vector<const NamedTensor*>& order);

}  // namespace diptych::io::detail
