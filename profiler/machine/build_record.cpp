#include "profiler/machine/build_record.h"

#include <algorithm>

#include "profiler/machine/elf_file.h"

namespace diptych::profiler {

namespace {

bool is_revision(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void take(BuildRecord& record, std::string_view key, std::string_view value) {
  if (key == "git_sha" && is_revision(value)) {
    record.git_sha = value;
  } else if (key == "git_dirty" && (value == "true" || value == "false")) {
    record.git_dirty = value == "true";
  } else if (key == "git_reason") {
    record.git_reason = value;
  } else if (const std::size_t space = value.find(' '); space != std::string_view::npos) {
    const Package package = {std::string(value.substr(0, space)), std::string(value.substr(space + 1))};
    if (key == "tool") {
      record.tools.push_back(package);
    } else if (key == "package") {
      record.compiled_in.push_back(package);
    }
  }
}

}  // namespace

BuildRecord parse_build_record(std::string_view text) {
  BuildRecord record;
  text = text.substr(0, text.find('\0'));
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (const std::size_t equals = line.find('='); equals != std::string_view::npos) {
      take(record, line.substr(0, equals), line.substr(equals + 1));
    }
  }
  if (!record.git_sha && record.git_reason.empty()) {
    record.git_reason = "the program's build record names no revision";
  }
  return record;
}

BuildRecord read_build_record(const std::filesystem::path& program) {
  const std::optional<std::string> text = read_section(program, build_record_section);
  if (text) {
    return parse_build_record(*text);
  }
  BuildRecord none;
  none.git_reason = "this program carries no build record; only diptych does";
  return none;
}

}  // namespace diptych::profiler
