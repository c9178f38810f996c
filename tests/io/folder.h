#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "framework/core/temporary_folder.h"

namespace diptych::testing {

/// A folder for one test.
class Folder {
 public:
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
  const std::filesystem::path& path() const { return folder_.path(); }
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path())) {
      ++count;
    }
    return count;
  }

 private:
  TemporaryFolder folder_{"diptych-io"};
};

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A safetensors file by the format's description: length, header, elements.
inline std::string safetensors_bytes(const std::string& header, const std::string& elements) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + elements;
}

}  // namespace diptych::testing
