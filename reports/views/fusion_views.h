#pragma once

#include <string>

#include "reports/run/run.h"
#include "reports/text/format.h"

/// Fused kernels beside what they replace (docs/fusion.md).
namespace diptych::reports {

/// The arm whose fused kernels were timed; nothing if none was.
Arm fused_arm(const Cell& cell);

/// "43 fused kernels take 15.0 ms, what they replace 14.5 ms; 20 lose: linear, gelu takes 1.07 of it, ..."; empty if no
/// kernel was timed.
std::string fusion_sentence(const Cell& cell, Glyphs glyphs = Glyphs::ascii);
/// The same, if a kernel loses or was left out; otherwise there is nothing to do about them.
std::string loss_sentence(const Cell& cell, Glyphs glyphs = Glyphs::ascii);

/// "loss, left out"
std::string fused_verdict(const FusedEntry& kernel);

}  // namespace diptych::reports
