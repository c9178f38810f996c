#include "cli/run_folders.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

namespace diptych::cli {

namespace {

namespace fs = std::filesystem;

class FolderWalk {
 public:
  explicit FolderWalk(const fs::path& root) : root_(root) { see(root); }

  RunFolders walk() {
    std::vector<fs::path> level = {root_};
    for (int depth = 0; depth < kFolderLevels && !level.empty(); ++depth) {
      level = below(level);
    }
    return std::move(found_);
  }

 private:
  /// Whether it is seen for the first time.
  bool see(const fs::path& path) {
    std::error_code error;
    const fs::path place = fs::canonical(path, error);
    return !error && seen_.insert(place.string()).second;
  }

  /// The folders in these without a run of their own; runs are kept.
  std::vector<fs::path> below(const std::vector<fs::path>& parents) {
    std::vector<fs::path> folders;
    std::vector<fs::path> links;
    for (const fs::path& parent : parents) {
      list(parent, folders, links);
    }
    folders.insert(folders.end(), links.begin(), links.end());
    std::vector<fs::path> further;
    for (const fs::path& folder : folders) {
      if (!see(folder)) {
        continue;
      }
      ++found_.folders;
      std::error_code ignored;
      if (!fs::exists(fs::symlink_status(folder / "run.json", ignored))) {
        further.push_back(folder);
      } else if (see(folder / "run.json") || !fs::exists(folder / "run.json", ignored)) {
        found_.files.push_back((folder / "run.json").lexically_relative(root_));
      }
    }
    return further;
  }

  void list(const fs::path& parent, std::vector<fs::path>& folders, std::vector<fs::path>& links) {
    std::error_code error;
    std::vector<fs::path> entries;
    for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
      entries.push_back(entry->path());
    }
    if (error) {
      found_.left_out.push_back({parent.lexically_relative(root_).string(), "can't be read: " + error.message()});
    }
    std::sort(entries.begin(), entries.end());
    for (const fs::path& entry : entries) {
      std::error_code ignored;
      if (entry.filename().string().starts_with('.') || !fs::is_directory(entry, ignored)) {
        continue;
      }
      (fs::is_symlink(entry, ignored) ? links : folders).push_back(entry);
    }
  }

  fs::path root_;
  RunFolders found_;
  std::set<std::string> seen_;
};

}  // namespace

RunFolders find_run_folders(const fs::path& folder) { return FolderWalk(folder).walk(); }

}  // namespace diptych::cli
