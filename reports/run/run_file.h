#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// Reads and validates a run. Throws FileError, saying what is wrong, where, and how to fix it, if the file is missing,
/// truncated, not JSON, another program's JSON, a run of another version, doesn't fit the schema, nests deeper than
/// io::kDeepestJson, or has times that no clock measures (clock_range.h).
nlohmann::json load_run(const std::filesystem::path& path);

/// The two steps of `load_run`: reading the file as JSON (FileError if it is missing, empty, truncated, foreign, too
/// deep, not a regular file, or larger than 256 MiB), and checking that it is a run. `path` is only for messages.
std::string read_text_file(const std::filesystem::path& path);
nlohmann::json parse_json(const std::filesystem::path& path, const std::string& content);
void check_run(const std::filesystem::path& path, const nlohmann::json& run);

/// The run as text: indented, ASCII only, broken UTF-8 in names replaced, newline at the end.
std::string to_text(const nlohmann::json& run);

/// Writes the whole text or nothing: a temporary file in the same folder, every write checked, fsync, then rename. An
/// older file stays untouched until the rename. Throws FileError if the disk is full, the folder is unwritable, ...
void write_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace diptych::reports
