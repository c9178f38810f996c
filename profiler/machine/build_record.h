#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/machine/packages.h"

/// A program's record of its own build, in a section that contains nothing else (cmake/BuildRecord.cmake writes it).
namespace diptych::profiler {

inline constexpr std::string_view build_record_section = ".diptych_build";

struct BuildRecord {
  std::optional<std::string> git_sha;  ///< 40 (or 64) hexadecimal digits
  std::optional<bool> git_dirty;       ///< sources of the program differed from that revision
  std::string git_reason;              ///< why the revision isn't known
  std::vector<Package> tools;          ///< compiler and linker
  std::vector<Package> compiled_in;    ///< header-only libraries
};

/// Lines "key=value", up to the first zero byte. Unknown keys and invalid values are ignored.
BuildRecord parse_build_record(std::string_view text);

/// The record of a program file; without one, only `git_reason` is set.
BuildRecord read_build_record(const std::filesystem::path& program);

}  // namespace diptych::profiler
