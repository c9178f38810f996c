#include "reports/roofline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/charts.h"
#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/statistics.h"
#include "reports/svg.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

std::optional<double> positive(const Json& object, const char* key) {
  const auto value = number(object, key);
  return value && std::isfinite(*value) && *value > 0 ? value : std::nullopt;
}

/// What all processes measured, before and after the rounds.
std::vector<const Json*> probes(const Json& cell) {
  std::vector<const Json*> found;
  for (const Json& process : list(cell, "processes")) {
    for (const char* moment : {"before", "after"}) {
      const Json& probe = member(member(process, "limits"), moment);
      if (positive(probe, "fma_flops_per_second")) {
        found.push_back(&probe);
      }
    }
  }
  return found;
}

Json bandwidths(const std::vector<const Json*>& all) {
  Json levels = Json::array();
  for (const Json& first : list(*all.front(), "bandwidth")) {
    std::vector<double> rates;
    for (const Json* probe : all) {
      for (const Json& level : list(*probe, "bandwidth")) {
        if (text(level, "level") == text(first, "level") && positive(level, "bytes_per_second")) {
          rates.push_back(*positive(level, "bytes_per_second"));
        }
      }
    }
    if (!rates.empty()) {
      levels.push_back({{"level", text(first, "level")},
                        {"size_bytes", member(first, "size_bytes")},
                        {"bytes_per_second", median(rates)}});
    }
  }
  return levels;
}

/// The smallest level that holds so many bytes; levels stand smallest first, memory last and without a size.
const Json& level_of(const Json& levels, double bytes) {
  for (const Json& level : levels) {
    const auto size = number(level, "size_bytes");
    if (!size || *size >= bytes) {
      return level;
    }
  }
  return levels.back();
}

}  // namespace

nlohmann::json limits_of(const nlohmann::json& cell) {
  const Json& work = member(cell, "work");
  if (const std::string reason = text(work, "reason"); !reason.empty()) {
    return {{"reason", reason}};
  }
  const std::vector<const Json*> all = probes(cell);
  const auto bytes = positive(work, "compulsory_bytes");
  if (all.empty() || !bytes) {
    return nullptr;
  }
  std::vector<double> peaks;
  std::transform(all.begin(), all.end(), std::back_inserter(peaks),
                 [](const Json* probe) { return *number(*probe, "fma_flops_per_second"); });
  const double peak = median(peaks);
  const Json levels = bandwidths(all);
  if (levels.empty()) {
    return nullptr;
  }
  const double flops = number(work, "flops").value_or(0);
  const Json& level = level_of(levels, *bytes);
  const double compute_seconds = flops / peak;
  const double memory_seconds = *bytes / level["bytes_per_second"].get<double>();
  const double limit = std::max(compute_seconds, memory_seconds);
  Json arms = Json::array();
  for (const Json& arm : list(cell, "arms")) {
    const auto seconds = estimate(member(arm, "seconds"));
    const bool known = seconds && seconds->value > 0;
    arms.push_back({{"name", text(arm, "name")}, {"share", known ? Json(limit / seconds->value) : Json()}});
  }
  return {{"fma_flops_per_second", peak},
          {"bandwidth", levels},
          {"flops", flops},
          {"op_bytes", member(work, "op_bytes")},
          {"bytes", *bytes},
          {"arithmetic_intensity", flops / *bytes},
          {"level", level["level"]},
          {"bound", compute_seconds >= memory_seconds ? "compute" : "memory"},
          {"limit_seconds", limit},
          {"arms", arms}};
}

