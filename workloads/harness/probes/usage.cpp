#include "workloads/harness/probes/usage.h"

#include <array>
#include <utility>

#include "profiler/machine/memory_peak.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

constexpr const char* kPageFaults = "page-faults";

struct HardwareEvent {
  const char* event;  ///< perf's name
  const char* field;  ///< run.json's
};
constexpr std::array kHardwareEvents = {
    HardwareEvent{"cycles", "cycles"}, HardwareEvent{"instructions", "instructions"},
    HardwareEvent{"cache-misses", "cache_misses"}, HardwareEvent{"branch-misses", "branch_misses"}};

json per_call(const std::optional<double>& count, std::int64_t calls) {
  return count ? json(*count / static_cast<double>(calls)) : json();
}

}  // namespace

UsageMeter::UsageMeter(profiler::SystemFiles files, profiler::SystemCalls system)
    : files_(std::move(files)), system_(std::move(system)), support_(profiler::probe_counters(system_)) {}

void UsageMeter::measure(json& arm, std::int64_t calls, const std::function<void()>& block) const {
  std::vector<std::string> events = {kPageFaults};
  for (const HardwareEvent& each : kHardwareEvents) {
    if (support_.hardware) {  // if the counts can't be trusted, no counter is opened
      events.emplace_back(each.event);
    }
  }
  profiler::CounterGroup group(events, system_);
  const bool peak_is_its_own = profiler::reset_peak_rss(files_);
  group.start();
  block();
  const profiler::CounterReading reading = group.stop();
  const std::optional<double> peak = peak_is_its_own ? profiler::peak_rss_bytes(files_) : std::nullopt;

  json memory = {{"peak_rss_bytes", peak ? json(*peak) : json()},
                 {"page_faults", per_call(reading.value(kPageFaults), calls)}};
  if (!peak_is_its_own) {
    memory["reason"] = "the peak of one arm can't be told: /proc/self/clear_refs can't be written";
  } else if (!peak) {
    memory["reason"] = "/proc/self/status has no VmHWM";
  } else if (memory["page_faults"].is_null()) {
    memory["reason"] = reading.find(kPageFaults)->reason;
  }
  json counters = {{"calls", calls}};
  for (const HardwareEvent& each : kHardwareEvents) {
    counters[each.field] = per_call(reading.value(each.event), calls);
    const profiler::CounterValue* value = reading.find(each.event);
    if (value != nullptr && !value->reason.empty() && !counters.contains("reason")) {
      counters["reason"] = std::string(each.event) + ": " + value->reason;
    }
  }
  if (!support_.hardware) {
    counters["reason"] = support_.hardware_reason;
  }
  arm["memory"] = std::move(memory);
  arm["counters"] = std::move(counters);
}

}  // namespace diptych::workloads
