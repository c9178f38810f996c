#include "reports/views/tracing_views.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

/// From here on, an op that is traced isn't the op that runs otherwise: caches and branch predictors see the tracer,
/// too.
constexpr double kDisturbing = 0.1;

std::string seconds(double value) { return format_seconds(std::optional<double>(value)); }

/// "+1.3 %", "-12 %".
std::string signed_percent(double fraction) {
  const double percent = 100 * fraction;
  return std::abs(percent) < 9.95 ? fmt::format("{:+.1f} %", percent) : fmt::format("{:+.0f} %", percent);
}

std::string change_of(const TracedCalls& calls) {
  return calls.interval ? fmt::format("{} [{}, {}]", signed_percent(calls.change), signed_percent(calls.interval->low),
                                      signed_percent(calls.interval->high))
                        : signed_percent(calls.change);
}

}  // namespace

void set_change(TracedCalls& calls, std::span<const double> traced, std::span<const double> untraced) {
  std::vector<double> changes;
  for (std::size_t i = 0; i < std::min(traced.size(), untraced.size()); ++i) {
    changes.push_back(traced[i] / untraced[i] - 1);
  }
  calls.change = median(changes);
  calls.interval = sign_interval(changes);
}

double corrected_seconds(const TracedCalls& calls) {
  return std::max(0.0, calls.traced_seconds - calls.zones / calls.every * calls.zone_seconds);
}

std::string tracing_text(const TracingCost& cost) {
  std::string text = fmt::format("tracing: a zone takes {} (+-{}), and is subtracted above\n",
                                 seconds(cost.zone_seconds), seconds(cost.spread_seconds / 2));
  bool disturbs = false;
  for (const TracedCalls& calls : cost.arms) {
    const std::string with = seconds(calls.traced_seconds);
    const std::string without = seconds(calls.untraced_seconds);
    const std::string corrected = seconds(corrected_seconds(calls));
    text += calls.every == 1
                ? fmt::format("tracing {}: a call takes {} with and {} without it, {}; less its {:.0f} zones {}\n",
                              printable(calls.arm), with, without, change_of(calls), calls.zones, corrected)
                : fmt::format(
                      "tracing {}: one call in {} is traced: {} with and {} without it, {}; less its {:.0f} "
                      "zones, {} each, {}\n",
                      printable(calls.arm), calls.every, with, without, change_of(calls), calls.zones,
                      seconds(calls.zone_seconds), corrected);
    disturbs = disturbs || (calls.interval && calls.interval->low > kDisturbing);
  }
  if (disturbs) {
    text += "tracing disturbs these calls by more than 10 %: believe which ops come first, not by how much\n";
  }
  return text;
}

nlohmann::json tracing_json(const TracingCost& cost) {
  nlohmann::json arms = nlohmann::json::array();
  for (const TracedCalls& calls : cost.arms) {
    arms.push_back({{"name", calls.arm},
                    {"zones", calls.zones},
                    {"untraced_seconds", calls.untraced_seconds},
                    {"traced_seconds", calls.traced_seconds},
                    {"corrected_seconds", corrected_seconds(calls)},
                    {"every", calls.every},
                    {"zone_seconds", calls.zone_seconds},
                    {"change", calls.change},
                    {"change_low", calls.interval ? nlohmann::json(calls.interval->low) : nlohmann::json()},
                    {"change_high", calls.interval ? nlohmann::json(calls.interval->high) : nlohmann::json()}});
  }
  return {{"zone_seconds", cost.zone_seconds}, {"spread_seconds", cost.spread_seconds}, {"arms", std::move(arms)}};
}

}  // namespace diptych::reports
