#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "reports/history/history.h"

namespace diptych::cli {

/// The run.json files below a folder.
struct RunFolders {
  std::vector<std::filesystem::path> files;  ///< below the folder, each file once, however many links lead to it
  std::size_t folders = 0;                   ///< that were looked into
  std::vector<reports::LeftOut> left_out;    ///< folders that can't be read
};

/// Levels of folders below the one that is named: diptych-out/<run>/ and <machine>/diptych-out/... of a collection.
inline constexpr int kFolderLevels = 2;

/// Looks for run.json in the folders up to kFolderLevels below `folder`, without hidden ones; a folder with a run is
/// not looked into any further. Links are followed after everything else, and a place is looked at once, so that
/// neither `latest` nor a link in a circle counts twice.
RunFolders find_run_folders(const std::filesystem::path& folder);

}  // namespace diptych::cli
