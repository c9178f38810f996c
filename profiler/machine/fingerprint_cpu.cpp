#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "profiler/machine/fingerprint.h"
#include "profiler/machine/json_section.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace diptych::profiler {

namespace {

constexpr std::string_view cpu_folder = "/sys/devices/system/cpu";
constexpr const char* no_cpufreq = "no cpufreq in sysfs: the host or firmware controls the clock, and doesn't show it";

std::string cpu_path(int cpu, std::string_view rest) { return fmt::format("{}/cpu{}/{}", cpu_folder, cpu, rest); }

std::vector<int> online_cpus(const SystemFiles& files) {
  const auto text = files.read(fmt::format("{}/online", cpu_folder));
  return text ? parse_cpu_list(*text) : std::vector<int>{};
}

std::optional<std::string> cpuinfo(const SystemFiles& files, std::string_view key) {
  return files.read_field("/proc/cpuinfo", key);
}

/// "KVMKVMKVM", "Microsoft Hv", ...: CPUID leaf 0x40000000.
std::optional<std::string> hypervisor_vendor(const SystemFiles& files) {
#if defined(__x86_64__)
  unsigned eax = 0;
  std::array<unsigned, 3> signature{};
  constexpr unsigned hypervisor_present = 1U << 31U;
  unsigned ecx = 0;
  if (!files.is_this_machine() || __get_cpuid(1, &eax, &signature[0], &ecx, &signature[1]) == 0 ||
      (ecx & hypervisor_present) == 0) {
    return std::nullopt;
  }
  __cpuid(0x40000000U, eax, signature[0], signature[1], signature[2]);
  std::array<char, sizeof(signature) + 1> text{};
  std::memcpy(text.data(), signature.data(), sizeof(signature));
  return std::string(text.data());
#else
  static_cast<void>(files);
  return std::nullopt;
#endif
}

void add_identity(JsonSection& section, const SystemFiles& files) {
  section.set_or_null("model", cpuinfo(files, "model name"), "not in /proc/cpuinfo");
  section.set_or_null("vendor", cpuinfo(files, "vendor_id"), "not in /proc/cpuinfo");
  for (const auto& [field, key] :
       {std::pair{"family", "cpu family"}, std::pair{"model_number", "model"}, std::pair{"stepping", "stepping"}}) {
    const auto text = cpuinfo(files, key);
    section.set_or_null(field, text ? leading_integer(*text) : std::nullopt, "not in /proc/cpuinfo");
  }
  section.set_or_null("microcode", cpuinfo(files, "microcode"), "not in /proc/cpuinfo");

  std::istringstream words(cpuinfo(files, "flags").value_or(cpuinfo(files, "Features").value_or("")));
  std::set<std::string> flags;
  for (std::string flag; words >> flag;) {
    flags.insert(flag);
  }
  section.set("flags", flags);
  nlohmann::json isa = nlohmann::json::array();
  for (const char* name : {"sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl",
                           "avx512dq", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "asimd", "sve"}) {
    if (flags.contains(name)) {
      isa.push_back(name);
    }
  }
  section.set("isa", std::move(isa));
  section.set("hypervisor", flags.contains("hypervisor"));
  section.set_or_null("hypervisor_vendor", hypervisor_vendor(files), "no hypervisor, or it doesn't name itself");
}

void add_topology(JsonSection& section, const SystemFiles& files, const std::vector<int>& cpus) {
  std::set<std::string> sockets;
  std::set<std::string> cores;
  nlohmann::json siblings = nlohmann::json::object();
  for (const int cpu : cpus) {
    const auto socket = files.read(cpu_path(cpu, "topology/physical_package_id"));
    const auto shared = files.read(cpu_path(cpu, "topology/thread_siblings_list"));
    if (socket) {
      sockets.insert(*socket);
    }
    if (shared) {
      cores.insert(*shared);
      siblings[std::to_string(cpu)] = *shared;
    }
  }
  const auto count = [](const auto& set) { return set.empty() ? std::nullopt : std::optional(set.size()); };
  section.set_or_null("sockets", count(sockets), "no topology in sysfs");
  section.set_or_null("cores", count(cores), "no topology in sysfs");
  section.set_or_null("threads", count(cpus), "no list of online CPUs in sysfs");
  section.set("siblings", std::move(siblings));
  std::size_t nodes = 0;
  for (const std::string& name : files.list("/sys/devices/system/node")) {
    nodes += name.starts_with("node") ? 1 : 0;
  }
  section.set_or_null("numa_nodes", nodes == 0 ? std::nullopt : std::optional(nodes), "no NUMA nodes in sysfs");
}

/// "96K" -> 98304
std::optional<std::int64_t> cache_bytes(const std::string& text) {
  const auto number = leading_integer(text);
  if (!number) {
    return std::nullopt;
  }
  return text.back() == 'K' ? *number << 10U : text.back() == 'M' ? *number << 20U : *number;
}

/// The caches seen by the first CPU.
void add_caches(JsonSection& section, const SystemFiles& files, int cpu) {
  nlohmann::json caches = nlohmann::json::array();
  for (const std::string& index : files.list(cpu_path(cpu, "cache"))) {
    const std::string folder = cpu_path(cpu, "cache/" + index);
    const auto level = files.read_integer(folder + "/level");
    const auto size = cache_bytes(files.read(folder + "/size").value_or(""));
    if (!level || !size) {
      continue;
    }
    JsonSection cache;
    cache.set("level", *level);
    cache.set("size_bytes", *size);
    cache.set_or_null("type", files.read(folder + "/type"), "not in sysfs");
    cache.set_or_null("line_bytes", files.read_integer(folder + "/coherency_line_size"), "not in sysfs");
    cache.set_or_null("shared_cpus", files.read(folder + "/shared_cpu_list"), "not in sysfs");
    caches.push_back(std::move(cache).take());
  }
  section.set("caches", std::move(caches));
}

std::optional<bool> turbo(const SystemFiles& files) {
  if (const auto off = files.read_number("/sys/devices/system/cpu/intel_pstate/no_turbo")) {
    return *off == 0.0;
  }
  if (const auto boost = files.read_number("/sys/devices/system/cpu/cpufreq/boost")) {
    return *boost != 0.0;
  }
  return std::nullopt;
}

void add_frequency(JsonSection& section, const SystemFiles& files, int cpu) {
  const auto mhz = [&](std::string_view name) -> std::optional<double> {
    const auto khz = files.read_number(cpu_path(cpu, fmt::format("cpufreq/{}", name)));
    return khz ? std::optional(*khz / 1000.0) : std::nullopt;
  };
  const auto shown = cpuinfo(files, "cpu MHz");
  auto current = mhz("scaling_cur_freq");
  current = current ? current : shown ? leading_number(*shown) : std::nullopt;
  section.set_or_null("current_mhz", current, no_cpufreq);
  section.set_or_null("min_mhz", mhz("scaling_min_freq"), no_cpufreq);
  section.set_or_null("max_mhz", mhz("scaling_max_freq"), no_cpufreq);
  section.set_or_null("governor", files.read(cpu_path(cpu, "cpufreq/scaling_governor")), no_cpufreq);
  section.set_or_null("frequency_driver", files.read(cpu_path(cpu, "cpufreq/scaling_driver")), no_cpufreq);
  section.set_or_null("turbo", turbo(files), "neither intel_pstate/no_turbo nor cpufreq/boost in sysfs");
  section.set_or_null("idle_driver", files.read("/sys/devices/system/cpu/cpuidle/current_driver"),
                      "no cpuidle in sysfs");
  nlohmann::json states = nlohmann::json::array();
  for (const std::string& state : files.list(cpu_path(cpu, "cpuidle"))) {
    if (const auto name = files.read(cpu_path(cpu, fmt::format("cpuidle/{}/name", state)))) {
      states.push_back(*name);
    }
  }
  section.set("idle_states", std::move(states));
}

}  // namespace

nlohmann::json cpu_fingerprint(const SystemFiles& files) {
  JsonSection section;
  const std::vector<int> cpus = online_cpus(files);
  const int first = cpus.empty() ? 0 : cpus.front();
  add_identity(section, files);
  add_topology(section, files, cpus);
  add_caches(section, files, first);
  add_frequency(section, files, first);
  section.set_or_null("steal_seconds", steal_seconds(files), "no /proc/stat");
  return std::move(section).take();
}

}  // namespace diptych::profiler
