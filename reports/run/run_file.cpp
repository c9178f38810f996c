#include "reports/run/run_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/io/atomic_file.h"
#include "framework/io/json_text.h"
#include "reports/run/clock_range.h"
#include "reports/run/schema.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

std::string quoted(const std::filesystem::path& path) { return fmt::format("'{}'", printable(path.string())); }

// The longest runs have some tens of MiB, and parsed JSON takes ten times the memory of its text.
constexpr std::size_t kMostBytes = std::size_t{256} << 20U;

void check_version(const std::filesystem::path& path, const nlohmann::json& run) {
  const auto found = run.is_object() ? run.find("schema") : run.end();
  if (!run.is_object() || found == run.end() || !found->is_string()) {
    throw FileError(
        fmt::format("{} is JSON, but not a run of Diptych: it has no \"schema\"; expected \"schema\": \"{}\"",
                    quoted(path), schema_id));
  }
  const std::string version = found->get<std::string>();
  if (version == schema_id) {
    return;
  }
  if (version.starts_with("diptych.run/")) {
    throw FileError(
        fmt::format("{} has schema \"{}\", this build reads \"{}\"; use the version of Diptych that wrote it, "
                    "or repeat the run",
                    quoted(path), printable(version), schema_id));
  }
  throw FileError(fmt::format("{} has schema \"{}\", not a run of Diptych; expected \"{}\"", quoted(path),
                              shorten(printable(version), 60), schema_id));
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw FileError(fmt::format("cannot read {}: no such file; `diptych run` writes run.json into diptych-out/<run>/",
                                quoted(path)));
  }
  if (std::filesystem::is_directory(path, ignored)) {
    throw FileError(fmt::format("cannot read {}: it is a folder; name the run.json inside it", quoted(path)));
  }
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw FileError(
        fmt::format("cannot read {}: it is a device, a pipe or a socket, no file; copy what it gives into a file first",
                    quoted(path)));
  }
  const auto refuse_size = [&] {
    throw FileError(fmt::format("cannot read {}: it has more than {} MiB, which no file of Diptych has", quoted(path),
                                kMostBytes >> 20U));
  };
  if (const auto claimed = std::filesystem::file_size(path, ignored); !ignored && claimed > kMostBytes) {
    refuse_size();
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string content;
  // Counts what is read, too: some files under /proc claim 0 and don't end.
  for (std::string block(std::size_t{1} << 20U, '\0'); content.size() <= kMostBytes && file;) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    content.append(block, 0, static_cast<std::size_t>(file.gcount()));
  }
  if (content.size() > kMostBytes) {
    refuse_size();
  }
  if (!file && !file.eof()) {
    throw FileError(fmt::format("cannot read {}: {}; check its permissions", quoted(path), std::strerror(errno)));
  }
  return content;
}

nlohmann::json parse_json(const std::filesystem::path& path, const std::string& content) {
  const std::size_t start = content.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) {
    throw FileError(fmt::format("{} is empty; the run that wrote it did not finish, run it again", quoted(path)));
  }
  try {
    return io::parse_json_text(content);
  } catch (const io::JsonTooDeep& error) {
    throw FileError(fmt::format("{} can't be read: {}, which no file of Diptych has; repeat the run, or mend the file",
                                quoted(path), error.what()));
  } catch (const nlohmann::json::parse_error& error) {
    const bool truncated = content[start] == '{' && error.byte >= content.size();
    if (truncated) {
      throw FileError(
          fmt::format("{} ends in the middle, after {} bytes: it was cut off; copy it again or repeat the run",
                      quoted(path), content.size()));
    }
    throw FileError(fmt::format("{} is not JSON, at byte {}; expected a run.json written by `diptych run`",
                                quoted(path), error.byte));
  } catch (const nlohmann::json::out_of_range&) {
    throw FileError(fmt::format("{} holds a number that is too large for a double; repeat the run, or mend the file",
                                quoted(path)));
  }
}

void check_run(const std::filesystem::path& path, const nlohmann::json& run) {
  check_version(path, run);
  const std::vector<std::string> problems = validate(run);
  if (!problems.empty()) {
    throw FileError(fmt::format("{} does not fit the schema {}: {}{}; repeat the run, or mend the file", quoted(path),
                                schema_id, problems.front(),
                                problems.size() > 1 ? fmt::format(" (and {} more)", problems.size() - 1) : ""));
  }
  if (const std::string problem = outside_clock_range(run); !problem.empty()) {
    throw FileError(fmt::format("{} has a figure that no clock measures, {}; repeat the run, or mend the file",
                                quoted(path), problem));
  }
}

nlohmann::json load_run(const std::filesystem::path& path) {
  nlohmann::json run = parse_json(path, read_text_file(path));
  check_run(path, run);
  return run;
}

std::string to_text(const nlohmann::json& run) {
  return run.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  io::AtomicFile file(path, "another folder with --out");
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace diptych::reports
