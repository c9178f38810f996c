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
  std::string rung = {};  ///< its name in the ladder where it isn't `name`: "graph" is the last exact rung
  std::vector<std::string> groups = {};  ///< the pass rungs whose passes are on, in the ladder's order
  bool exact = true;  ///< keeps every bit; false: its results are compared in units in the last place
  /// Another framework's (docs/arms.md): the process to start, looked up in PATH. Empty: the engine's own.
  std::vector<std::string> command = {};
  std::string needs = {};  ///< how to get it, where it isn't there

  bool is_external() const { return !command.empty(); }
};

/// One cause: passes, and steps of the lowering, that are switched on together. The table in arm.cpp is the ladder; an
/// arm has the passes of its rung and of all before it.
struct Rung {
  const char* name;                ///< "+plan"
  const char* title;               ///< one line for people
  const char* cause;               ///< what it costs not to have it
  std::vector<const char*> steps;  ///< names that PipelineOptions::disabled takes
  bool exact = true;               ///< keeps every bit
};
const std::vector<Rung>& pass_rungs();

/// Eager, replay and one arm a rung; the last exact one is called "graph", which users know for "everything". And those
/// beside the ladder.
const std::vector<Arm>& all_arms();

/// An arm by its name or its rung's, or by any set of pass rungs in the ladder's order: "replay+simplify" is the
/// captured graph with the passes of +simplify alone. Null if there is none. The first passes of the ladder are the
/// rung's own arm, so that nothing is measured twice.
const Arm* find_arm(std::string_view name);

/// Another framework as an arm, by a name that no other has; `needs` says how to get it. Throws Error for a name that
/// isn't [a-z0-9-]+ or is taken by another command.
const Arm& add_external_arm(const std::string& name, const std::vector<std::string>& command,
                            const std::string& description = "", const std::string& needs = "");

/// Those that were added, in that order.
std::vector<const Arm*> external_arms();

/// The names of the arms in the ladder, from the first rung to the last.
std::vector<std::string> ladder_arms();

/// Sets of rungs, by rung, that lie on the way when `rungs` of them join in other orders than the ladder's, each once:
/// all orders of up to three, else six random ones.
std::vector<std::vector<bool>> shuffled_groups(std::size_t rungs, std::uint64_t seed);

/// What else to measure to see how far a cause's saving depends on its place: the arms on the way when the first
/// `count` pass rungs join in the orders of `shuffled_groups`.
std::vector<std::string> shuffled_arms(std::size_t count, std::uint64_t seed);

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
