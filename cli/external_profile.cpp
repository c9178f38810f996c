#include "cli/external_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/text/text.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/probes/arithmetic.h"
#include "workloads/processes/timing.h"

namespace diptych::cli {
namespace {

/// The mean of the half that lies in the middle, as for the engine's arms.
double middle_mean(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto quarter = static_cast<std::ptrdiff_t>(seconds.size() / 4);
  return std::accumulate(seconds.begin() + quarter, seconds.end() - quarter, 0.0) /
         static_cast<double>(static_cast<std::ptrdiff_t>(seconds.size()) - 2 * quarter);
}

}  // namespace

ExternalProfiles::ExternalProfiles(const workloads::Workload& workload, const std::vector<const workloads::Arm*>& arms,
                                   std::uint64_t seed)
    : folder_("diptych-arms") {
  if (arms.empty()) {
    return;
  }
  model_ = workloads::external_model(workload, seed, folder_.path());
  workloads::ArmInstance eager(workload, *workloads::find_arm("eager"), seed);
  reference_ = eager.call(0);
  const std::optional<graph::Graph> graph = workloads::captured(eager.program(), workload.name);
  const workloads::ArithmeticFloor floor = graph ? workloads::floor_of(*graph) : workloads::ArithmeticFloor{};
  for (const workloads::Arm* arm : arms) {
    Turns& turns = arms_.emplace_back(Turns{workloads::ExternalArm(*arm, workloads::steady_seconds)});
    turns.arm.start(model_, reference_, folder_.path().string());
    constexpr double kWarmUpSeconds = 0.2;
    constexpr std::size_t kMostFirstCalls = 10;
    turns.arm.warm_up(kWarmUpSeconds, workloads::kLeastBlockSeconds, kMostFirstCalls, floor);
    require(turns);
  }
}

void ExternalProfiles::require(const Turns& turns) {
  if (!turns.arm.runs()) {
    throw Error(fmt::format("{}: {}", turns.arm.name(), reports::printable(turns.arm.failure())));
  }
}

void ExternalProfiles::take_turns() {
  for (Turns& turns : arms_) {
    const workloads::ExternalArm::Timed block = turns.arm.time_block(1);
    turns.seconds.push_back(block.seconds / static_cast<double>(block.calls));
  }
}

reports::SourceOpsOfNodes ExternalProfiles::source_ops(const std::vector<reports::SourceOp>& ops) const {
  reports::SourceOpsOfNodes known;
  if (model_.op_of_node.empty()) {  // a model's file: its nodes are the modules of the program
    for (const reports::SourceOp& op : ops) {
      known[op.scope].push_back(op.id);
    }
    return known;
  }
  const std::vector<std::uint64_t> ids = reports::source_ops_of_calls(model_.ops, ops, false);
  for (const auto& [node, op] : model_.op_of_node) {
    if (ids[op] != 0) {
      known[node] = {ids[op]};
    }
  }
  return known;
}

std::vector<reports::ProfiledArm> ExternalProfiles::profile(const std::vector<reports::SourceOp>& ops, int steps) {
  const reports::SourceOpsOfNodes known = source_ops(ops);
  std::vector<reports::ProfiledArm> profiled;
  for (Turns& turns : arms_) {
    std::vector<reports::ExternalNode> nodes;
    for (const workloads::ExternalProcess::NodeTime& time : turns.arm.profile(std::max<std::int64_t>(steps, 10))) {
      nodes.push_back({time.node, time.op, time.seconds, time.runs});
    }
    turns.arm.finish(reference_);
    require(turns);
    profiled.push_back(reports::external_arm(turns.arm.name(), nodes, known, ops, middle_mean(turns.seconds)));
  }
  return profiled;
}

std::vector<std::string> ExternalProfiles::notes() const {
  std::vector<std::string> notes;
  for (const Turns& turns : arms_) {
    notes.push_back(
        fmt::format("{0}: a call in turns with the others; its ops by its own profile, in calls after these. What that "
                    "adds to them is missing in (outside ops), which may be below zero",
                    turns.arm.name()));
  }
  return notes;
}

}  // namespace diptych::cli
