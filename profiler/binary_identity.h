#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace diptych::profiler {

struct LoadedObject {
  std::string name;                     ///< file name without its folder; "" for the program itself
  std::optional<std::string> build_id;  ///< hexadecimal; nullopt where the linker wrote none
};

/// The program (first) and its shared libraries, from memory.
std::vector<LoadedObject> loaded_objects();

/// Hexadecimal SHA-256 of a file; nullopt if it can't be read, or if built without OpenSSL.
std::optional<std::string> sha256_of_file(const std::filesystem::path& path);

/// Whether sha256_of_file() can work at all.
bool has_sha256() noexcept;

}  // namespace diptych::profiler
