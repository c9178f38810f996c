#include <array>
#include <cstring>
#include <dlfcn.h>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "profiler/machine/fingerprint.h"
#include "profiler/machine/json_section.h"

namespace diptych::profiler {

namespace {

/// Variables that change the speed of numerical code; others stay private.
constexpr std::array tuning_prefixes{
    "OMP_",     "GOMP_",          "KMP_",        "OPENBLAS_",    "GOTO_",           "MKL_",
    "DNNL_",    "ONEDNN_",        "DIPTYCH_ISA", "DIPTYCH_GEMM", "DIPTYCH_THREADS", "DIPTYCH_LAUNCH_BLOCKING",
    "LIBXSMM_", "GLIBC_TUNABLES", "MALLOC_",     "LD_PRELOAD",   "LD_BIND_NOW"};

std::vector<int> affinity() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

/// Replacement allocators are recognised by a symbol that only they define.
std::string allocator_name() {
  for (const auto& [symbol, name] :
       {std::pair{"mallctl", "jemalloc"}, std::pair{"je_mallctl", "jemalloc"}, std::pair{"tc_version", "tcmalloc"},
        std::pair{"mi_version", "mimalloc"}, std::pair{"__asan_init", "AddressSanitizer"},
        std::pair{"__tsan_init", "ThreadSanitizer"}}) {
    if (dlsym(RTLD_DEFAULT, symbol) != nullptr) {
      return name;
    }
  }
  return "glibc";
}

void add_environment(JsonSection& section) {
  std::size_t bytes = 0;
  nlohmann::json tuning = nlohmann::json::object();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    bytes += variable.size() + 1;
    for (const char* prefix : tuning_prefixes) {
      if (const std::size_t equals = variable.find('=');
          variable.starts_with(prefix) && equals != std::string_view::npos) {
        tuning[std::string(variable.substr(0, equals))] = variable.substr(equals + 1);
      }
    }
  }
  section.set("environment_bytes", bytes);
  section.set("tuning_variables", std::move(tuning));
}

}  // namespace

nlohmann::json process_fingerprint() {
  JsonSection section;
  section.set("affinity", affinity());
  section.set("nice", getpriority(PRIO_PROCESS, 0));
  section.set("scheduler", sched_getscheduler(0));
  section.set("allocator", allocator_name());
  add_environment(section);

  constexpr unsigned long query = 0xffffffffUL;
  const int persona = personality(query);
  section.set_or_null("aslr_disabled", persona >= 0 ? std::optional((persona & ADDR_NO_RANDOMIZE) != 0) : std::nullopt,
                      "personality() is not allowed here");
  rlimit stack{};
  const bool known = getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY;
  section.set_or_null("stack_limit_bytes", known ? std::optional(stack.rlim_cur) : std::nullopt, "unlimited");
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  section.set("voluntary_context_switches", usage.ru_nvcsw);
  section.set("involuntary_context_switches", usage.ru_nivcsw);
  section.set("minor_page_faults", usage.ru_minflt);
  section.set("major_page_faults", usage.ru_majflt);
  section.set("max_rss_bytes", static_cast<std::int64_t>(usage.ru_maxrss) * 1024);
  return std::move(section).take();
}

}  // namespace diptych::profiler