std::string limit_text(const Json& cell, const std::string& arm) {
  for (const Json& entry : list(member(cell, "limits"), "arms")) {
    const auto share = number(entry, "share");
    if (text(entry, "name") == arm && share) {
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

std::string limit_sentence(const Json& cell, Glyphs glyphs) {
  const Json& limits = member(cell, "limits");
  if (const std::string reason = text(limits, "reason"); !reason.empty()) {
    return fmt::format("No limit: {}.", reason);
  }
  const auto peak = positive(limits, "fma_flops_per_second");
  const auto bytes = positive(limits, "bytes");
  if (!peak || !bytes) {
    return "";
  }
  double rate = 0;
  for (const Json& level : list(limits, "bandwidth")) {
    if (text(level, "level") == text(limits, "level")) {
      rate = number(level, "bytes_per_second").value_or(0);
    }
  }
  return fmt::format("No call takes less than {} here, by {}: {} MFLOP at {}, {} from {} at {:.3g} GB/s.",
                     format_seconds(number(limits, "limit_seconds"), glyphs),
                     text(limits, "bound") == "compute" ? "computation" : "memory",
                     fmt::format("{:.3g}", number(limits, "flops").value_or(0) / 1e6), format_flops(*peak),
                     format_bytes(*bytes), text(limits, "level"), rate / 1e9);
}

namespace {

std::string power_label(double value, const char* unit) {
  const int exponent = static_cast<int>(std::lround(std::log10(value)));
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  if (exponent >= 0 && exponent < 18) {
    return fmt::format("{:.0f} {}{}", std::pow(10, exponent % 3), kPrefixes[exponent / 3], unit);
  }
  return fmt::format("{:g} {}", value, unit);
}

}  // namespace

std::string roofline_chart(const Json& cell) {
  const Json& limits = member(cell, "limits");
  const auto peak = positive(limits, "fma_flops_per_second");
  const auto intensity = positive(limits, "arithmetic_intensity");
  const auto flops = positive(limits, "flops");
  if (!peak || !intensity || !flops) {
    return "";
  }
  constexpr double width = 560;
  constexpr double height = 260;
  constexpr double left = 84;
  constexpr double right = width - 70;
  constexpr double bottom = height - 30;
  double slowest = *peak;
  double knee = *intensity;
  for (const Json& level : list(limits, "bandwidth")) {
    if (const auto rate = positive(level, "bytes_per_second")) {
      knee = std::max(knee, *peak / *rate);
      slowest = std::min(slowest, *rate * *intensity);
    }
  }
  for (const Json& arm : list(cell, "arms")) {
    if (const auto seconds = estimate(member(arm, "seconds")); seconds && seconds->value > 0) {
      slowest = std::min(slowest, *flops / seconds->value);
    }
  }
  const double x_from = std::pow(10, std::floor(std::log10(std::min(*intensity, 0.1))));
  const double x_to = std::pow(10, std::ceil(std::log10(knee * 2)));
  const double y_from = std::pow(10, std::floor(std::log10(std::max(slowest / 2, *peak * 1e-9))));
  const double y_to = *peak * 2;
  const Scale x(x_from, x_to, left, right, Scale::Kind::logarithmic);
  const Scale y(y_from, y_to, bottom, 8, Scale::Kind::logarithmic);
  SvgCanvas svg(width, height, "Operations per second against operations per byte: the machine's roofs and the arms");
  for (double tick = y_from; tick < y_to; tick *= 10) {
    svg.line(left, y(tick), right, y(tick), "grid");
    svg.text(left - 8, y(tick) + 4, power_label(tick, "FLOP/s"), "tick", "end");
  }
  for (double tick = x_from; tick <= x_to * 1.01; tick *= 10) {
    svg.text(x(tick), bottom + 16, fmt::format("{:g}", tick), "tick", "middle");
  }
  svg.text(right, bottom + 28, "FLOP per byte", "muted", "end");
  svg.line(left, y(*peak), right, y(*peak), "axis");
  svg.text(right + 4, y(*peak) + 4, "peak", "muted");
  for (const Json& level : list(limits, "bandwidth")) {
    const auto rate = positive(level, "bytes_per_second");
    if (!rate) {
      continue;
    }
    const double start = std::max(x_from, y_from / *rate);  // where the roof enters the picture
    const double end = *peak / *rate;
    if (start < end) {
      svg.line(x(start), y(start * *rate), x(end), y(*peak), "guide");
      svg.text(x(start) + 4, y(start * *rate) - 4, shorten(printable(text(level, "level")), 10), "muted");
    }
  }
  const Json& arms = list(cell, "arms");
  double last_label = 1e9;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const auto seconds = estimate(member(arms[i], "seconds"));
    if (!seconds || seconds->value <= 0) {
      continue;
    }
    const std::string name = text(arms[i], "name");
    const double at = y(*flops / seconds->value);
    svg.rect(x(*intensity) - 4, at - 4, 8, 8, arm_colour(name, i));
    if (std::abs(at - last_label) > 11) {  // labels that would cover each other stand in the table
      svg.text(x(*intensity) + 9, at + 4, shorten(printable(name), 16), "num");
      last_label = at;
    }
  }
  return std::move(svg).finish();
}

}  // namespace diptych::reports
