#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reports/analysis/aligned_profile.h"

/// Flame graphs of a profile by ProfileBy::stack (docs/profile.md). The outermost module is on top.
namespace diptych::reports {

/// A panel for each arm, on one scale: as wide as the arm's time, and coloured by what the arm saves or loses against
/// the base (in the base's own panel: the last arm). A frame that changes by less than 1 % of the base's call is grey.
/// A picture that needs neither script nor network; a frame's figures are its tooltip.
std::string flame_svg(const AlignedProfile& stacks);

/// Collapsed stacks, "net;0;matmul 1250", in whole nanoseconds: what speedscope, inferno and flamegraph.pl read. Frames
/// of less than one are left out.
std::string folded_stacks(const AlignedProfile& stacks, std::size_t arm);

/// All arms in speedscope's format (https://www.speedscope.app/file-format-schema.json), a sampled profile each:
/// seconds, no rounding.
nlohmann::json speedscope_json(const AlignedProfile& stacks, const std::string& name);

}  // namespace diptych::reports
