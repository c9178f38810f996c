#include "workloads/harness/worker.h"

#include "cli/names.h"
#include "cli/verbs.h"

namespace diptych::cli {

int worker(const WorkerOptions& options) {
  workloads::WorkerPlan plan;
  plan.workloads = resolve_workloads(options.workloads);
  plan.arms = resolve_arms(options.arms);
  plan.seed = options.seed;
  plan.process_seed = options.process_seed;
  plan.rounds = options.rounds;
  plan.block_seconds = options.block_seconds;
  plan.full_check = !options.first_call_check;
  plan.benchmark_options = options.benchmark_options;
  return workloads::run_worker(plan);
}

}  // namespace diptych::cli
