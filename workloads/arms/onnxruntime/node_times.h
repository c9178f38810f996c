#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/arms/server/arm_server.h"

namespace diptych::ort {

/// What the profile in a file says of each node, over `count` calls behind a first one that doesn't count: the mean of
/// the half whose durations lie in the middle. The library
/// counts in whole microseconds, so that a node of less may have taken none. Throws runtime_error for a file that can't
/// be read, or has no such calls.
std::vector<arms::NodeTime> node_times(const std::string& path, std::int64_t count);

}  // namespace diptych::ort
