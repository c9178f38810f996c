#pragma once

#include <map>
#include <set>

#include "framework/io/onnx/operators.h"

namespace diptych::onnx {

/// A graph with its nodes translated and its values numbered.
class GraphProgram {
 public:
  struct Step {
    Translation translation;
    std::vector<int> inputs;    ///< numbers of values; -1: omitted
    std::vector<int> outputs;   ///< the same
    std::vector<int> last_use;  ///< values that no later step reads and that the graph doesn't return
    std::string what;           ///< "node \"conv1\" (Conv, opset 13)"
    std::string scope;          ///< the node's name, for provenance
    Location where;
  };

  /// Runs all steps on `values`, one for each number; those of inputs, captured values and constants are set. Values
  /// that depend only on known values are computed at once, even while a graph is captured. Returns the steps that the
  /// next run with inputs of the same types has to repeat.
  std::vector<std::uint32_t> interpret(std::vector<Value>& values) const;
  /// Runs these steps, which interpret() has selected.
  void repeat(std::span<const std::uint32_t> chosen, std::vector<Value>& values) const;
  /// Clears the values that neither these steps nor the caller read.
  void drop_unread(std::span<const std::uint32_t> chosen, std::vector<Value>& values) const;
  /// Passes the file's names of these values (its inputs and constants) to the active capture, if there is one.
  void name_values(const std::vector<Value>& values) const;
  /// These values and all whose elements they depend on.
  std::set<int> sources_of(std::set<int> values) const;
  /// Runs a body on its inputs, followed by the values that it captured.
  std::vector<Value> call(std::span<const Value> arguments) const;

  std::vector<Step> steps;
  std::vector<int> inputs;  ///< without those that have an initializer
  std::vector<int> outputs;
  std::vector<std::pair<int, Value>> constants;  ///< initializers
  std::vector<std::string> captured;             ///< names of outer values that it reads
  std::map<std::string, int> numbers;            ///< of all values, by name
  bool draws = false;                            ///< one of the steps may draw random numbers

 private:
  void run(const Step& step, std::vector<Value>& values, std::vector<Value>& arguments,
           std::vector<Value>& results) const;
};

/// `graph` is the model's graph, or a body in it. Throws Unsupported, which names all nodes that can't be run, and
/// Error for an invalid graph. Names in `around` may be captured.
GraphProgram compile(const Graph& graph, const Model& model, const std::set<std::string>& around = {});

/// An iteration of a loop whose count depends on elements: each iteration has the limit of a whole call for itself, so
/// that the loop may run as long as the model says.
class Iteration {
 public:
  Iteration();
  ~Iteration();
  Iteration(const Iteration&) = delete;
  Iteration& operator=(const Iteration&) = delete;

 private:
  std::int64_t before_;
};

}  // namespace diptych::onnx
