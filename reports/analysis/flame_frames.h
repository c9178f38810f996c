#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/analysis/aligned_profile.h"

/// What flame graphs are drawn of: modules and ops with the seconds of every arm. Pure functions of plain values.
namespace diptych::reports {

struct FlameFrame {
  enum class Kind : std::uint8_t { call, module, op, tape, outside };  ///< the last three as in AlignedRow
  std::string name;                                                    ///< untrusted until printable()
  Kind kind = Kind::op;
  std::size_t depth = 0;        ///< 0: the call itself
  std::vector<double> seconds;  ///< by arm, with what is inside; never negative
};

struct FlameFrames {
  std::vector<std::string> arms;      ///< the base first
  std::vector<double> total_seconds;  ///< of a call, by arm
  std::vector<FlameFrame> frames;     ///< each before what is inside it, in program order; the first is the call
  std::size_t left_out = 0;           ///< the smallest, which aren't kept
};

/// Frames inside one another at most: names come from outside.
inline constexpr std::size_t kDeepestFrame = 100;

/// The modules around an op and the op, from the outside, of a row by ProfileBy::stack.
std::vector<std::string_view> stack_of(const AlignedRow& row);

/// Of a profile by ProfileBy::stack. Negative times, of what several threads do at once, count as none.
FlameFrames flame_frames(const AlignedProfile& stacks);

/// "net / 0 / matmul", of each frame; the call's is its name.
std::vector<std::string> frame_paths(const std::vector<FlameFrame>& frames);
/// "net.0", of each frame: of a module its own, of all else that of the modules around it; empty outside modules.
std::vector<std::string> frame_scopes(const std::vector<FlameFrame>& frames);

/// So many frames at most: those that take longest in the arm where they take most. No frame is kept without those
/// around it.
FlameFrames largest_frames(FlameFrames frames, std::size_t most);

}  // namespace diptych::reports
