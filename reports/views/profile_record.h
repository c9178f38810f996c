#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reports/analysis/flame_frames.h"
#include "reports/analysis/memory_profile.h"
#include "reports/run/profile.h"

/// What run.json keeps of a profile for its pictures: `flames` and `memory` of `cells[].profile` (docs/run-json.md).
/// Their size is bounded, and so are the names in them.
namespace diptych::reports {

/// Frames of a flame graph in run.json.
inline constexpr std::size_t kFramesKept = 400;

nlohmann::json flames_json(const FlameFrames& frames);
/// What such JSON says; nothing where it isn't recorded, or of fewer than two arms. No more than kFramesKept.
std::optional<FlameFrames> read_flames(const ProfileEntry& profile);

nlohmann::json memory_record_json(std::span<const MemoryRecord> arms);
/// What such JSON says; empty where it isn't recorded.
std::vector<MemoryRecord> read_memory(const ProfileEntry& profile);

}  // namespace diptych::reports
