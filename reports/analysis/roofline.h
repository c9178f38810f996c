#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/analysis/roofs.h"
#include "reports/run/run.h"
#include "reports/text/format.h"

/// How close a cell comes to what the machine can do [Williams, Waterman, Patterson 2009]. Pure functions of run.json.
namespace diptych::reports {

/// The number if it is positive and finite.
std::optional<double> above_zero(const std::optional<double>& value);

/// Medians over probes; nothing without a peak and a bandwidth.
std::optional<MachineRoofs> roofs_of(const std::vector<Limits>& all);

/// The cell's `limits` from `work` and the processes' `limits`; null if both are missing, {"reason"} if the work isn't
/// known.
///
/// Peaks are medians over processes and moments (before and after the rounds). The level is the smallest that holds the
/// compulsory bytes, where a program that is called again and again finds them. No call can take less than
///   limit_seconds = max(flops / peak, compulsory bytes / bandwidth of that level)
/// and the larger of the two is its bound. An arm's share is limit_seconds / its time.
nlohmann::json limits_of(const Cell& cell);

/// "3.1 %" of the attainable rate, or "-".
std::string limit_text(const Cell& cell, const std::string& arm);

/// What bounds a call, and where that bound comes from; "" if nothing is known.
std::string limit_sentence(const Cell& cell, Glyphs glyphs);

/// "12.3 GFLOP/s".
std::string format_flops(double flops_per_second);

}  // namespace diptych::reports
