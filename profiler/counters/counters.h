#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "profiler/counters/system_calls.h"

/// Hardware and software event counts of one thread, through libpfm4 (names) and perf_event_open (counting). Count in
/// separate runs, not in the timed ones: starting and stopping a group costs microseconds.
namespace diptych::profiler {

struct CounterValue {
  std::string name;
  /// nullopt if unknown, never 0 instead.
  std::optional<double> value;
  /// The fraction of the time for which the event was actually counted; the rest is extrapolated. 1: counted
  /// throughout.
  std::optional<double> running_ratio;
  /// Why there is no value, or a caveat about it (empty: none).
  std::string reason;
  /// "perf" or "getrusage"
  std::string source;
};

struct CounterReading {
  std::vector<CounterValue> values;  ///< in the requested order
  [[nodiscard]] const CounterValue* find(std::string_view name) const;
  [[nodiscard]] std::optional<double> value(std::string_view name) const;
};

/// Cycles, instructions, branch misses, cache references and misses, then the software events.
std::vector<std::string> default_events();

/// Retired single-precision operations on Intel cores, by vector width: scalar, 128, 256, 512 bit.
std::vector<std::string> fp32_flop_events();

/// scalar + 4 x 128b + 8 x 256b + 16 x 512b; an fma counts as two. nullopt if any term is missing.
std::optional<double> fp32_flops(const CounterReading& reading);

/// Counts for the thread that creates it; that thread also starts and stops it. Hardware events exclude kernel and
/// hypervisor time. The hardware events that open form one group, which the PMU counts at the same time or not at all,
/// so that their ratios hold.
class CounterGroup {
 public:
  explicit CounterGroup(const std::vector<std::string>& events = default_events(),
                        SystemCalls system = SystemCalls::real());
  ~CounterGroup();
  CounterGroup(CounterGroup&&) noexcept;
  CounterGroup& operator=(CounterGroup&&) noexcept;

  void start();
  /// The counts since start() so far, as they are, in the order of the events: not scaled for the time in which they
  /// weren't counted; NaN where there is none. Doesn't allocate. `counts`: one for each event.
  void sample(std::span<double> counts) const;
  /// The counts since start(). Throws Error if not started.
  CounterReading stop();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

struct CounterSupport {
  bool hardware = false;
  std::string hardware_reason;  ///< why not; empty if `hardware`
  bool software = false;
  std::string software_reason;
  std::string library;  ///< "libpfm4" or "not built with libpfm4"
  /// Instructions counted in a loop of known length, divided by that length.
  std::optional<double> sanity_ratio;
};

/// Opens the counters, counts a loop of known length, and trusts the hardware only if the count is right, because some
/// virtual machines open every event and read 0. Takes about 2 ms.
CounterSupport probe_counters(const SystemCalls& system = SystemCalls::real());

/// Instructions in the loop that probe_counters() counts.
std::uint64_t sanity_loop_instructions();

nlohmann::json to_json(const CounterReading& reading);

}  // namespace diptych::profiler
