#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace diptych::profiler {

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct ElfSection {
  std::string name;
  ByteRange bytes;  ///< in the file
};

/// The sections that have bytes in the file, in the order of their headers. Empty for files that are not 64-bit ELF,
/// have the other byte order, are broken, or have no section headers. [System V ABI, ch. 4]
std::vector<ElfSection> elf_sections(const std::filesystem::path& path);

/// The contents of the section; nullopt if there is none of that name.
std::optional<std::string> read_section(const std::filesystem::path& path, std::string_view name);

}  // namespace diptych::profiler
