#include "framework/runtime/exact_metrics.h"

#include <array>

namespace diptych::runtime {
namespace {

using M = ExactMetrics;

constexpr std::array<ExactMetric, 6> kMetrics = {
    {{"nodes", false, "nodes", "nodes", true, false, &M::nodes},
     {"dispatches", false, "dispatches", "dispatches", true, true, &M::dispatches},
     {"allocations", false, "allocations", "allocations", true, true, &M::allocations},
     {"peak_bytes", true, "peak memory", "peak", true, false, &M::peak_bytes},
     {"planned_peak_bytes", true, "planned peak", nullptr, true, false, &M::planned_peak_bytes},
     {"lower_bound_bytes", true, "lower bound", nullptr, false, false, &M::lower_bound_bytes}}};

}  // namespace

std::span<const ExactMetric> exact_metrics() { return kMetrics; }

}  // namespace diptych::runtime
