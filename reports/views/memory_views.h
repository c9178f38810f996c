#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reports/analysis/memory_profile.h"
#include "reports/text/table_options.h"

/// The memory of several arms, as text, picture and JSON (docs/profile.md#memory).
namespace diptych::reports {

/// A line for each arm: its peak, when, and what a graph's arena takes.
std::string memory_summary(std::span<const MemoryOfArm> arms);

/// The summary, and who holds the bytes at each arm's peak; `most` holders of each, 0: all.
std::string memory_text(std::span<const MemoryOfArm> arms, const TableOptions& options = {}, std::size_t most = 0);

/// Live bytes of all arms over time on one pair of axes, then the arena of each graph, address by time. Needs neither
/// script nor network; a block's figures are its tooltip.
std::string memory_svg(std::span<const MemoryOfArm> arms);

/// memory.json.
nlohmann::json memory_json(std::span<const MemoryOfArm> arms);

}  // namespace diptych::reports
