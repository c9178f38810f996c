#pragma once

#include <span>
#include <string>

#include "reports/analysis/memory_profile.h"
#include "reports/views/profile_picture.h"

/// Pictures of the memory of several arms (docs/profile.md#memory). A block's figures are its tooltip.
namespace diptych::reports {

/// The file: live bytes of all arms over time on one pair of axes, then the arena of each graph, address by time.
std::string memory_svg(std::span<const MemoryRecord> arms);

/// For a page: the live bytes, and the arena of one of the arms on the same axis of time; empty if it has none.
std::string live_bytes_picture(std::span<const MemoryRecord> arms);
std::string arena_picture(std::span<const MemoryRecord> arms, const MemoryRecord& arm);

/// The end of the highest block, or what the plan says; 0: no arena.
std::int64_t arena_end(const MemoryRecord& arm);

}  // namespace diptych::reports
