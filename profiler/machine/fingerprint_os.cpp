#include <algorithm>
#include <array>
#include <gnu/libc-version.h>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "profiler/machine/fingerprint.h"
#include "profiler/machine/json_section.h"

namespace diptych::profiler {

namespace {

/// "/a/b" -> "/a/b", "/a", ""
std::vector<std::string> with_parents(std::string path) {
  std::vector<std::string> paths;
  while (path.size() > 1) {
    paths.push_back(path);
    path.erase(path.find_last_of('/'));
  }
  paths.emplace_back();
  return paths;
}

/// "max 100000" or "200000 100000": cgroup v2's cpu.max.
std::optional<double> quota_of(const std::string& text) {
  std::istringstream words(text);
  double quota = 0.0;
  double period = 0.0;
  return words >> quota >> period && quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

std::optional<std::int64_t> memory_bytes(const SystemFiles& files, std::string_view key) {
  const auto text = files.read_field("/proc/meminfo", key);
  const auto kib = text ? leading_integer(*text) : std::nullopt;
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

/// Boot parameters that change timings. The others name disks, hosts and consoles, which a report shouldn't publish.
std::optional<std::vector<std::string>> kernel_parameters(const SystemFiles& files) {
  constexpr std::array tuning{"mitigations",
                              "spectre",
                              "spec_",
                              "retbleed",
                              "l1tf",
                              "mds",
                              "nosmt",
                              "isolcpus",
                              "nohz",
                              "rcu_nocbs",
                              "irqaffinity",
                              "maxcpus",
                              "nr_cpus",
                              "idle",
                              "cpuidle",
                              "cpufreq",
                              "intel_pstate",
                              "intel_idle",
                              "amd_pstate",
                              "processor.",
                              "tsc",
                              "clocksource",
                              "hpet",
                              "numa",
                              "transparent_hugepage",
                              "hugepages",
                              "hugepagesz",
                              "default_hugepagesz",
                              "preempt",
                              "nmi_watchdog",
                              "nowatchdog",
                              "skew_tick",
                              "norandmaps",
                              "sched_"};
  const auto text = files.read("/proc/cmdline");
  if (!text) {
    return std::nullopt;
  }
  std::vector<std::string> kept;
  std::istringstream words(*text);
  for (std::string word; words >> word;) {
    if (word == "--") {
      break;  // the remaining words are for init
    }
    if (std::any_of(tuning.begin(), tuning.end(), [&](const char* prefix) { return word.starts_with(prefix); })) {
      kept.push_back(word);
    }
  }
  return kept;
}

std::optional<std::string> huge_pages(const SystemFiles& files) {
  const auto text = files.read("/sys/kernel/mm/transparent_hugepage/enabled");
  return text ? selected_choice(*text) : std::nullopt;
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const SystemFiles& files) {
  const auto membership = files.read("/proc/self/cgroup");
  if (!membership) {
    return std::nullopt;
  }
  // Lines are "id:controllers:path"; v2 has id 0 and no controllers. The tightest limit on the path to the root
  // applies.
  std::optional<double> tightest;
  const auto tighten = [&](std::optional<double> quota) {
    if (quota && (!tightest || *quota < *tightest)) {
      tightest = quota;
    }
  };
  std::istringstream lines(*membership);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    for (const std::string& path : with_parents(line.substr(second + 1))) {
      if (controllers == ",,") {
        tighten(quota_of(files.read(fmt::format("/sys/fs/cgroup{}/cpu.max", path)).value_or("")));
      } else if (controllers.find(",cpu,") != std::string::npos) {
        const std::string folder = fmt::format("/sys/fs/cgroup/cpu{}", path);
        const auto quota = files.read(folder + "/cpu.cfs_quota_us");
        const auto period = files.read(folder + "/cpu.cfs_period_us");
        tighten(quota && period ? quota_of(fmt::format("{} {}", *quota, *period)) : std::nullopt);
      }
    }
  }
  return tightest;
}

nlohmann::json os_fingerprint(const SystemFiles& files) {
  JsonSection section;
  section.set_or_null("kernel", files.read("/proc/sys/kernel/osrelease"), "no /proc/sys/kernel/osrelease");
  section.set_or_null("kernel_build", files.read("/proc/sys/kernel/version"), "no /proc/sys/kernel/version");
  section.set_or_null("kernel_parameters", kernel_parameters(files), "no /proc/cmdline");
  section.set_or_null("distribution", files.read_field("/etc/os-release", "PRETTY_NAME"), "no /etc/os-release");
  section.set("libc", fmt::format("glibc {}", gnu_get_libc_version()));
  section.set_or_null("aslr", files.read_integer("/proc/sys/kernel/randomize_va_space"),
                      "no /proc/sys/kernel/randomize_va_space");
  section.set_or_null("transparent_huge_pages", huge_pages(files), "the kernel has none");
  section.set_or_null("memory_bytes", memory_bytes(files, "MemTotal"), "no /proc/meminfo");
  section.set_or_null("memory_available_bytes", memory_bytes(files, "MemAvailable"), "no /proc/meminfo");
  const auto swap = memory_bytes(files, "SwapTotal");
  const auto swap_free = memory_bytes(files, "SwapFree");
  section.set_or_null("swap_bytes", swap, "no /proc/meminfo");
  section.set_or_null("swap_used_bytes", swap && swap_free ? std::optional(*swap - *swap_free) : std::nullopt,
                      "no /proc/meminfo");
  section.set_or_null("cgroup_cpu_quota", cgroup_cpu_quota(files), "no limit set");
  section.set_or_null("perf_event_paranoid", files.read_integer("/proc/sys/kernel/perf_event_paranoid"),
                      "the kernel has no perf events");
  section.set_or_null("clocksource", files.read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
                      "not in sysfs");
  section.set_or_null("uptime_seconds", files.read_number("/proc/uptime"), "no /proc/uptime");
  section.set_or_null("load_average", load_average(files), "no /proc/loadavg");
  section.set_or_null("dmi_vendor", files.read("/sys/class/dmi/id/sys_vendor"), "no DMI table in sysfs");
  section.set_or_null("dmi_product", files.read("/sys/class/dmi/id/product_name"), "no DMI table in sysfs");
  return std::move(section).take();
}

}  // namespace diptych::profiler
