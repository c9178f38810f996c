#include "cli/git_build.h"

#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "cli/subprocess.h"
#include "framework/core/error.h"
#include "reports/text/text.h"

namespace diptych::cli {
namespace {

namespace fs = std::filesystem;

/// A checked-out revision; removed with the object.
class Worktree {
 public:
  Worktree(const std::string& revision, fs::path folder) : folder_(std::move(folder)) {
    fs::remove_all(folder_);
    run_program({"git", "worktree", "prune"});
    const ProgramResult added = run_program({"git", "worktree", "add", "--detach", folder_.string(), revision});
    if (added.exit_code != 0) {
      throw Error(fmt::format("git can't check out {}: {}", revision, last_lines(added.error)));
    }
  }
  ~Worktree() {
    try {
      run_program({"git", "worktree", "remove", "--force", folder_.string()});
      std::error_code ignored;
      fs::remove_all(folder_, ignored);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): `git worktree prune` will find it
    }
  }
  Worktree(const Worktree&) = delete;
  Worktree& operator=(const Worktree&) = delete;

 private:
  fs::path folder_;
};

void step(const std::string& revision, const char* what, const std::vector<std::string>& command) {
  const ProgramResult result = run_program(command);
  if (result.exit_code != 0) {
    // Compilers report on standard error; Ninja passes their messages on to standard output.
    const std::string said = last_lines(result.error.size() > 1 ? result.error : result.output, 8);
    throw Error(fmt::format("{} doesn't build: {} failed with exit code {}: {}", revision.substr(0, 12), what,
                            result.exit_code, said));
  }
}

}  // namespace

std::optional<std::string> resolve_ref(const std::string& ref, const std::string& folder) {
  if (ref.empty() || ref.starts_with('-')) {
    return std::nullopt;
  }
  const ProgramResult result = run_program({"git", "rev-parse", "--verify", "--quiet", ref + "^{commit}"}, folder);
  const std::string hash = last_lines(result.output, 1);
  const bool good =
      result.exit_code == 0 && hash.size() >= 40 && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  return good ? std::optional<std::string>(hash) : std::nullopt;
}

std::string build_revision(const std::string& revision, const std::string& cache) {
  const fs::path folder = fs::absolute(fs::path(cache) / revision);
  const fs::path program = folder / "diptych";
  if (fs::exists(program)) {
    return program.string();
  }
  fs::create_directories(folder);
  const fs::path source = folder / "source";
  const fs::path build = folder / "build";
  const Worktree worktree(revision, source);
  step(revision, "configuring (cmake)",
       {"cmake", "-S", source.string(), "-B", build.string(), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"});
  const unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  step(revision, "building (cmake --build)",
       {"cmake", "--build", build.string(), "--target", "diptych", "-j", std::to_string(jobs)});
  if (!fs::exists(build / "diptych")) {
    throw Error(fmt::format("{} builds, but makes no program 'diptych'", revision.substr(0, 12)));
  }
  // It gets its name only when it is complete, so that an interrupted copy isn't taken for a cached build.
  fs::copy_file(build / "diptych", folder / "diptych.new", fs::copy_options::overwrite_existing);
  fs::rename(folder / "diptych.new", program);
  fs::remove_all(build);
  return program.string();
}

}  // namespace diptych::cli
