#include "tests/e2e/program.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/schema.h"
#include "tests/support/places.h"

namespace diptych::testing {

namespace fs = std::filesystem;

Command diptych_command(const std::vector<std::string>& arguments, const fs::path& folder) {
  Command command{{places::program()}, folder.string()};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  return command;
}

Outcome diptych(const std::vector<std::string>& arguments, const fs::path& folder) {
  return run_command(diptych_command(arguments, folder));
}

Outcome shell(const std::string& script, const std::vector<std::string>& arguments, const fs::path& folder) {
  Command command{{"/bin/bash", "-c", script, places::program()}, folder.string()};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  return run_command(command);
}

nlohmann::json run_json(const std::vector<std::string>& arguments, const fs::path& folder, Outcome* outcome) {
  std::vector<std::string> command = {"run"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Outcome result = diptych(command, folder);
  EXPECT_EQ(result.exit_code, 0) << result.error;
  if (outcome != nullptr) {
    *outcome = result;
  }
  nlohmann::json run = read_json(run_folder(folder) / "run.json");
  EXPECT_THAT(reports::validate(run), ::testing::IsEmpty());
  return run;
}

Outcome refused(const std::vector<std::string>& arguments, const fs::path& folder) {
  Outcome outcome = diptych(arguments, folder);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  return outcome;
}

void expect_usage_error(const std::vector<std::string>& arguments, const std::string& said) {
  SCOPED_TRACE(::testing::PrintToString(arguments));
  TemporaryFolder folder;
  const Outcome outcome = refused(arguments, folder.path());
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.error, ::testing::HasSubstr(said));
  EXPECT_THAT(run_folders(folder.path()), ::testing::IsEmpty());
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("can't read " + path.string());
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

nlohmann::json read_json(const fs::path& path) { return nlohmann::json::parse(read_text(path)); }

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<std::string> tree(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.push_back(fs::relative(entry.path(), folder).string() + (entry.is_directory() ? "/" : ""));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<fs::path> run_folders(const fs::path& folder) {
  std::vector<fs::path> found;
  if (fs::exists(folder / "diptych-out")) {
    for (const auto& entry : fs::directory_iterator(folder / "diptych-out")) {
      if (!entry.is_symlink()) {  // latest
        found.push_back(entry.path());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path run_folder(const fs::path& folder) {
  const std::vector<fs::path> found = run_folders(folder);
  if (found.size() != 1) {
    throw std::runtime_error("expected one run folder, found " + std::to_string(found.size()));
  }
  return found.front();
}

bool has_run_json(const fs::path& folder) {
  const std::vector<fs::path> found = run_folders(folder);
  return found.size() == 1 && fs::exists(found.front() / "run.json");
}

std::vector<std::string> unfinished_files(const fs::path& folder) {
  std::vector<std::string> found;
  for (const std::string& name : tree(folder)) {
    const bool temporary = fs::path(name).filename().string().starts_with('.') || name.ends_with(".tmp");
    if (temporary || (!name.ends_with('/') && fs::file_size(folder / name) == 0)) {
      found.push_back(name);
    }
  }
  return found;
}

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7F; });
}

}  // namespace diptych::testing
