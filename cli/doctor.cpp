#include "profiler/machine/doctor.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/run_plan.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/parallel.h"
#include "reports/run/run_file.h"
#include "workloads/harness/pinning.h"
#include "workloads/harness/probes/limits.h"

namespace diptych::cli {
namespace {

/// How many times as fast as one thread all CPUs of this process compute and read memory together.
struct Scaling {
  int threads = 1;
  double compute = 1, memory = 1;
};

Scaling measure_scaling() {
  constexpr int kRounds = 5;  // one after the other in turn, because clocks change
  const std::int64_t bytes = workloads::memory_levels().back().probed;
  Scaling scaling;
  scaling.threads = std::min(static_cast<int>(workloads::allowed_cpus().size()), kMostThreads);
  double peaks[2] = {};
  double rates[2] = {};
  for (int round = 0; round < kRounds; ++round) {
    for (const int i : {0, 1}) {
      const int threads = i == 0 ? 1 : scaling.threads;
      peaks[i] = std::max(peaks[i], workloads::peak_flops_per_second(active_isa(), threads));
      rates[i] = std::max(rates[i], workloads::read_bytes_per_second(bytes / threads, active_isa(), threads));
    }
  }
  scaling.compute = peaks[1] / peaks[0];
  scaling.memory = rates[1] / rates[0];
  return scaling;
}

void add_scaling(profiler::Diagnosis& diagnosis) {
  using profiler::Finding;
  constexpr double kPoor = 0.75;
  Finding finding{.topic = "threads", .section = Finding::Section::ability};
  const Scaling scaling = measure_scaling();
  if (scaling.threads == 1) {
    finding.message = "this process may use one CPU";
    finding.advice = "measure with --threads 1, which is the default";
  } else {
    const bool is_poor = scaling.compute < kPoor * scaling.threads;
    finding.level = is_poor ? Finding::Level::note : Finding::Level::good;
    finding.message = fmt::format("{} of them compute {:.2f} times and read memory {:.2f} times as fast as one",
                                  scaling.threads, scaling.compute, scaling.memory);
    finding.advice = is_poor ? "they share cores, or other programs run: no more is to be expected of --threads" : "";
    diagnosis.details["scaling"] = {
        {"threads", scaling.threads}, {"compute", scaling.compute}, {"memory", scaling.memory}};
  }
  const auto cores = std::find_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                                  [](const Finding& other) { return other.topic == "cores"; });
  diagnosis.findings.insert(cores == diagnosis.findings.end() ? cores : cores + 1, finding);
}

}  // namespace

int doctor(const DoctorOptions& options) {
  profiler::Diagnosis diagnosis = profiler::diagnose();
  add_scaling(diagnosis);
  diagnosis.details["fingerprint"]["engine"] = engine_facts();  // what a run of this program would record
  fmt::print("{}", options.json ? reports::to_text(diagnosis.details) : profiler::render(diagnosis, wants_colour()));
  return kSuccess;
}

}  // namespace diptych::cli
