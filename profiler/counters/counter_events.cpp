#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "profiler/counters/counters.h"
#include "profiler/counters/event_encoding.h"

namespace diptych::profiler {

namespace {

struct WeightedEvent {
  const char* name;
  double operations;
};
/// Intel SDM: each counts instructions, and an fma counts twice.
constexpr std::array fp32_events{WeightedEvent{"FP_ARITH_INST_RETIRED:SCALAR_SINGLE", 1.0},
                                 WeightedEvent{"FP_ARITH_INST_RETIRED:128B_PACKED_SINGLE", 4.0},
                                 WeightedEvent{"FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE", 8.0},
                                 WeightedEvent{"FP_ARITH_INST_RETIRED:512B_PACKED_SINGLE", 16.0}};

constexpr std::uint64_t sanity_iterations = 1'000'000;
/// The cost of two more reads of the group and of the code around the loop is far below this.
constexpr double sanity_tolerance = 0.05;

/// Exactly two instructions per iteration.
void run_sanity_loop() {
  std::uint64_t left = sanity_iterations;
#if defined(__x86_64__)
  asm volatile("1:\n\tdec %0\n\tjnz 1b" : "+r"(left) : : "cc");
#elif defined(__aarch64__)
  asm volatile("1:\n\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(left) : : "cc");
#else
#error "the sanity loop needs two known instructions for this architecture"
#endif
}

}  // namespace

const CounterValue* CounterReading::find(std::string_view name) const {
  for (const CounterValue& candidate : values) {
    if (candidate.name == name) {
      return &candidate;
    }
  }
  return nullptr;
}

std::optional<double> CounterReading::value(std::string_view name) const {
  const CounterValue* found = find(name);
  return found != nullptr ? found->value : std::nullopt;
}

std::vector<std::string> default_events() {
  return {"cycles",       "instructions", "branch-misses", "cache-references",
          "cache-misses", "task-clock",   "page-faults",   "context-switches"};
}

std::vector<std::string> fp32_flop_events() {
  std::vector<std::string> names;
  for (const WeightedEvent& event : fp32_events) {
    names.emplace_back(event.name);
  }
  return names;
}

std::optional<double> fp32_flops(const CounterReading& reading) {
  double sum = 0.0;
  for (const WeightedEvent& event : fp32_events) {
    const std::optional<double> count = reading.value(event.name);
    if (!count) {
      return std::nullopt;
    }
    sum += event.operations * *count;
  }
  return sum;
}

std::uint64_t sanity_loop_instructions() { return 2 * sanity_iterations; }

CounterSupport probe_counters(const SystemCalls& system) {
  CounterGroup group({"instructions", "task-clock"}, system);
  group.start();
  run_sanity_loop();
  const CounterReading reading = group.stop();

  CounterSupport support;
  support.library = event_library();
  const CounterValue& instructions = *reading.find("instructions");
  if (instructions.value) {
    support.sanity_ratio = *instructions.value / static_cast<double>(sanity_loop_instructions());
    support.hardware = std::abs(*support.sanity_ratio - 1.0) <= sanity_tolerance;
    if (*instructions.value == 0.0) {
      support.hardware_reason = "not usable: events open, but read 0; the hypervisor's PMU is a stub";
    } else if (!support.hardware) {
      support.hardware_reason = fmt::format("not usable: a loop of {} instructions was counted as {:.0f}",
                                            sanity_loop_instructions(), *instructions.value);
    }
  } else {
    support.hardware_reason = instructions.reason;
  }
  const CounterValue& task_clock = *reading.find("task-clock");
  support.software = task_clock.value.has_value();
  support.software_reason = task_clock.reason;
  return support;
}

nlohmann::json to_json(const CounterReading& reading) {
  nlohmann::json result = nlohmann::json::array();
  for (const CounterValue& value : reading.values) {
    nlohmann::json entry = {{"name", value.name},
                            {"value", nullptr},
                            {"running_ratio", nullptr},
                            {"reason", nullptr},
                            {"source", value.source}};
    if (value.value) {
      entry["value"] = *value.value;
    }
    if (value.running_ratio) {
      entry["running_ratio"] = *value.running_ratio;
    }
    if (!value.reason.empty()) {
      entry["reason"] = value.reason;
    }
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace diptych::profiler
