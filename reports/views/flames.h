#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reports/analysis/aligned_profile.h"
#include "reports/analysis/flame_frames.h"
#include "reports/views/profile_picture.h"

/// Flame graphs of a profile by ProfileBy::stack (docs/profile.md). The outermost module is on top.
namespace diptych::reports {

enum class FlameColours : std::uint8_t {
  change,  ///< blue: the arm saves, orange: it loses against the base (the base's own panel: the last arm)
  op       ///< equal ops have equal colours, and modules none
};

/// A panel for each of `arms`, on one scale: as wide as the arm's time. A frame's figures are its tooltip.
std::string flame_picture(const FlameFrames& frames, std::span<const std::size_t> arms, FlameColours colours,
                          PictureIn place);

/// The file: all arms, coloured by change.
std::string flame_svg(const FlameFrames& frames);

/// What each frame stands for; the call for nothing.
std::vector<OpPlace> frame_places(const FlameFrames& frames);

/// From here on, a frame's change has a colour: 1 % of the base's call.
double least_coloured_change(const FlameFrames& frames);

/// Collapsed stacks, "net;0;matmul 1250", in whole nanoseconds: what speedscope, inferno and flamegraph.pl read. Frames
/// of less than one are left out.
std::string folded_stacks(const AlignedProfile& stacks, std::size_t arm);

/// All arms in speedscope's format (https://www.speedscope.app/file-format-schema.json), a sampled profile each:
/// seconds, no rounding.
nlohmann::json speedscope_json(const AlignedProfile& stacks, const std::string& name);

}  // namespace diptych::reports
