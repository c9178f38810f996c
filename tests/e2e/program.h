#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/core/temporary_folder.h"
#include "tests/e2e/process.h"

/// The `diptych` program and the folders that it writes.
namespace diptych::testing {

/// `diptych ARGUMENTS...` in `folder`.
Command diptych_command(const std::vector<std::string>& arguments, const std::filesystem::path& folder);
Outcome diptych(const std::vector<std::string>& arguments, const std::filesystem::path& folder);
/// `script` for bash, with the program as $0 and these arguments, in `folder`.
Outcome shell(const std::string& script, const std::vector<std::string>& arguments,
              const std::filesystem::path& folder);
/// The run.json of `diptych run ARGUMENTS...`, which has to succeed; it has to fit the schema.
nlohmann::json run_json(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                        Outcome* outcome = nullptr);
/// `diptych ARGUMENTS...`, which has to be refused.
Outcome refused(const std::vector<std::string>& arguments, const std::filesystem::path& folder);
/// Whether these arguments are refused with a message that has `said`, before anything is measured or written.
void expect_usage_error(const std::vector<std::string>& arguments, const std::string& said);

std::string read_text(const std::filesystem::path& path);
nlohmann::json read_json(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);
/// Everything below `folder`, sorted, relative to it; folders end with '/'.
std::vector<std::string> tree(const std::filesystem::path& folder);
/// The run folders in `<folder>/diptych-out`, sorted.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);
/// The one run folder; throws unless there is exactly one.
std::filesystem::path run_folder(const std::filesystem::path& folder);
/// It is there, and has its run.json.
bool has_run_json(const std::filesystem::path& folder);
/// Temporary and empty files below `folder`: what an unfinished write would leave.
std::vector<std::string> unfinished_files(const std::filesystem::path& folder);

/// Control characters other than newlines in `text`.
bool has_control_characters(const std::string& text);

}  // namespace diptych::testing
