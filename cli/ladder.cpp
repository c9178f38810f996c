#include <fmt/format.h>

#include "cli/names.h"
#include "cli/verbs.h"
#include "framework/core/error.h"

namespace diptych::cli {
namespace {

/// Throws Error for arms of ours, which are rungs or are measured by `run`.
std::vector<std::string> peer_arms(const std::vector<std::string>& names) {
  std::vector<std::string> arms;
  for (const std::string& name : names) {
    const workloads::Arm& arm = resolve_arm(name == "torch" ? "torch-eager" : name);
    if (!arm.is_external()) {
      throw Error(fmt::format(
          "--against {}: that is no other framework's arm; say ort, torch, or another from `diptych list`", arm.name));
    }
    arms.push_back(arm.name);
  }
  return arms;
}

}  // namespace

int ladder(const LadderOptions& options) {
  RunOptions run_options = options.run;
  run_options.workloads = {resolve_workload(options.workload).name};  // a single workload, not a suite
  run_options.arms = {"ladder"};
  if (run_options.shuffle_order) {
    const std::vector<std::string> others = workloads::shuffled_arms(workloads::pass_rungs().size(), run_options.seed);
    run_options.arms.insert(run_options.arms.end(), others.begin(), others.end());
  }
  const std::vector<std::string> peers = peer_arms(options.against);
  run_options.arms.insert(run_options.arms.end(), peers.begin(), peers.end());
  run_options.ladder = true;
  return run(run_options);
}

}  // namespace diptych::cli
