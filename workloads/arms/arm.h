#pragma once

#include <optional>

#include "framework/graph/jit.h"
#include "framework/runtime/pipeline.h"
#include "workloads/workload.h"

namespace diptych::workloads {

/// A way to run a program. Those in the ladder stand in the order in which each adds one cause to the one before.
struct Arm {
  std::string name;
  std::string description;
  std::string cause;  ///< what makes it differ from the arm before
  /// Null: eager.
  std::optional<passes::PipelineOptions> pipeline;
  Dispatch dispatch = Dispatch::direct;  ///< of eager ops
  bool in_ladder = true;                 ///< false: no rung, and measured only where it is asked for
};

const std::vector<Arm>& all_arms();
const Arm* find_arm(std::string_view name);

/// Exact costs of one steady call.
struct ExactMetrics {
  std::optional<std::int64_t> nodes;  ///< of the compiled graph
  std::int64_t dispatches = 0;        ///< ops in eager, kernel launches in a graph
  std::int64_t allocations = 0;       ///< blocks from the engine's allocator
  std::int64_t peak_bytes = 0;        ///< the most that the call had in use at one time, in size classes
  std::optional<std::int64_t> planned_peak_bytes;
  std::optional<std::int64_t> lower_bound_bytes;
};

/// One program under one arm.
class ArmInstance {
 public:
  ArmInstance(const Workload& workload, const Arm& arm, std::uint64_t seed);

  const Arm& arm() const { return arm_; }
  Program& program() { return *program_; }
  /// One call on the inputs of step `step`. Under pipelined dispatch it may still run when this returns.
  std::vector<Tensor> call(std::int64_t step);
  /// Waits for the end of all calls.
  void finish() const;
  /// Null for eager, and before the first call.
  const graph::JitFunction* compiled() const { return jit_ ? &*jit_ : nullptr; }
  double compile_seconds() const;
  /// Runs one call and counts; the first call, which compiles, has to be over.
  ExactMetrics count(std::int64_t step);

 private:
  const Arm& arm_;
  std::unique_ptr<Program> program_;
  std::optional<graph::JitFunction> jit_;
};

}  // namespace diptych::workloads
