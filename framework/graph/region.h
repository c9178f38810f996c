#pragma once

#include <functional>

#include "framework/core/context.h"
#include "framework/graph/capture.h"

/// Functions as regions of control flow, and regions as functions.
namespace diptych::graph {

using RegionFunction = std::function<std::vector<Tensor>(std::span<const Tensor> arguments)>;

/// A function captured as a region; what it takes from around it is found out.
class RegionTrace {
 public:
  RegionTrace(std::string name, const RegionFunction& function, std::span<const TensorType> arguments, Location where);

  /// Runs `function` as a part of the region.
  template <class Function>
  void extend(const Function& function) {
    const NoGrad no_tape;  // what the node makes of the region is recorded, not the region
    const CaptureScope scope(&capture);
    // Reads are noted where the node is made, by what they are there.
    struct Unnoted {
      std::vector<VariableRead>* previous = std::exchange(thread_context.variable_reads, nullptr);
      ~Unnoted() { thread_context.variable_reads = previous; }
    } unnoted;
    function();
  }

  std::vector<ValueId> argument_values(std::size_t first, std::size_t count) const;

  Capture capture;
  std::vector<Tensor> arguments;
  std::vector<Tensor> results;
};

/// What the regions of one node take from around it, together.
class Closure {
 public:
  /// `carried`: variables that have a place of their own among the inputs.
  Closure(std::span<RegionTrace* const> traces, const Variables& carried);

  void append_values(RegionTrace& trace, std::vector<ValueId>& inputs) const;
  void append_operands(std::vector<Tensor>& operands) const;

 private:
  std::vector<Tensor> tensors_;
  Variables variables_;
};

/// Runs a region under the active interpreter, op by op.
std::vector<Tensor> evaluate(const Graph& region, std::span<const Tensor> arguments);

/// `tensor`, or a copy, with the strides of a dense tensor: what loops carry and give has them in both modes.
Tensor dense(const Tensor& tensor, Location where);

/// The gradients of a region's `outputs` (indices), given their cotangents, by the inputs `targets`.
std::vector<Tensor> region_vjp(const Graph& region, std::span<const Tensor> inputs,
                               std::span<const std::size_t> outputs, std::span<const Tensor> cotangents,
                               std::span<const std::size_t> targets, Location where);

struct RegionTangents {
  std::vector<Tensor> values;
  std::vector<Tensor> tangents;  ///< one per output; undefined where it isn't floating-point
};
/// A region's outputs and their tangents, given those of the inputs `targets` (indices).
RegionTangents region_jvp(const Graph& region, std::span<const Tensor> inputs, std::span<const std::size_t> targets,
                          std::span<const Tensor> tangents, Location where);

}  // namespace diptych::graph
