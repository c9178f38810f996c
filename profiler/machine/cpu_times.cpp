#include "profiler/machine/cpu_times.h"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <string>
#include <unistd.h>

namespace diptych::profiler {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The columns after the name: user nice system idle iowait irq softirq steal ...
CpuTimes times_of(std::istringstream& line) {
  std::array<double, 8> ticks{};
  std::size_t columns = 0;
  while (columns < ticks.size() && line >> ticks[columns]) {
    ++columns;
  }
  const double second = 1 / tick_seconds();
  return {columns < 7 ? kUnknown : (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / second,
          columns < 8 ? kUnknown : ticks[7] / second};
}

}  // namespace

double tick_seconds() { return 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK)); }

std::optional<MachineTimes> machine_times(const SystemFiles& files) {
  std::istringstream lines(files.read("/proc/stat").value_or(""));
  MachineTimes machine;
  bool found = false;
  for (std::string text; std::getline(lines, text) && text.starts_with("cpu");) {
    std::istringstream line(text.substr(3));
    if (text.starts_with("cpu ")) {
      machine.all = times_of(line);
      found = true;
    } else if (int cpu = 0; line >> cpu) {
      machine.cpus[cpu] = times_of(line);
    }
  }
  return found ? std::optional(machine) : std::nullopt;
}

std::vector<ThreadTimes> thread_times(const SystemFiles& files, const std::string& process) {
  std::vector<ThreadTimes> threads;
  for (const std::string& id : files.list(process + "/task")) {
    const std::string folder = process + "/task/" + id;
    const std::string stat = files.read(folder + "/stat").value_or("");
    std::istringstream schedule(files.read(folder + "/schedstat").value_or(""));
    // "tid (name) state ...": the name may contain anything. The CPU is field 39.
    std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
    std::string skipped;
    for (int field = 3; field < 39; ++field) {
      fields >> skipped;
    }
    ThreadTimes thread;
    if (schedule >> thread.ran >> thread.waited && fields >> thread.cpu) {
      thread.id = static_cast<int>(leading_integer(id).value_or(0));
      thread.ran *= 1e-9;
      thread.waited *= 1e-9;
      threads.push_back(thread);
    }
  }
  return threads;
}

}  // namespace diptych::profiler
