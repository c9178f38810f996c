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

std::vector<MemoryRoof> memory_roofs(const std::vector<Limits>& all) {
  std::vector<MemoryRoof> roofs;
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
      roofs.push_back({first.level(), first.size_bytes(), median(rates)});
    }
  }
  return roofs;
}

Json bandwidth_json(const MachineRoofs& roofs) {
  Json levels = Json::array();
  for (const MemoryRoof& roof : roofs.memory) {
    levels.push_back({{"level", roof.level},
                      {"size_bytes", count_json(roof.size_bytes)},
                      {"bytes_per_second", roof.bytes_per_second}});
  }
  return levels;
}

}  // namespace

std::optional<double> above_zero(const std::optional<double>& value) {
  return value && std::isfinite(*value) && *value > 0 ? value : std::nullopt;
}

std::optional<MachineRoofs> roofs_of(const std::vector<Limits>& all) {
  std::vector<double> peaks;
  for (const Limits& probe : all) {
    if (const auto peak = above_zero(probe.fma_flops_per_second())) {
      peaks.push_back(*peak);
    }
  }
  if (peaks.empty()) {
    return std::nullopt;
  }
  MachineRoofs roofs{median(peaks), memory_roofs(all)};
  return roofs.memory.empty() ? std::nullopt : std::optional(std::move(roofs));
}

LeastTime least_time(const MachineRoofs& roofs, double flops, double bytes) {
  const auto holds = std::find_if(roofs.memory.begin(), roofs.memory.end(), [&](const MemoryRoof& roof) {
    return !roof.size_bytes || *roof.size_bytes >= bytes;
  });
  const MemoryRoof& from = holds != roofs.memory.end() ? *holds : roofs.memory.back();
  return {from, flops / roofs.flops_per_second, bytes / from.bytes_per_second};
}

nlohmann::json limits_of(const Cell& cell) {
  const Work work = cell.work();
  if (const std::string reason = work.reason(); !reason.empty()) {
    return {{"reason", reason}};
  }
  const std::vector<Limits> all = probes(cell);
  const auto bytes = above_zero(work.compulsory_bytes());
  const std::optional<MachineRoofs> roofs = roofs_of(all);
  if (!roofs || !bytes) {
    return nullptr;
  }
  const double flops = work.flops().value_or(0);
  const LeastTime least = least_time(*roofs, flops, *bytes);
  const double limit = least.seconds();
  Json arms = Json::array();
  for (const Arm arm : cell.arms()) {
    const auto seconds = arm.seconds();
    const bool known = seconds && seconds->value > 0 && arm.threads() == all.front().threads();
    arms.push_back({{"name", arm.name()}, {"share", known ? Json(limit / seconds->value) : Json()}});
  }
  Json result = {{"fma_flops_per_second", roofs->flops_per_second},
                 {"bandwidth", bandwidth_json(*roofs)},
                 {"flops", flops},
                 {"op_bytes", to_json(work.op_bytes())},
                 {"bytes", *bytes},
                 {"arithmetic_intensity", flops / *bytes},
                 {"level", least.from.level},
                 {"bound", least.compute_seconds >= least.memory_seconds ? "compute" : "memory"},
                 {"limit_seconds", limit},
                 {"arms", arms}};
  if (all.front().threads() > 1) {
    result["threads"] = all.front().threads();
  }
  return result;
}

std::string limit_text(const Cell& cell, const std::string& arm) {
  const auto share = cell.limit_share(arm);
  return share ? format_percent(*share) : "-";
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
