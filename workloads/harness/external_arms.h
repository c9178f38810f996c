#pragma once

#include <memory>
#include <optional>

#include "framework/core/temporary_folder.h"
#include "workloads/arms/external_process.h"
#include "workloads/harness/cell.h"

/// Arms that are processes of other frameworks (docs/arms.md), in a cell.
namespace diptych::workloads {

/// How far an external arm's floating-point results may be from those of the first of the engine's arms: this part of
/// the largest element, in every element. Integers and truth values have to be equal.
inline constexpr double kExternalTolerance = 1e-3;

class ExternalArm {
 public:
  ExternalArm(const Arm& arm, Clock clock) : arm_(&arm), clock_(std::move(clock)) {}

  const std::string& name() const { return arm_->name; }
  /// What goes wrong is the arm's failure from then on; nothing here throws for it.
  bool runs() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }
  void fail(const std::string& why);

  /// A model's file, and what it is called with.
  struct Model {
    std::string file;
    std::vector<Tensor> inputs;
  };
  /// Starts its process on the model and compares what it gives with `reference`. Its files lie in `folder`.
  void start(const Model& model, const std::vector<Tensor>& reference, const std::string& folder);
  /// Its first calls one by one, up to `most` for `seconds`, then as many as a block of `block_seconds` needs. Gives
  /// the least that one call may take: by our own clock, whatever it says.
  double warm_up(double seconds, double block_seconds, std::size_t most);
  /// Seconds of a timed block, by its own clock; 0 if it failed.
  double time_block(std::int64_t count);
  /// After the rounds: do its figures and ours go together, did it keep to one thread, does it still give the same?
  void finish(const std::vector<Tensor>& reference);

  double latest_call() const { return latest_call_; }
  double cpu_seconds() const { return process_ != nullptr ? process_->cpu_seconds() : 0; }

  /// Its entry in the cell's `arms`.
  nlohmann::json describe() const;
  /// Its entry in a process's `arms`; asks for the memory.
  nlohmann::json measurements();

 private:
  template <class Action>
  void attempt(const Action& action);
  void compare(const std::vector<Tensor>& reference);

  const Arm* arm_;
  Clock clock_;
  std::unique_ptr<ExternalProcess> process_;
  std::string folder_;
  nlohmann::json description_ = nlohmann::json::object();
  std::string failure_;
  double start_seconds_ = 0;  ///< from nothing until it answers
  double load_seconds_ = 0;
  double compile_seconds_ = 0;  ///< as it says; 0 if it doesn't
  double first_call_ = 0;
  double latest_call_ = 0;
  std::vector<double> first_calls_;  ///< after the very first, in order
  std::vector<double> passed_;       ///< of the timed blocks, by our clock
  std::vector<double> unaccounted_;  ///< of that, what it doesn't say
  double waited_ = 0;                ///< for a CPU: we, beside those blocks
  double waited_before_ = 0;         ///< the same, its processes, before the first of them
  double cpu_before_ = -1;           ///< used before the first
};

/// Those of a cell, with the folder that their files lie in.
class ExternalArms {
 public:
  explicit ExternalArms(const CellPlan& plan);

  /// Starts all on the workload's model as ONNX. `reference`: outputs of the first step.
  void start(const std::vector<Tensor>& reference, const Progress& progress);
  void finish();

  std::vector<ExternalArm>& arms() { return arms_; }
  const std::vector<ExternalArm>& arms() const { return arms_; }
  double cpu_seconds() const;

 private:
  const CellPlan& plan_;
  std::vector<ExternalArm> arms_;
  std::vector<Tensor> reference_;
  std::optional<TemporaryFolder> folder_;
};

}  // namespace diptych::workloads
