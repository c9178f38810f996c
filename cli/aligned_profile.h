#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/artifacts.h"
#include "profiler/trace/chrome_trace.h"
#include "profiler/trace/trace.h"
#include "profiler/trace/tracer.h"
#include "reports/analysis/aligned_profile.h"
#include "reports/analysis/memory_profile.h"
#include "reports/explorer/op_links.h"
#include "reports/views/counter_views.h"
#include "reports/views/source_ops.h"
#include "reports/views/tracing_views.h"
#include "workloads/arms/arm.h"

/// Traces several arms of a workload in alternating steps, for one profile of all of them.
namespace diptych::cli {

struct AlignedRequest {
  std::vector<const workloads::Arm*> arms;  ///< the first is the base
  std::uint64_t seed = 1;
  int steps = 10;  ///< of each arm
  /// Called once a step beside the arms: others that take turns with them.
  std::function<void()> beside = [] {};
};

/// Every sample of the bytes in use takes as long as a zone; memory is watched in a call of its own (watch_memory).
inline constexpr profiler::TracerOptions kTimesOnly{.counters = false};

/// Of one op, from the seconds of so many calls. Nothing where dispatch is longer than it can be, so that the probe
/// computed something.
std::optional<reports::OpParts> parts_of_one_op(double calls, double dispatch, double inference, double allocation);

/// A trace, and how to write it.
struct LinkedTrace {
  profiler::Trace trace;
  profiler::ChromeTraceOptions options;
};

class AlignedTraces {
 public:
  /// Compiles, warms up, and traces. Arms take turns, forwards and backwards, so that drift of the machine hits all.
  /// Where tracing would add over 5 % to an arm's calls, only one in so many is traced that it doesn't. Throws Error.
  AlignedTraces(const workloads::Workload& workload, const AlignedRequest& request);

  /// Of the middle half of each arm's steps, by duration: one mean over whole steps, so that parts add up. The time
  /// that tracing takes is subtracted, zone by zone. Without OpParts.
  const reports::ProfileInput& profile() const { return profile_; }
  /// What readers must know about these figures; usually nothing.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Traces of the arms, on one time axis.
  const std::vector<profiler::Trace>& traces() const { return traces_; }
  /// One of them with the source ops of its zones, what these read, and arrows ("fwdbwd") from ops to their gradients.
  LinkedTrace linked_trace(std::size_t arm) const;
  /// All of them as one, with arrows ("same op") between what an op is in the first arm and in the others, call by
  /// call.
  LinkedTrace linked_traces() const;

  /// Eager's parts of one op of each kind (workloads/harness/probes/op_split.h); empty unless the base is eager, and if
  /// they can't be measured in `budget_seconds`. Spoils nothing that was traced.
  std::map<std::string, reports::OpParts> measure_parts(double budget_seconds);

  /// What tracing adds to a call of each arm: blocks of calls in turns, traced and not, for about so long. Spoils
  /// nothing that was traced.
  reports::TracingCost measure_tracing(double budget_seconds);

  /// What the ops of each arm count in `calls` calls more, as part of profile(). Spoils nothing that was traced.
  reports::Capability count_events(int calls);

  /// What a call of each arm holds, over the seconds of its traced calls: the shortest of a few more, on one thread,
  /// watched (workloads/harness/probes/memory_watch.h). May add notes.
  std::vector<reports::MemoryOfArm> watch_memory();

 private:
  void make_instances();
  void capture();
  void choose_sampling();
  void trace();
  /// What a zone takes in an arm's calls, by what tracing has added to them.
  void calibrate(std::size_t arm, const std::vector<double>& untraced);
  void describe_arm(std::size_t arm);
  reports::CompiledOps compiled_ops_of(std::size_t arm) const;
  /// An op that a call applied: its name, and its id in the trace (0 in eager).
  struct AppliedOp {
    std::string name;
    std::uint64_t traced = 0;
  };
  using SourceOps = std::vector<std::uint64_t>;
  /// Of what a call of the arm applied, in order.
  std::vector<SourceOps> source_ops_of_call(std::size_t arm, std::span<const AppliedOp> applied) const;
  std::vector<SourceOps> source_ops_of_zones(std::size_t arm) const;
  /// The zones of a step of one arm, which begin at `offset` in `all`. `base`: the first arm's zones by source op.
  static void link_to_base(std::map<std::uint64_t, std::size_t>& base, const std::vector<std::size_t>& step,
                           std::size_t offset, LinkedTrace& all);

  const workloads::Workload& workload_;
  AlignedRequest request_;
  std::deque<workloads::Arm> arms_;  ///< with hooks that keep the graphs between passes
  std::deque<std::vector<GraphStage>> stages_;
  std::vector<reports::CompiledOps> compiled_;  ///< by arm; empty for eager
  std::vector<std::unique_ptr<workloads::ArmInstance>> instances_;
  graph::Graph captured_;
  std::map<std::uint64_t, reports::OpLinks> links_;
  bool has_control_flow_ = false;
  std::vector<profiler::Trace> traces_;
  profiler::TracerOverhead overhead_;
  /// How an arm is traced.
  struct Sampling {
    int every = 1;  ///< one call in so many
    int step = 0;   ///< of its next call
    profiler::TracerOverhead overhead;
  };
  std::vector<Sampling> sampling_;
  reports::ProfileInput profile_;
  std::vector<std::string> notes_;
};

}  // namespace diptych::cli
