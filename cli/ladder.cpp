#include "cli/names.h"
#include "cli/verbs.h"

namespace diptych::cli {

int ladder(const LadderOptions& options) {
  RunOptions run_options = options.run;
  run_options.workloads = {resolve_workload(options.workload).name};  // a single workload, not a suite
  run_options.arms = {"ladder"};
  if (run_options.shuffle_order) {
    const std::vector<std::string> others = workloads::shuffled_arms(workloads::pass_rungs().size(), run_options.seed);
    run_options.arms.insert(run_options.arms.end(), others.begin(), others.end());
  }
  run_options.ladder = true;
  return run(run_options);
}

}  // namespace diptych::cli
