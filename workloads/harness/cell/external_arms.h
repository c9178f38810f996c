#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "framework/core/temporary_folder.h"
#include "framework/graph/ir.h"
#include "workloads/arms/external_process.h"
#include "workloads/harness/cell/cell_plan.h"
#include "workloads/onnx/training.h"

/// Arms that are processes of other frameworks (docs/arms.md), within a cell.
namespace diptych::workloads {

/// How far an external arm's floating-point results may be from those of the first of the engine's arms: this fraction
/// of the largest element, in every element. Integers and truth values must be equal.
inline constexpr double kExternalTolerance = 1e-3;
/// Or, of gradients, this fraction of the largest element of all: some are zero but for rounding, like those by the
/// bias of attention's keys, which softmax takes away again. It is 8 units in the last place of a float.
inline constexpr double kGradientNoise = 1e-6;
/// How far the first step of training may move the weights of an arm, in the mean, from what the optimizer's formula
/// makes of the gradients: this fraction of it. An update that is left out, or by another rate, is further off; one
/// step doesn't show what is made of its history.
inline constexpr double kMoveTolerance = 0.05;
/// The part of a block that a request, its reply and the arm's own loop may take; anything more is time that the arm
/// leaves out.
inline constexpr double kUnaccountedSeconds = 1e-3;
inline constexpr double kUnaccountedShare = 0.02;
/// Blocks of cells with such arms last at least this long, so that those seconds are no more than that share.
inline constexpr double kLeastBlockSeconds = kUnaccountedSeconds / kUnaccountedShare;
/// How much less than the model's operations at the machine's peak a call may take: room for what a better algorithm
/// saves.
inline constexpr double kFloorFactor = 20;

/// What a call's time is bounded by from below.
struct ArithmeticFloor {
  double operations = 0;  ///< of a call (least_operations)
  double per_second = 1;  ///< the most that the machine does, on as many threads as the arm has
  double seconds() const { return operations / per_second / kFloorFactor; }
};
/// Of a program as it was captured. Measures the peak, for 3 ms.
ArithmeticFloor floor_of(const graph::Graph& graph);

class ExternalArm {
 public:
  ExternalArm(const Arm& arm, Clock clock) : arm_(&arm), clock_(std::move(clock)) {}

  const std::string& name() const { return arm_->name; }
  /// Any error becomes the arm's failure from then on; the functions of this class don't throw for it.
  bool runs() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }
  void fail(const std::string& why);

  /// A model's file, and the inputs of its calls.
  struct Model {
    std::string file;
    std::vector<Tensor> inputs;
    std::vector<std::string> ops = {};                   ///< of an exported program: ExportedWorkload's
    std::map<std::string, std::size_t> op_of_node = {};  ///< the same
    ArmGradients gradients = {};                         ///< instead of outputs, if there are any
    std::optional<OnnxOptimizer> optimizer = {};         ///< that of `gradients`
    std::vector<Tensor> weights = {};                    ///< which it moves
  };
  /// Starts the process on the model and compares its results with `reference`. Its files are in `folder`.
  void start(const Model& model, const std::vector<Tensor>& reference, const std::string& folder);
  /// Makes the first calls one by one, up to `most` in `seconds`, then as many as a block of `block_seconds` needs.
  /// Returns a lower bound for the time of one call, by our own clock, whatever the arm reports.
  double warm_up(double seconds, double block_seconds, std::size_t most, const ArithmeticFloor& floor);
  struct Timed {
    std::int64_t calls = 0;  ///< at least `count`, and more if these would be over too soon to tell what is left out
    double seconds = 0;      ///< by the arm's own clock, or by ours if more is missing than an answer takes
  };
  /// A timed block; no calls if it failed.
  Timed time_block(std::int64_t count);
  /// What each of its nodes takes, by its own profile of so many calls; nothing if it failed, or has no profile.
  std::vector<ExternalProcess::NodeTime> profile(std::int64_t count);
  /// Checks after the rounds whether its figures agree with ours, whether it kept to its threads, and whether it still
  /// gives the same results.
  void finish(const std::vector<Tensor>& reference);

  double latest_call() const { return latest_call_; }
  double cpu_seconds() const { return process_ != nullptr ? process_->cpu_seconds() : 0; }
  std::vector<profiler::ThreadTimes> threads() const {
    return process_ != nullptr ? process_->threads() : std::vector<profiler::ThreadTimes>{};
  }

  /// Its entry in the cell's `arms`.
  nlohmann::json describe() const;
  /// Its entry in a process's `arms`; queries its memory and counters.
  nlohmann::json measurements();

 private:
  template <class Action>
  void attempt(const Action& action);
  void compare(const std::vector<Tensor>& reference);
  using Request = ExternalProcess::Block (ExternalProcess::*)(std::int64_t count);
  /// A block of `count` calls, which grows until it lasts `least` seconds by our clock.
  ExternalProcess::Block block_of(Request request, std::int64_t& count, double least);

  const Arm* arm_;
  Clock clock_;
  std::unique_ptr<ExternalProcess> process_;
  std::string folder_;
  bool of_gradients_ = false;
  std::optional<OnnxOptimizer> optimizer_;
  std::vector<Tensor> weights_;
  nlohmann::json description_ = nlohmann::json::object();
  std::string failure_;
  double start_seconds_ = 0;  ///< from its start to its first answer
  double load_seconds_ = 0;
  double compile_seconds_ = 0;  ///< as it reports; 0 if it doesn't
  double first_call_ = 0;
  double latest_call_ = 0;
  double block_seconds_ = 0;
  ArithmeticFloor floor_;
  std::int64_t calls_ = 0;           ///< in its latest block
  std::vector<double> first_calls_;  ///< after the first one, in order
  std::vector<double> passed_;       ///< of the timed blocks, by our clock
  std::vector<double> unaccounted_;  ///< the part of that time that it doesn't report
  double waited_ = 0;                ///< our own wait for a CPU during those blocks
  double waited_before_ = 0;         ///< the wait of its processes, before the first of them
  double cpu_before_ = -1;           ///< used before the first block
};

/// The workload's model as other frameworks receive it: a model's file as it is, a program exported to `folder`. Throws
/// onnx::Unsupported for programs that have no such form, or that train.
ExternalArm::Model external_model(const Workload& workload, std::uint64_t seed, const std::filesystem::path& folder);

/// The external arms of a cell, with the folder of their files.
class ExternalArms {
 public:
  explicit ExternalArms(const CellPlan& plan);

  /// Starts all arms on the workload's model as ONNX. `reference`: outputs of the first step.
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
