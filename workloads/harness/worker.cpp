#include "workloads/harness/worker.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <new>
#include <optional>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "framework/core/parallel.h"
#include "framework/kernels/gemm.h"
#include "workloads/harness/cell/turns.h"
#include "workloads/harness/instructions.h"
#include "workloads/harness/out_of_memory.h"
#include "workloads/harness/pinning.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

/// Takes Google Benchmark's context; the figures are reported separately.
class ContextReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& context) override {
    json caches = json::array();
    for (const auto& cache : context.cpu_info.caches) {
      caches.push_back(
          {{"type", cache.type}, {"level", cache.level}, {"size", cache.size}, {"num_sharing", cache.num_sharing}});
    }
    emit_event({{"event", "context"},
                {"context",
                 {{"num_cpus", context.cpu_info.num_cpus},
                  {"mhz_per_cpu", context.cpu_info.cycles_per_second / 1e6},
                  {"cpu_scaling_enabled", context.cpu_info.scaling == benchmark::CPUInfo::ENABLED},
                  {"caches", caches},
                  {"load_avg", context.cpu_info.load_avg}}}});
    return true;
  }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

/// `measured`: the workloads measured before; this one is appended.
void run_cell(benchmark::State& state, const WorkerPlan& plan, const Workload& workload,
              std::vector<std::string>& measured, Turns* turns) {
  const bool checked = std::find(plan.first_call_check.begin(), plan.first_call_check.end(), workload.name) !=
                       plan.first_call_check.end();
  CellPlan cell{
      .workload = &workload, .settings = plan.settings, .full_check = !checked, .after = measured, .turns = turns};
  if (const auto vetoed = plan.vetoed.find(workload.name); vetoed != plan.vetoed.end()) {
    cell.vetoed.insert(vetoed->second.begin(), vetoed->second.end());
  }
  measured.push_back(workload.name);
  for (const std::string& name : plan.arms) {
    if (std::find(plan.without.begin(), plan.without.end(), workload.name + "=" + name) == plan.without.end()) {
      cell.arms.push_back(find_arm(name));
    }
  }
  const auto fail = [&](const char* why) {
    emit_event({{"event", "error"}, {"workload", workload.name}, {"message", why}});
    state.SkipWithError(why);
  };
  for (auto _ : state) {
    try {
      const json result = measure_cell(cell, [&](const std::string& what) {
        emit_event({{"event", "progress"}, {"workload", workload.name}, {"what", what}});
      });
      double total = 0;
      for (const json& process : result["processes"]) {
        for (const json& round : process["rounds"]) {
          for (const auto& seconds : round["seconds"]) {
            total += seconds.get<double>();
          }
        }
      }
      state.SetIterationTime(total);
      emit_event({{"event", "cell"}, {"workload", workload.name}, {"cell", result}});
    } catch (const std::bad_alloc& error) {
      fail(OutOfMemoryText(error).c_str());
      break;
    } catch (const std::exception& error) {
      fail(error.what());
      break;
    }
  }
}

}  // namespace

void emit_event(const json& event) {
  // One write per line, so that the reader never sees half a line from a process that died between lines.
  const std::string line = event.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

int run_worker(const WorkerPlan& plan) {
  if (!plan.gemm.empty()) {
    kernels::set_gemm(kernels::gemm_named(plan.gemm));
  }
  set_thread_count(threads_of_other_arms(plan.arms, plan.settings.threads));
  if (plan.counts_instructions) {
    return run_counting_worker(plan.workloads.front(), plan.arms, plan.settings.seed, plan.extra_instructions);
  }
  if (!plan.pinned.empty()) {
    pin_this_process(plan.pinned);
  }
  std::optional<Turns> turns;
  if (plan.takes_turns) {
    fcntl(kTurnsDescriptor, F_SETFD, FD_CLOEXEC);  // only ours: it shows the partner that we have ended
    turns.emplace(TurnSocket(kTurnsDescriptor), plan.is_first);
  }
  std::vector<std::string> measured;
  for (const std::string& name : plan.workloads) {
    const Workload* workload = find_workload(name);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&, workload](benchmark::State& state) {
                                   run_cell(state, plan, *workload, measured, turns ? &*turns : nullptr);
                                 })
        ->Iterations(1)
        ->Repetitions(1)  // replication is over processes and rounds
        ->UseManualTime();
  }
  std::vector<std::string> arguments = {"diptych"};
  arguments.insert(arguments.end(), plan.benchmark_options.begin(), plan.benchmark_options.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) {
    return 1;
  }
  ContextReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  emit_event({{"event", "done"}});
  return 0;
}

}  // namespace diptych::workloads
