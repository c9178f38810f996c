#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/text.h"
#include "profiler/machine/doctor.h"
#include "profiler/units_text.h"

namespace diptych::profiler {

namespace {

using Level = Finding::Level;
using Section = Finding::Section;

/// Reads `details` by path; anything may be missing.
class Facts {
 public:
  explicit Facts(const nlohmann::json& details) : details_(details) {}

  template <typename T>
  [[nodiscard]] std::optional<T> get(std::string_view pointer) const {
    const nlohmann::json::json_pointer path{std::string(pointer)};
    if (!details_.contains(path) || details_.at(path).is_null()) {
      return std::nullopt;
    }
    return details_.at(path).get<T>();
  }
  [[nodiscard]] std::optional<double> number(std::string_view pointer) const { return get<double>(pointer); }
  [[nodiscard]] std::string text(std::string_view pointer, std::string_view fallback = "") const {
    return get<std::string>(pointer).value_or(std::string(fallback));
  }
  [[nodiscard]] bool is_true(std::string_view pointer) const { return get<bool>(pointer).value_or(false); }

 private:
  const nlohmann::json& details_;
};

std::string percent(double fraction) { return fmt::format("{:.2g}%", 100.0 * fraction); }

Finding hardware_counters(const Facts& facts) {
  if (facts.is_true("/counters/hardware")) {
    return {Level::good, "hardware counters",
            fmt::format("cycles, instructions, cache and branch events; a known loop counts right to {}",
                        percent(std::abs(facts.number("/counters/sanity_ratio").value_or(1.0) - 1.0))),
            "", Section::ability};
  }
  return {Level::note, "hardware counters", "none: " + facts.text("/counters/hardware_reason", "not probed"),
          "instruction counts come from valgrind --tool=callgrind instead; times are not affected", Section::ability};
}

Finding software_counters(const Facts& facts) {
  if (facts.is_true("/counters/software")) {
    return {Level::good, "software counters", "task clock, page faults, context switches", "", Section::ability};
  }
  return {Level::note, "software counters", "none: " + facts.text("/counters/software_reason", "not probed"), "",
          Section::ability};
}

Finding clock(const Facts& facts) {
  const double cost = facts.number("/fingerprint/clock/cost_ns").value_or(0.0);
  const std::string message = fmt::format(
      "{}; step {}, {} a reading", facts.text("/fingerprint/clock/kind", "unknown"),
      format_duration(facts.number("/fingerprint/clock/resolution_ns").value_or(0.0)), format_duration(cost));
  if (cost > 100.0) {
    return {Level::warning, "clock", message,
            "reading the time is a system call here; boot with clocksource=tsc if the processor's TSC is invariant",
            Section::ability};
  }
  return {Level::good, "clock", message, "", Section::ability};
}

Finding instruction_sets(const Facts& facts) {
  const auto isa = facts.get<std::vector<std::string>>("/fingerprint/cpu/isa").value_or(std::vector<std::string>{});
  const bool wide =
      std::find(isa.begin(), isa.end(), "avx2") != isa.end() || std::find(isa.begin(), isa.end(), "asimd") != isa.end();
  const std::string model = printable(facts.text("/fingerprint/cpu/model", "unknown processor"));
  return {
      wide ? Level::good : Level::note, "processor",
      fmt::format("{}: {}", model, isa.empty() ? "no vector extensions known" : fmt::format("{}", fmt::join(isa, " "))),
      wide ? "" : "without AVX2 the generic kernels run; ratios won't carry over to newer machines", Section::ability};
}

Finding cores(const Facts& facts) {
  const double threads = facts.number("/fingerprint/cpu/threads").value_or(0.0);
  const double physical = facts.number("/fingerprint/cpu/cores").value_or(threads);
  const auto allowed = facts.get<std::vector<int>>("/fingerprint/process/affinity").value_or(std::vector<int>{});
  const std::string message =
      fmt::format("{} cores, {} hardware threads, {} usable by this process", physical, threads, allowed.size());
  if (threads > 0 && static_cast<double>(allowed.size()) < threads) {
    return {Level::note, "cores", message, "thread counts above the usable CPUs only measure the scheduler",
            Section::ability};
  }
  return {Level::good, "cores", message, "", Section::ability};
}

Finding disk(const Facts& facts) {
  const auto free = facts.number("/disk_free_bytes");
  if (!free) {
    return {Level::note, "disk", "free space unknown", "", Section::ability};
  }
  const bool low = *free < 1024.0 * 1024.0 * 1024.0;
  return {low ? Level::warning : Level::good, "disk", format_bytes(*free) + " free for results",
          low ? "a trace takes up to 100 MB, and so does each run's raw data: make room" : "", Section::ability};
}

Finding timing_noise(const Facts& facts) {
  const auto variation = facts.number("/noise/coefficient_of_variation");
  if (!variation) {
    return {Level::note, "timing noise", "not probed", ""};
  }
  const double worst = facts.number("/noise/worst_over_median").value_or(1.0);
  const std::string message =
      fmt::format("a fixed loop of {} varies by {} (CV), worst {:.2f}x the median",
                  format_duration(facts.number("/noise/median_ns").value_or(0.0)), percent(*variation), worst);
  if (*variation > 0.05) {
    return {Level::warning, "timing noise", message,
            "stop other work; measure with --certify, and trust only ratios with their intervals"};
  }
  if (*variation > 0.01 || worst > 1.5) {
    return {Level::note, "timing noise", message, "run `diptych calibrate` to learn which effects can be detected"};
  }
  return {Level::good, "timing noise", message, ""};
}

Finding steal(const Facts& facts) {
  const auto fraction = facts.number("/noise/steal_fraction");
  if (!fraction) {
    return {Level::note, "steal time", "unknown", ""};
  }
  if (*fraction > 0.01) {
    return {Level::warning, "steal time", percent(*fraction) + " of a CPU went to other machines on this host",
            "measure at another time or on a dedicated host; runs with steal are marked CONTAMINATED"};
  }
  return {Level::good, "steal time", "none worth noting during the probe", ""};
}

Finding load(const Facts& facts) {
  const auto average = facts.number("/fingerprint/os/load_average");
  if (!average) {
    return {Level::note, "load", "unknown", ""};
  }
  const double cpus = std::max(1.0, facts.number("/fingerprint/cpu/threads").value_or(1.0));
  const std::string message = fmt::format("{:.2f} over the last minute, on {} CPUs", *average, cpus);
  if (*average > 0.5 * cpus) {
    return {Level::warning, "load", message, "stop other work before measuring"};
  }
  return {*average > 0.25 * cpus ? Level::note : Level::good, "load", message, ""};
}

Finding frequency(const Facts& facts) {
  const auto governor = facts.get<std::string>("/fingerprint/cpu/governor");
  if (!governor) {
    return {Level::note, "frequency", "not visible: the host or the firmware controls the clock",
            "interleaved rounds cancel slow drift; don't compare times between runs"};
  }
  const std::string message = fmt::format("governor {} ({}), up to {:.0f} MHz", printable(*governor),
                                          printable(facts.text("/fingerprint/cpu/frequency_driver", "unknown driver")),
                                          facts.number("/fingerprint/cpu/max_mhz").value_or(0.0));
  if (*governor != "performance") {
    return {Level::warning, "frequency", message, "sudo cpupower frequency-set -g performance"};
  }
  return {Level::good, "frequency", message, ""};
}

std::optional<Finding> turbo(const Facts& facts) {
  if (!facts.is_true("/fingerprint/cpu/turbo")) {
    return std::nullopt;
  }
  return Finding{Level::note, "turbo", "on: the clock depends on temperature and on the other cores",
                 "switch it off for absolute times (intel_pstate/no_turbo or cpufreq/boost in sysfs)"};
}

Finding virtualisation(const Facts& facts) {
  if (!facts.is_true("/fingerprint/cpu/hypervisor")) {
    return {Level::good, "virtualisation", "none seen", ""};
  }
  std::vector<std::string> names;
  for (const auto* path :
       {"/fingerprint/cpu/hypervisor_vendor", "/fingerprint/os/dmi_vendor", "/fingerprint/os/dmi_product"}) {
    if (const auto name = facts.get<std::string>(path)) {
      names.push_back(printable(*name));
    }
  }
  return {Level::note, "virtualisation",
          fmt::format("virtual machine ({})", names.empty() ? "unnamed" : fmt::format("{}", fmt::join(names, ", "))),
          "neighbours on the host share caches and memory bandwidth; prefer ratios over times"};
}

std::optional<Finding> siblings(const Facts& facts) {
  const auto threads = facts.number("/fingerprint/cpu/threads");
  const auto physical = facts.number("/fingerprint/cpu/cores");
  if (!threads || !physical || *threads <= *physical) {
    return std::nullopt;
  }
  return Finding{Level::note, "hyper-threads", "hardware threads share cores",
                 "use at most one thread per core (--threads), pinned by taskset or by the job's cpuset"};
}

std::optional<Finding> quota(const Facts& facts) {
  const auto limit = facts.number("/fingerprint/os/cgroup_cpu_quota");
  if (!limit) {
    return std::nullopt;
  }
  const auto allowed = facts.get<std::vector<int>>("/fingerprint/process/affinity").value_or(std::vector<int>{});
  const bool binds = *limit < static_cast<double>(allowed.size());
  return Finding{
      binds ? Level::warning : Level::good, "CPU quota",
      fmt::format("this control group may use {:.3g} CPUs' time", *limit),
      binds ? "beyond it the kernel stops the process for milliseconds; use fewer threads than the quota" : ""};
}

Finding huge_pages(const Facts& facts) {
  const std::string mode = printable(facts.text("/fingerprint/os/transparent_huge_pages", "unknown"));
  if (mode == "always") {
    return {Level::note, "huge pages",
            "transparent huge pages: always; memory layout changes behind the program's back",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"};
  }
  return {mode == "unknown" ? Level::note : Level::good, "huge pages", "transparent huge pages: " + mode, ""};
}

Finding address_layout(const Facts& facts) {
  const bool off = facts.number("/fingerprint/os/aslr") == 0.0 || facts.is_true("/fingerprint/process/aslr_disabled");
  if (off) {
    return {Level::warning, "address layout", "not randomised: every process repeats the same luck",
            "switch ASLR on (kernel.randomize_va_space=2, no setarch -R), so that processes average over layouts"};
  }
  return {Level::good, "address layout", "randomised, so that processes average over layouts", ""};
}

/// Variables that the shell, a container or a scheduler may have set without the user's knowledge.
std::optional<Finding> tuning_variables(const Facts& facts) {
  const auto variables = facts.get<std::map<std::string, std::string>>("/fingerprint/process/tuning_variables")
                             .value_or(std::map<std::string, std::string>{});
  if (variables.empty()) {
    return std::nullopt;
  }
  std::vector<std::string> set;
  for (const auto& [name, value] : variables) {
    set.push_back(printable(fmt::format("{}={}", name, value)));
  }
  const std::string message = fmt::format("sets {}", fmt::join(set, ", "));
  // A product of 512x512 float32 on one core of a Zen 5, OpenBLAS 0.3.21: 110 GFLOP/s with the kernels for Haswell, 215
  // with those that it selects itself.
  if (variables.contains("OPENBLAS_CORETYPE")) {
    return Finding{Level::warning, "environment", message,
                   "matrix products run the kernels of that processor, perhaps at half of this one's speed: unset "
                   "OPENBLAS_CORETYPE, unless that is what you measure"};
  }
  return Finding{Level::note, "environment", message,
                 "libraries obey these, in every arm alike: unset what you don't mean to measure"};
}

std::optional<Finding> swap(const Facts& facts) {
  const double used = facts.number("/fingerprint/os/swap_used_bytes").value_or(0.0);
  if (used <= 0.0) {
    return std::nullopt;
  }
  return Finding{Level::warning, "swap", format_bytes(used) + " in use",
                 "free memory; a swapped page costs milliseconds"};
}

std::optional<Finding> build(const Facts& facts) {
  const bool slow = facts.get<bool>("/fingerprint/build/optimised") == false;
  const std::string sanitizers = facts.text("/fingerprint/build/sanitizers", "none");
  if (!slow && sanitizers == "none") {
    return std::nullopt;
  }
  return Finding{Level::warning, "build", slow ? "not optimised" : "with sanitizers: " + sanitizers,
                 "measure with a Release build"};
}

}  // namespace

std::vector<Finding> judge(const nlohmann::json& details) {
  const Facts facts(details);
  std::vector<Finding> findings{clock(facts),
                                cores(facts),
                                instruction_sets(facts),
                                hardware_counters(facts),
                                software_counters(facts),
                                disk(facts),
                                timing_noise(facts),
                                steal(facts),
                                load(facts),
                                frequency(facts)};
  const auto add_if = [&](std::optional<Finding> finding) {
    if (finding) {
      findings.push_back(std::move(*finding));
    }
  };
  add_if(turbo(facts));
  findings.push_back(virtualisation(facts));
  add_if(siblings(facts));
  add_if(quota(facts));
  findings.push_back(huge_pages(facts));
  findings.push_back(address_layout(facts));
  add_if(tuning_variables(facts));
  add_if(swap(facts));
  add_if(build(facts));
  return findings;
}

}  // namespace diptych::profiler
