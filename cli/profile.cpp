#include <fmt/format.h>

#include "cli/artifacts.h"
#include "cli/names.h"
#include "cli/verbs.h"
#include "reports/run_file.h"
#include "reports/text.h"

namespace diptych::cli {

int profile(const ProfileOptions& options) {
  const workloads::Workload& workload = resolve_workload(options.workload);
  const workloads::Arm& arm = resolve_arm(options.arm);
  refuse_external_arms({arm.name}, "a profile");
  const std::string folder = make_output_folder(options.out, fmt::format("profile-{}-{}", workload.name, arm.name));
  workloads::ArmInstance instance(workload, arm, options.seed);
  constexpr int kWarmUp = 3;
  const Profile profile = trace_calls(instance, kWarmUp, options.steps);

  const std::string table = profiler::render(profile.table);
  fmt::print("{}, {}: {} steady calls ({} each)\n\n{}\n", reports::printable(workload.name), arm.name, options.steps,
             workload.unit, table);
  write_trace(profile.trace, folder + "/trace.json");
  reports::write_atomically(folder + "/ops.json", reports::to_text(profiler::to_json(profile.table)));
  reports::write_atomically(folder + "/ops.txt", table);
  fmt::print("{0}/trace.json   open it at ui.perfetto.dev, or in chrome://tracing\n{0}/ops.json     the table above\n",
             reports::printable(folder));
  return kSuccess;
}

}  // namespace diptych::cli
