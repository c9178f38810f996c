#include "cli/latest.h"

#include "framework/io/leftovers.h"

namespace diptych::cli {

namespace fs = std::filesystem;

void point_latest_at(const fs::path& run_folder) {
  std::error_code error;
  const fs::path folder = fs::absolute(run_folder, error).lexically_normal();
  const fs::path name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  const fs::path beside = folder.has_filename() ? folder.parent_path() : folder.parent_path().parent_path();
  const fs::path latest = beside / "latest";
  const fs::file_status status = fs::symlink_status(latest, error);
  if (name == "latest" || (fs::exists(status) && !fs::is_symlink(status))) {
    return;
  }
  // A rename replaces the older link atomically: a reader finds either the old or the new one.
  const fs::path temporary = io::temporary_beside(latest);
  fs::create_symlink(name, temporary, error);
  if (!error) {
    fs::rename(temporary, latest, error);
  }
  if (error) {
    fs::remove(temporary, error);
  }
}

}  // namespace diptych::cli
