#include "reports/analysis/roofline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

/// All probes of all processes, before and after the rounds.
std::vector<Limits> probes(const Cell& cell) {
  std::vector<Limits> found;
  for (const Process process : cell.processes()) {
    for (const Limits probe : {process.limits_before(), process.limits_after()}) {
      if (above_zero(probe.fma_flops_per_second())) {
        found.push_back(probe);
      }
    }
  }
  return found;
}

Json bandwidths(const std::vector<Limits>& all) {
  Json levels = Json::array();
  for (const Bandwidth first : all.front().bandwidth()) {
    std::vector<double> rates;
    for (const Limits& probe : all) {
      for (const Bandwidth level : probe.bandwidth()) {
        const auto rate = above_zero(level.bytes_per_second());
        if (level.level() == first.level() && rate) {
          rates.push_back(*rate);
        }
      }
    }
    if (!rates.empty()) {
      levels.push_back({{"level", first.level()},
                        {"size_bytes", count_json(first.size_bytes())},
                        {"bytes_per_second", median(rates)}});
    }
  }
  return levels;
}

/// The smallest level that holds this many bytes. Levels are ordered smallest first; memory is last and has no size.
Bandwidth level_of(const Parts<Bandwidth>& levels, double bytes) {
  for (const Bandwidth level : levels) {
    const auto size = level.size_bytes();
    if (!size || *size >= bytes) {
      return level;
    }
  }
  return levels.back();
}

}  // namespace

std::optional<double> above_zero(const std::optional<double>& value) {
  return value && std::isfinite(*value) && *value > 0 ? value : std::nullopt;
}

nlohmann::json limits_of(const Cell& cell) {
  const Work work = cell.work();
  if (const std::string reason = work.reason(); !reason.empty()) {
    return {{"reason", reason}};
  }
  const std::vector<Limits> all = probes(cell);
  const auto bytes = above_zero(work.compulsory_bytes());
  if (all.empty() || !bytes) {
    return nullptr;
  }
  std::vector<double> peaks;
  std::transform(all.begin(), all.end(), std::back_inserter(peaks),
                 [](const Limits& probe) { return *probe.fma_flops_per_second(); });
  const double peak = median(peaks);
  const Json levels = bandwidths(all);
  if (levels.empty()) {
    return nullptr;
  }
  const double flops = work.flops().value_or(0);
  const Bandwidth level = level_of(Parts<Bandwidth>(levels), *bytes);
  const double compute_seconds = flops / peak;
  const double memory_seconds = *bytes / level.bytes_per_second().value();
  const double limit = std::max(compute_seconds, memory_seconds);
  Json arms = Json::array();
  for (const Arm arm : cell.arms()) {
    const auto seconds = arm.seconds();
    const bool known = seconds && seconds->value > 0 && arm.threads() == all.front().threads();
    arms.push_back({{"name", arm.name()}, {"share", known ? Json(limit / seconds->value) : Json()}});
  }
  Json result = {{"fma_flops_per_second", peak},
                 {"bandwidth", levels},
                 {"flops", flops},
                 {"op_bytes", to_json(work.op_bytes())},
                 {"bytes", *bytes},
                 {"arithmetic_intensity", flops / *bytes},
                 {"level", level.level()},
                 {"bound", compute_seconds >= memory_seconds ? "compute" : "memory"},
                 {"limit_seconds", limit},
                 {"arms", arms}};
  if (all.front().threads() > 1) {
    result["threads"] = all.front().threads();
  }
  return result;
}

std::string limit_text(const Cell& cell, const std::string& arm) {
  for (const ArmOfLimits entry : cell.limits().arms()) {
    const auto share = entry.share();
    if (entry.name() == arm && share) {
      return format_percent(*share);
    }
  }
  return "-";
}

std::string format_flops(double flops_per_second) {
  const double giga = flops_per_second / 1e9;
  return giga >= 100   ? fmt::format("{:.0f} GFLOP/s", giga)
         : giga >= 0.1 ? fmt::format("{:.3g} GFLOP/s", giga)
                       : fmt::format("{:.3g} MFLOP/s", giga * 1e3);
}

std::string limit_sentence(const Cell& cell, Glyphs glyphs) {
  const Limits limits = cell.limits();
  if (const std::string reason = limits.reason(); !reason.empty()) {
    return fmt::format("No limit: {}.", reason);
  }
  const auto peak = above_zero(limits.fma_flops_per_second());
  const auto bytes = above_zero(limits.bytes());
  if (!peak || !bytes) {
    return "";
  }
  double rate = 0;
  for (const Bandwidth level : limits.bandwidth()) {
    if (level.level() == limits.level()) {
      rate = level.bytes_per_second().value_or(0);
    }
  }
  return fmt::format("No call takes less than {} here, by {}: {} MFLOP at {}, {} from {} at {:.3g} GB/s.",
                     format_seconds(limits.limit_seconds(), glyphs),
                     limits.bound() == "compute" ? "computation" : "memory",
                     fmt::format("{:.3g}", limits.flops().value_or(0) / 1e6), format_flops(*peak), format_bytes(*bytes),
                     limits.level(), rate / 1e9);
}

}  // namespace diptych::reports
