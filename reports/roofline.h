#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/format.h"

/// How near a cell comes to what the machine can do [Williams, Waterman, Patterson 2009]. Pure functions of run.json.
namespace diptych::reports {

/// The cell's `limits` from `work` and the processes' `limits`; null where neither is there, {"reason"} where the work
/// isn't known.
///
/// Peaks are medians over processes and moments (before and after the rounds). The level is the smallest that holds the
/// compulsory bytes: called again and again, the program finds them there. No call can take less than
///   limit_seconds = max(flops / peak, compulsory bytes / bandwidth of that level)
/// and the larger of the two is its bound. An arm's share is limit_seconds / its time.
nlohmann::json limits_of(const nlohmann::json& cell);

/// "3.1 %" of what is attainable, or "-".
std::string limit_text(const nlohmann::json& cell, const std::string& arm);

/// What bounds a call, and where that comes from; "" where nothing is known of it.
std::string limit_sentence(const nlohmann::json& cell, Glyphs glyphs);

/// "12.3 GFLOP/s".
std::string format_flops(double flops_per_second);

/// The roofs of the machine and a point for each arm, both axes logarithmic; empty without limits.
std::string roofline_chart(const nlohmann::json& cell);

}  // namespace diptych::reports
