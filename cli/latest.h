#pragma once

#include <filesystem>

namespace diptych::cli {

/// Makes `latest`, next to the run's folder, a link to it, in one step. Anything else of that name is left alone. A run
/// is complete without the link: if links aren't supported, nothing happens.
void point_latest_at(const std::filesystem::path& run_folder);

}  // namespace diptych::cli
