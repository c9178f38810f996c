#pragma once

#include <optional>
#include <string>

#include "framework/graph/ir.h"

/// Finds the pass that changes a bit: every stage of the pipeline is run as it stands, value by value.
namespace diptych::runtime {

/// What a graph computes in a call.
struct Evaluation {
  struct Value {
    graph::ValueId value;
    std::string op;
    Tensor tensor;
  };
  std::vector<Value> values;   ///< each that isn't an input or a constant, in the order of the nodes
  std::vector<Value> results;  ///< outputs, then what each state becomes
};
/// Runs a copy in which every value is an output, and one as it stands; the variables keep their values. `arguments`:
/// of the inputs of that kind.
Evaluation evaluate_stage(const graph::Graph& graph, std::span<const Tensor> arguments);

struct Difference {
  graph::ValueId value = 0;
  std::string op;
  TensorType type;
  std::int64_t element = 0;  ///< in row-major order
  std::string expected, actual;
  friend bool operator==(const Difference&, const Difference&) = default;
};
/// "%12 mul, f32[4,4]: element 5 is 1.5, not 1.25"
std::string to_string(const Difference& difference);

/// The first element that differs; none if all bits are equal. Tensors of different types differ in element 0.
std::optional<Difference> first_difference(const Tensor& expected, const Tensor& actual);
/// Of the values that both stages have, in the order of the later one; then of the results, by their place. Values that
/// are inside of a fused node in the later stage are compared where they leave it.
std::optional<Difference> first_difference(const Evaluation& earlier, const Evaluation& later);

/// Of each stage of a pipeline from the one before it, on these arguments; of the first, which is as captured, none.
std::vector<std::optional<Difference>> differences_of(std::span<const graph::Graph> stages,
                                                      std::span<const Tensor> arguments);

}  // namespace diptych::runtime
