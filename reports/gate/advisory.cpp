#include "reports/gate/advisory.h"

#include <cmath>

#include "reports/analysis/usage.h"
#include "reports/run/json_access.h"

namespace diptych::reports {

void add_advisory_rows(Json& rows, const Subject& base, const Subject& head, SameMachine machine) {
  for (const UsageMetric& metric : usage_metrics()) {
    const auto a = figure_of(base.usage, metric.name);
    const auto b = figure_of(head.usage, metric.name);
    const bool is_hardware = metric.group == std::string("counters");
    if (metric.name == std::string("peak_rss_bytes") && base.after != head.after) {
      continue;
    }
    if (!a || !b || *a < 0 || *b < 0 || (is_hardware && machine == SameMachine::no)) {
      continue;
    }
    const bool has_ratio = *a > 0 && std::isfinite(*b / *a);
    rows.push_back({{"workload", base.workload},
                    {"arm", base.arm.empty() ? Json() : Json(base.arm)},
                    {"metric", metric.name},
                    {"tier", "advisory"},
                    {"unit", metric.unit},
                    {"base", *a},
                    {"head", *b},
                    {"ratio", has_ratio ? to_json(std::optional<Estimate>(Estimate{*b / *a, {}, {}, 0.95})) : Json()}});
  }
}

}  // namespace diptych::reports
