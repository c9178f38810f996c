#include "workloads/harness/worker.h"

#include "cli/names.h"
#include "cli/own_arms.h"
#include "cli/verbs.h"

namespace diptych::cli {

int worker(const std::string& plan) {
  workloads::WorkerPlan resolved = workloads::worker_plan_of(plan);
  std::vector<std::string> own_arms;
  for (const auto& [name, command] : resolved.external_arms) {
    own_arms.push_back(name + "=" + command);
  }
  add_own_arms(own_arms);
  resolved.workloads = resolve_workloads(resolved.workloads);
  resolved.arms = resolve_arms(resolved.arms);
  return workloads::run_worker(resolved);
}

}  // namespace diptych::cli
