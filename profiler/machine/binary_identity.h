#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "profiler/machine/elf_file.h"

namespace diptych::profiler {

struct LoadedObject {
  std::string name;                     ///< file name without its folder; "" for the program itself
  std::string path;                     ///< of the mapped file, with links resolved; "" for the program, and the vDSO
  std::optional<std::string> build_id;  ///< hexadecimal; nullopt if the linker wrote none
};

/// The program (first) and its shared libraries, as found in memory.
std::vector<LoadedObject> loaded_objects();

/// Hexadecimal SHA-256 of a file, excluding some ranges of its bytes (sorted, not overlapping); nullopt if it can't be
/// read, or if built without OpenSSL.
std::optional<std::string> sha256_of_file(const std::filesystem::path& path,
                                          const std::vector<ByteRange>& without = {});

/// The same, excluding the parts that identify the revision: the build record, and the linker's build id, which is
/// derived from it. Equal for two revisions that compile to the same code. Also nullopt if the sections aren't found.
std::optional<std::string> sha256_of_code(const std::filesystem::path& program);

/// Whether sha256_of_file() can work at all.
bool has_sha256() noexcept;

}  // namespace diptych::profiler
