#include "workloads/harness/load.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace diptych::workloads {
namespace {

using nlohmann::json;

/// User, nice, system, interrupt and soft interrupt time of all CPUs; not what they idled or were robbed of.
std::optional<double> busy_seconds(const profiler::SystemFiles& files) {
  const std::optional<std::string> text = files.read("/proc/stat");
  if (!text) {
    return std::nullopt;
  }
  // cpu  user nice system idle iowait irq softirq ...
  std::istringstream line(*text);
  std::string label;
  std::array<double, 7> ticks{};
  line >> label;
  for (double& column : ticks) {
    line >> column;
  }
  if (!line || label != "cpu") {
    return std::nullopt;
  }
  return (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Lines "cpu0 ...", "cpu1 ..." of /proc/stat.
std::optional<int> cpu_count(const profiler::SystemFiles& files) {
  std::istringstream lines(files.read("/proc/stat").value_or(""));
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += line.size() > 3 && line.starts_with("cpu") && line[3] >= '0' && line[3] <= '9' ? 1 : 0;
  }
  return count > 0 ? std::optional(count) : std::nullopt;
}

}  // namespace

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
  now.busy = busy_seconds(files_);
  now.own = own_seconds_();
  now.time = clock_();
  return now;
}

json LoadWatch::finish() const {
  const auto optional = [](const auto& value) { return value ? json(*value) : json(); };
  const Sample after = sample();
  const std::optional<int> cpus = cpu_count(files_);
  json load = {{"before", optional(before_.load)},
               {"after", optional(after.load)},
               {"others_cpu", nullptr},
               {"cpus", optional(cpus)}};
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
