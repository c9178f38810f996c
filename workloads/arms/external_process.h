#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/core/tensor.h"
#include "profiler/machine/cpu_times.h"
#include "workloads/arms/answer.h"
#include "workloads/processes/timing.h"

/// The host side of docs/arms.md: a process that runs a model in its own framework, on requests of one line of JSON
/// each.
namespace diptych::workloads {

class Child;

inline constexpr int kArmProtocol = 1;

/// What an arm computes if not a model's outputs: gradients of sum(output * cotangent) over floating-point outputs.
struct ArmGradients {
  std::vector<std::string> by = {};     ///< names of inputs and initializers, in the order of the results
  std::vector<Tensor> cotangents = {};  ///< one for each output
  /// With one, a call is a training step: an update of the weights that `by` names, too. {"name":"adam","lr":1e-4,...}
  nlohmann::json optimizer = nullptr;
};

class ExternalProcess {
 public:
  /// Starts it. Throws ArmFailure if it isn't installed. `patience`: 1 allows minutes for answers that may take them.
  explicit ExternalProcess(const std::vector<std::string>& command, Clock clock = steady_seconds, double patience = 1);
  ~ExternalProcess();
  ExternalProcess(const ExternalProcess&) = delete;
  ExternalProcess& operator=(const ExternalProcess&) = delete;

  // Each throws ArmFailure for anything that isn't an answer, after ending the process, and for an answer that comes
  // too late. Answers to all requests together can be late only by as much as one.

  /// Its description of itself: "framework", "threads", "overhead_nanoseconds", in their ranges.
  nlohmann::json describe();
  struct Loaded {
    double load_seconds = 0;     ///< as it says
    double compile_seconds = 0;  ///< the same
  };
  /// Loads a model and its inputs, which are written to `folder`.
  /// `gradients`: instead of outputs, if there are any; only for a process that describes itself with "gradients", or,
  /// with an optimizer, "training".
  Loaded load(const std::string& model, const std::vector<Tensor>& inputs, const std::string& folder,
              const ArmGradients& gradients = {});
  /// Runs the model once and returns its outputs, which must be of these types. A training step starts from the weights
  /// as they were loaded, by an optimizer without history; `moved`: how far it says that these moved in the mean.
  std::vector<Tensor> check(const std::string& folder, const std::vector<TensorType>& types, double* moved = nullptr);

  /// Seconds of a number of calls.
  struct Block {
    double said = 0;    ///< by its own clock
    double passed = 0;  ///< by our clock, with a line sent and one received
  };
  Block warm_up(std::int64_t count) { return timed("warm_up", count); }
  Block run(std::int64_t count) { return timed("run", count); }

  /// A node of the model as the framework runs it, which may be of its own making.
  struct NodeTime {
    std::string node;    ///< untrusted, as all that it says
    std::string op;      ///< "FusedMatMul"
    double seconds = 0;  ///< of a call
    double runs = 1;     ///< in a call
  };
  /// By its own profiler, over `count` calls more, in the order in which they ran. Throws ArmFailure if it has none.
  std::vector<NodeTime> profile(std::int64_t count, const std::string& folder);

  /// What its framework has counted since it began, by name: {"graph_breaks":0}. Only for one that describes itself
  /// with "counters".
  nlohmann::json counters();
  /// Its peak memory; null if it doesn't report any.
  nlohmann::json peak_bytes();
  /// Ends the process: it must not continue in the background.
  void end();
  /// CPU seconds used so far by the process and those that it has started, whether it has ended or not. 0 if that can't
  /// be read.
  double cpu_seconds();
  /// Child::waited_seconds().
  double waited_seconds() const;
  /// Child::threads().
  std::vector<profiler::ThreadTimes> threads() const;

 private:
  /// Sends one line and receives one.
  nlohmann::json ask(const nlohmann::json& request, double usual_seconds);
  Block timed(const char* request, std::int64_t count);
  std::optional<double> number(const nlohmann::json& answer, const char* name, const Range& range);
  Tensor read_output(const nlohmann::json& described, const TensorType& type, const std::string& folder,
                     std::size_t index);
  [[noreturn]] void fail(const std::string& why);

  Clock clock_;
  double patience_;
  std::unique_ptr<Child> child_;
  std::string doing_ = "start";
  double cpu_seconds_ = 0;  ///< at the latest query
  double started_ = 0;
  double deadline_ = 0;       ///< of the request at hand and of the files that belong to its answer
  double quickest_call_ = 0;  ///< seconds; 0: none yet
  double grace_;              ///< seconds that all answers to come may take beyond what was to be expected
};

}  // namespace diptych::workloads
