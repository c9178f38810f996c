#include "tests/support/machine_watch.h"

#include <algorithm>
#include <cmath>
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include "profiler/machine/system_files.h"
#include "workloads/harness/cell/load.h"

namespace diptych::testing {

struct MachineWatch::Start {
  workloads::LoadWatch load;
  double steal = profiler::steal_seconds();
  double time = workloads::steady_seconds();
};

std::string MachineState::text() const {
  return fmt::format("steal {:.0f} %, others on {:.2f} CPUs, load {:.1f}", 100 * steal, others_cpu, load);
}

double cpu_seconds_with_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return workloads::own_cpu_seconds() + seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

MachineWatch::MachineWatch(std::function<double()> own_seconds)
    : start_(
          new Start{workloads::LoadWatch(profiler::SystemFiles(), workloads::steady_seconds, std::move(own_seconds))}) {
}
MachineWatch::~MachineWatch() = default;

MachineState MachineWatch::state() const {
  const nlohmann::json load = start_->load.finish();
  const auto known = [&](const char* name) { return load[name].is_number() ? load[name].get<double>() : 0; };
  const double passed = workloads::steady_seconds() - start_->time;
  const double steal = (profiler::steal_seconds() - start_->steal) / passed;
  // A span may begin and end within a tick of each CPU, so that much can't be attributed to others.
  const double unknown = known("cpus") / static_cast<double>(sysconf(_SC_CLK_TCK)) / passed;
  return {std::isfinite(steal) ? steal : 0, std::max(0.0, known("others_cpu") - unknown), known("after")};
}

}  // namespace diptych::testing
