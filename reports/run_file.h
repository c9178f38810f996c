#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// Reads and validates a run. Throws FileError, saying what, where and how to fix it, when the file is missing,
/// truncated, not JSON, another program's JSON, another version's run, or doesn't fit the schema.
nlohmann::json load_run(const std::filesystem::path& path);

/// The two steps of `load_run`: what the file says as JSON (missing, empty, truncated and foreign files are
/// FileErrors), and the check that it is a run. `path` only names it in messages.
std::string read_text_file(const std::filesystem::path& path);
nlohmann::json parse_json(const std::filesystem::path& path, const std::string& content);
void check_run(const std::filesystem::path& path, const nlohmann::json& run);

/// The run as text: indented, ASCII only, broken UTF-8 in names replaced, newline at the end.
std::string to_text(const nlohmann::json& run);

/// Writes the whole text or nothing: a temporary file in the same folder, every write checked, fsync, then rename.
/// An older file stays untouched until the rename. Throws FileError on a full disk, an unwritable folder, ...
void write_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace diptych::reports
