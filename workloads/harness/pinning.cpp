#include "workloads/harness/pinning.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sched.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"
#include "profiler/machine/system_files.h"

namespace diptych::workloads {
namespace {

/// parse_cpu_list stops silently at what it doesn't know: right for the kernel's files, wrong for user input.
bool is_cpu_list(std::string_view text) {
  bool digit_before = false;
  bool in_range = false;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    const bool separates = digit_before && (c == ',' || (c == '-' && !in_range));
    if (!digit && !separates) {
      return false;
    }
    in_range = c == '-' || (in_range && c != ',');
    digit_before = digit;
  }
  return digit_before;
}

}  // namespace

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    throw Error(fmt::format("can't read which CPUs this process may use: {}", std::strerror(errno)));
  }
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

std::vector<int> cpus_to_pin(std::string_view wanted, std::span<const int> allowed) {
  if (wanted == "auto" && !allowed.empty()) {
    return {allowed.back()};
  }
  std::vector<int> cpus = is_cpu_list(wanted) ? profiler::parse_cpu_list(wanted) : std::vector<int>{};
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  const bool good = !cpus.empty() && std::all_of(cpus.begin(), cpus.end(), [&](int cpu) {
    return std::find(allowed.begin(), allowed.end(), cpu) != allowed.end();
  });
  if (!good) {
    throw Error(
        fmt::format("--pin: '{}' names no CPUs that this process may use; allowed: {} (write one, or a list "
                    "like 0,2-3)",
                    wanted, fmt::join(allowed, ",")));
  }
  return cpus;
}

void pin_this_process(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) {
      CPU_SET(cpu, &set);
    }
  }
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    throw Error(fmt::format("can't bind the process to CPU {}: {}", fmt::join(cpus, ","), std::strerror(errno)));
  }
}

}  // namespace diptych::workloads
