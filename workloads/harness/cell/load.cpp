#include "workloads/harness/cell/load.h"

#include <algorithm>
#include <cmath>
#include <sys/resource.h>

#include "profiler/machine/cpu_times.h"

namespace diptych::workloads {

using nlohmann::json;

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

LoadWatch::LoadWatch(profiler::SystemFiles files, Clock clock, std::function<double()> own_seconds)
    : files_(std::move(files)), clock_(std::move(clock)), own_seconds_(std::move(own_seconds)), before_(sample()) {}

LoadWatch::Sample LoadWatch::sample() const {
  Sample now;
  const double load = profiler::load_average(files_);
  now.load = std::isfinite(load) ? std::optional(load) : std::nullopt;
  if (const auto machine = profiler::machine_times(files_)) {
    now.busy = std::isfinite(machine->all.busy) ? std::optional(machine->all.busy) : std::nullopt;
    now.cpus = machine->cpus.empty() ? std::nullopt : std::optional(machine->cpus.size());
  }
  now.own = own_seconds_();
  now.time = clock_();
  return now;
}

json LoadWatch::finish() const {
  const auto optional = [](const auto& value) { return value ? json(*value) : json(); };
  const Sample after = sample();
  json load = {{"before", optional(before_.load)},
               {"after", optional(after.load)},
               {"others_cpu", nullptr},
               {"cpus", optional(after.cpus)}};
  const double seconds = after.time - before_.time;
  std::string reason;
  if (!before_.busy || !after.busy) {
    reason = "/proc/stat can't be read";
  } else if (!(seconds > 0)) {
    reason = "the clock did not move";
  } else {
    // Both are rounded to ticks, so the difference may come out below nothing.
    load["others_cpu"] = std::max(0.0, *after.busy - *before_.busy - (after.own - before_.own)) / seconds;
  }
  if (!before_.load || !after.load) {
    reason += std::string(reason.empty() ? "" : "; ") + "/proc/loadavg can't be read";
  }
  if (!reason.empty()) {
    load["reason"] = reason;
  }
  return load;
}

}  // namespace diptych::workloads
