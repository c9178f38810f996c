#include "reports/run_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/schema.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

std::string quoted(const std::filesystem::path& path) { return fmt::format("'{}'", printable(path.string())); }

std::string hint_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, or choose another folder with --out";
    case EFBIG:
      return "the limit on file sizes is reached (ulimit -f); raise it, or choose another folder with --out";
    case EACCES:
    case EPERM:
    case EROFS:
      return "make the folder writable, or choose another with --out";
    case ENOENT:
      return "create the folder first";
    default:
      return "check the disk and the path";
  }
}

[[noreturn]] void fail_write(const std::filesystem::path& path, const char* step, int error) {
  throw FileError(fmt::format("cannot write {}: {}: {}; {}; nothing was changed", quoted(path), step,
                              std::strerror(error), hint_for(error)));
}

// Owns the descriptor and the name: whatever fails, no half-written file stays behind.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) {
    const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
    name_ = (folder / fmt::format(".{}.XXXXXX", target.filename().string())).string();
    descriptor_ = ::mkostemp(name_.data(), O_CLOEXEC);
    if (descriptor_ < 0) {
      fail_write(target, "creating a temporary file beside it", errno);
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
    if (!renamed_) {
      ::unlink(name_.c_str());
    }
  }

  int descriptor() const { return descriptor_; }

  bool close() {
    const int result = ::close(descriptor_);
    descriptor_ = -1;
    return result == 0;
  }

  bool rename_to(const std::filesystem::path& target) {
    renamed_ = std::rename(name_.c_str(), target.c_str()) == 0;
    return renamed_;
  }

 private:
  std::string name_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

// mkostemp gives 0600; a report is for others to read, as far as the user's mask allows.
mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666) & ~mask;
}

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
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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
    return nlohmann::json::parse(content);
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
  TemporaryFile file(path);
  while (!text.empty()) {
    const ssize_t written = ::write(file.descriptor(), text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      fail_write(path, "writing", written < 0 ? errno : ENOSPC);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fchmod(file.descriptor(), usual_mode()) != 0 || ::fsync(file.descriptor()) != 0) {
    fail_write(path, "flushing to disk", errno);
  }
  // Network file systems report a full disk only here.
  if (!file.close()) {
    fail_write(path, "closing", errno);
  }
  if (!file.rename_to(path)) {
    fail_write(path, "renaming into place", errno);
  }
}

}  // namespace diptych::reports
