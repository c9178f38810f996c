#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/core/tensor.h"
#include "workloads/harness/timing.h"

/// The other end of docs/arms.md: a process that runs a model in its own framework and is told what to do, a line of
/// JSON at a time.
namespace diptych::workloads {

class Child;

/// The arm is out of the race: it hangs, died, or says what can't be. Nobody else is harmed.
class ArmFailure : public Error {
  using Error::Error;
};

inline constexpr int kArmProtocol = 1;

class ExternalProcess {
 public:
  /// Starts it. Throws ArmFailure where it isn't there. `patience`: 1 waits minutes for answers that may take them.
  explicit ExternalProcess(const std::vector<std::string>& command, Clock clock = steady_seconds, double patience = 1);
  ~ExternalProcess();
  ExternalProcess(const ExternalProcess&) = delete;
  ExternalProcess& operator=(const ExternalProcess&) = delete;

  // Each throws ArmFailure for whatever isn't an answer; the process is ended then.

  /// What it says of itself: "framework", "threads", "overhead_nanoseconds".
  nlohmann::json describe();
  /// Loads a model and its inputs, which are put into `folder`. Gives its own "load_seconds" and "compile_seconds".
  nlohmann::json load(const std::string& model, const std::vector<Tensor>& inputs, const std::string& folder);
  /// Runs it once; what it computed, which has to be of these types.
  std::vector<Tensor> check(const std::string& folder, const std::vector<TensorType>& types);

  /// Seconds of some calls.
  struct Block {
    double said = 0;    ///< by its own clock
    double passed = 0;  ///< by ours, with a line there and back
  };
  Block warm_up(std::int64_t count) { return timed("warm_up", count); }
  Block run(std::int64_t count) { return timed("run", count); }
  /// The most memory that it has had; null if it doesn't say.
  nlohmann::json peak_bytes();
  /// Ends it: it must not go on in the background.
  void end();
  /// That it has used until now, ended or not, with what it has started. 0 where that can't be read.
  double cpu_seconds();
  /// Child::waited_seconds().
  double waited_seconds() const;

 private:
  /// One line there and one back.
  nlohmann::json ask(const nlohmann::json& request, double usual_seconds);
  Block timed(const char* request, std::int64_t count);
  Tensor read_output(const nlohmann::json& described, const TensorType& type, const std::string& folder,
                     std::size_t index);
  [[noreturn]] void fail(const std::string& why);

  Clock clock_;
  double patience_;
  std::unique_ptr<Child> child_;
  std::string doing_ = "start";
  double cpu_seconds_ = 0;   ///< when it was last asked
  double longest_call_ = 0;  ///< seconds of one call so far, for patience
};

/// Seconds that an answer tells, below `most`; 0 if it tells none. Throws ArmFailure for what can't be.
double seconds_in(const nlohmann::json& answer, const char* name, double most);

}  // namespace diptych::workloads
