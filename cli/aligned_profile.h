#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/artifacts.h"
#include "profiler/trace/trace.h"
#include "profiler/trace/tracer.h"
#include "reports/analysis/aligned_profile.h"
#include "reports/analysis/memory_profile.h"
#include "reports/views/source_ops.h"
#include "reports/views/tracing_views.h"
#include "workloads/arms/arm.h"

/// Traces several arms of a workload in alternating steps, for one profile of all of them.
namespace diptych::cli {

struct AlignedRequest {
  std::vector<const workloads::Arm*> arms;  ///< the first is the base
  std::uint64_t seed = 1;
  int steps = 10;  ///< of each arm
};

/// Every sample of the bytes in use takes as long as a zone; memory is watched in a call of its own (watch_memory).
inline constexpr profiler::TracerOptions kTimesOnly{.counters = false};

/// Of one op, from the seconds of so many calls. Nothing where dispatch is longer than it can be, so that the probe
/// computed something.
std::optional<reports::OpParts> parts_of_one_op(double calls, double dispatch, double inference, double allocation);

class AlignedTraces {
 public:
  /// Compiles, warms up, and traces. Arms take turns, forwards and backwards, so that drift of the machine hits all.
  /// Throws Error.
  AlignedTraces(const workloads::Workload& workload, const AlignedRequest& request);

  /// Of the middle half of each arm's steps, by duration: one mean over whole steps, so that parts add up. The time
  /// that tracing takes is subtracted, zone by zone. Without OpParts.
  const reports::ProfileInput& profile() const { return profile_; }
  /// What readers must know about these figures; usually nothing.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Traces of the arms, on one time axis.
  const std::vector<profiler::Trace>& traces() const { return traces_; }
  const graph::Graph* graph_of(std::size_t arm) const { return compiled_graph(*instances_[arm]); }

  /// Eager's parts of one op of each kind (workloads/harness/probes/op_split.h); empty unless the base is eager, and if
  /// they can't be measured in `budget_seconds`. Spoils nothing that was traced.
  std::map<std::string, reports::OpParts> measure_parts(double budget_seconds);

  /// What tracing adds to a call of each arm: blocks of calls in turns, traced and not, for about so long. Spoils
  /// nothing that was traced.
  reports::TracingCost measure_tracing(double budget_seconds);

  /// What a call of each arm holds, over the seconds of its traced calls: one more call of each, on one thread, watched
  /// (workloads/harness/probes/memory_watch.h). May add notes.
  std::vector<reports::MemoryOfArm> watch_memory();

 private:
  void make_instances();
  void capture();
  void trace();
  void describe_arm(std::size_t arm);
  reports::CompiledOps compiled_ops_of(std::size_t arm) const;

  const workloads::Workload& workload_;
  AlignedRequest request_;
  std::deque<workloads::Arm> arms_;  ///< with hooks that keep the graphs between passes
  std::deque<std::vector<GraphStage>> stages_;
  std::vector<std::unique_ptr<workloads::ArmInstance>> instances_;
  graph::Graph captured_;
  bool has_control_flow_ = false;
  std::vector<profiler::Trace> traces_;
  profiler::TracerOverhead overhead_;
  reports::ProfileInput profile_;
  std::vector<std::string> notes_;
};

}  // namespace diptych::cli
