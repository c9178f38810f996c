#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/variable.h"

/// What is measured: a workload makes programs; an arm (arms/arm.h) is a way to run one.
namespace diptych::workloads {

/// A figure of merit besides time, for example held-out accuracy.
struct Metric {
  std::string name;
  double value;
  std::string unit;
};

/// One instance of the measured program, with its own state. Two instances made with the same seed are equal to the
/// bit.
class Program {
 public:
  virtual ~Program() = default;
  /// The inputs of step `step`: seeded and made in advance, so that making them isn't measured.
  virtual std::span<const Tensor> inputs(std::int64_t step) = 0;
  /// One step on the engine's public API: what every arm runs, either directly or captured.
  virtual std::vector<Tensor> body(std::span<const Tensor> inputs) = 0;
  /// The exported function and its inputs: the model alone, in evaluation mode, if a step is more than that.
  virtual std::vector<Tensor> forward(std::span<const Tensor> inputs) { return body(inputs); }
  virtual std::vector<Tensor> forward_inputs() {
    const std::span<const Tensor> all = inputs(0);
    return {all.begin(), all.end()};
  }
  /// Whether a step is just the forward pass.
  virtual bool is_forward() const { return true; }
  /// What the steps change; compared between arms at the end of the check.
  virtual Variables state() const { return {}; }
  /// Available after the check's steps.
  virtual std::vector<Metric> metrics() { return {}; }
};

struct Workload {
  std::string name;   ///< "mlp/digits"
  std::string suite;  ///< "mlp"
  std::string title;  ///< one line for readers
  std::string unit;   ///< what one call does: "training step"
  /// Measured by `diptych run` without names: one workload per cause and kind of model, a minute in total.
  bool in_default_set = false;
  /// Steps that all arms must agree on, output by output, before anything is timed.
  std::int64_t check_steps = 2;
  /// A metric that must be reached in the check; otherwise the cell is invalid.
  struct Target {
    std::string metric;
    double at_least;
  };
  std::vector<Target> targets = {};
  std::function<std::unique_ptr<Program>(std::uint64_t seed)> make;
};

/// Adds a program's own workload, before anything asks for workloads. Throws Error for a name that is taken or isn't
/// SUITE/NAME.
void add_workload(Workload workload);

/// All workloads, suite by suite, in the order in which they are shown.
const std::vector<Workload>& all_workloads();
/// Whether the name is that of a model's file (onnx/workload.h), or a graph's (graph_text/workload.h).
bool is_file_name(std::string_view name);
/// A suite's workload, or that of a file. Null if there is none; throws for a file that can't be read.
const Workload* find_workload(std::string_view name);
/// The names of the suites, each once.
std::vector<std::string> suite_names();
/// The workloads of one suite, or of all for "all"; empty if there is no such suite.
std::vector<std::string> names_of_suite(std::string_view suite);
std::vector<std::string> names_of_default_set();

// The suites, one file each.
std::vector<Workload> mlp_suite();
std::vector<Workload> loss_suite();
std::vector<Workload> conv_suite();
std::vector<Workload> gpt_suite();
std::vector<Workload> reference_suite();
std::vector<Workload> attention_suite();
std::vector<Workload> vit_suite();
std::vector<Workload> micro_suite();

}  // namespace diptych::workloads
