#pragma once

#include <optional>

#include "framework/kernels/gemm.h"
#include "framework/runtime/exact_metrics.h"
#include "framework/runtime/pipeline.h"
#include "framework/transforms/jit.h"
#include "workloads/workload.h"

namespace diptych::workloads {

/// A way to run a program. The arms in the ladder are ordered so that each adds one cause to the one before.
struct Arm {
  std::string name;
  std::string description;
  std::string cause;  ///< the difference from the arm before
  /// Null: eager.
  std::optional<passes::PipelineOptions> pipeline;
  Dispatch dispatch = Dispatch::direct;  ///< of eager ops
  bool in_ladder = true;                 ///< false: no rung, and measured only if asked for
  std::string rung = {};  ///< its name in the ladder if that isn't `name`: "graph" is the last exact rung
  std::vector<std::string> groups = {};  ///< the pass rungs whose passes are enabled, in the ladder's order
  bool exact = true;                     ///< keeps every bit; false: results are compared in units in the last place
  /// Another framework's (docs/arms.md): the process to start, looked up in PATH. Empty: the engine's own.
  std::vector<std::string> command = {};
  std::string needs = {};  ///< how to get it if it is missing
  /// The rung +threads: it computes on several threads, those beside it on one.
  bool on_threads = false;
  std::optional<kernels::Gemm> gemm = {};  ///< of eager; empty: what the run has

  bool is_external() const { return !command.empty(); }
};

/// One cause: passes, and steps of the lowering, that are enabled together. The table in arm.cpp is the ladder; an arm
/// has the passes of its rung and of all rungs before it.
struct Rung {
  const char* name;                ///< "+plan"
  const char* title;               ///< one line for readers
  const char* cause;               ///< what its absence costs
  std::vector<const char*> steps;  ///< names that PipelineOptions::disabled takes
  bool exact = true;               ///< keeps every bit
};
const std::vector<Rung>& pass_rungs();

/// Eager, replay and one arm per rung, of which the last exact one is called "graph", known to users as "everything";
/// then the arms outside the ladder.
const std::vector<Arm>& all_arms();

/// Finds an arm by its name, its rung's name, or a set of pass rungs in the ladder's order: "replay+simplify" is the
/// captured graph with the passes of +simplify alone. Null if there is none. A set that is the first rungs of the
/// ladder gives that rung's own arm, so that nothing is measured twice.
const Arm* find_arm(std::string_view name);

/// Adds another framework as an arm under a unique name; `needs` says how to get it. Throws Error for a name that isn't
/// [a-z0-9-]+ or is taken by another command.
const Arm& add_external_arm(const std::string& name, const std::vector<std::string>& command,
                            const std::string& description = "", const std::string& needs = "");

/// The external arms, in the order in which they were added.
std::vector<const Arm*> external_arms();

/// The names of the arms in the ladder, from the first rung to the last: +threads only if there are several.
std::vector<std::string> ladder_arms(int threads = 1);

/// The threads on which arms compute that aren't `on_threads`, when `arms` are measured together: all of them, unless
/// an arm shows what they bring.
int threads_of_other_arms(std::span<const std::string> arms, int threads);

/// The sets of rungs, by rung, that occur when `rungs` of them are added in orders other than the ladder's, each once:
/// all orders of up to three rungs, otherwise six random ones.
std::vector<std::vector<bool>> shuffled_groups(std::size_t rungs, std::uint64_t seed);

/// The arms to measure in addition, to see how far a cause's saving depends on its place: those that occur when the
/// first `count` pass rungs are added in the orders of `shuffled_groups`.
std::vector<std::string> shuffled_arms(std::size_t count, std::uint64_t seed);

using runtime::ExactMetrics;

/// One program under one arm.
class ArmInstance {
 public:
  /// `threads`: for an arm that is `on_threads`. Others compute on as many as the program does.
  ArmInstance(const Workload& workload, const Arm& arm, std::uint64_t seed, int threads = 1);

  const Arm& arm() const { return arm_; }
  Program& program() { return *program_; }
  /// One call on the inputs of step `step`. Under pipelined dispatch it may still be running when this returns.
  std::vector<Tensor> call(std::int64_t step);
  /// Waits for all calls to end.
  void finish() const;
  /// Null for eager, and before the first call.
  const graph::JitFunction* compiled() const { return jit_ ? &*jit_ : nullptr; }
  double compile_seconds() const;
  /// Runs one call and counts; the first call, which compiles, must be over.
  ExactMetrics count(std::int64_t step);

 private:
  const Arm& arm_;
  std::unique_ptr<Program> program_;
  std::optional<graph::JitFunction> jit_;
  int threads_;
};

}  // namespace diptych::workloads
