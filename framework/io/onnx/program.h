#pragma once

#include <map>
#include <set>

#include "framework/io/onnx/operators.h"

namespace diptych::onnx {

/// A graph whose nodes are translated, with its values numbered.
class GraphProgram {
 public:
  struct Step {
    Translation translation;
    std::vector<int> inputs;    ///< numbers of values; -1: left out
    std::vector<int> outputs;   ///< the same
    std::vector<int> last_use;  ///< values that no later step reads, and the graph doesn't give
    std::string what;           ///< "node \"conv1\" (Conv, opset 13)"
    std::string scope;          ///< the node's name, for provenance
    Location where;
  };

  /// Runs all steps on `values`, one for each number; those of inputs, captured values and constants are filled. What
  /// follows from known values is computed at once, even while a graph is captured. Returns the steps that the next run
  /// with inputs of the same types has to repeat.
  std::vector<std::uint32_t> interpret(std::vector<Value>& values) const;
  /// Runs these steps, which interpret() has chosen.
  void repeat(std::span<const std::uint32_t> chosen, std::vector<Value>& values) const;
  /// Empties what neither these steps nor the caller read.
  void drop_unread(std::span<const std::uint32_t> chosen, std::vector<Value>& values) const;
  /// A body's run: on its inputs, then what it captured.
  std::vector<Value> call(std::span<const Value> arguments) const;

  std::vector<Step> steps;
  std::vector<int> inputs;  ///< without those that have an initializer
  std::vector<int> outputs;
  std::vector<std::pair<int, Value>> constants;  ///< initializers
  std::vector<std::string> captured;             ///< names of values around it that it reads
  std::map<std::string, int> numbers;            ///< of all values, by name

 private:
  void run(const Step& step, std::vector<Value>& values, std::vector<Value>& arguments,
           std::vector<Value>& results) const;
};

/// `graph` is the model's, or a body in it. Throws Unsupported, which names all nodes that can't be run, and Error for
/// what is no graph. Names in `around` may be captured.
GraphProgram compile(const Graph& graph, const Model& model, const std::set<std::string>& around = {});

/// An iteration whose number depends on elements: what it runs has the limit of a call for itself, so that the loop
/// goes on as long as the model says.
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
