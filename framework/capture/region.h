#pragma once

#include <functional>

#include "framework/capture/capture.h"
#include "framework/core/context.h"

/// Functions as regions of control flow, and regions as functions.
namespace diptych::graph {

using RegionFunction = std::function<std::vector<Tensor>(std::span<const Tensor> arguments)>;

/// A function captured as a region; the outer values that it uses are determined by the capture.
class RegionTrace {
 public:
  RegionTrace(std::string name, const RegionFunction& function, std::span<const TensorType> arguments, Location where);

  /// Runs `function` as part of the region.
  template <class Function>
  void extend(const Function& function) {
    const NoGrad no_tape;  // the tape records the node that contains the region, not the region
    const CaptureScope scope(capture);
    // Reads are recorded where the node is made, with their values there.
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

/// The outer values that the regions of one node use together.
class Closure {
 public:
  /// `carried`: variables that have their own position among the inputs.
  Closure(std::span<RegionTrace* const> traces, const Variables& carried);

  void append_values(RegionTrace& trace, std::vector<ValueId>& inputs) const;
  void append_operands(std::vector<Tensor>& operands) const;

 private:
  std::vector<Tensor> tensors_;
  Variables variables_;
};

/// Runs a region under the active interpreter, op by op; what fused nodes stand for, too.
std::vector<Tensor> evaluate(const Graph& region, std::span<const Tensor> arguments);

/// `tensor`, or a copy, with the strides of a dense tensor: loop carries and results have such strides in both modes.
Tensor dense(const Tensor& tensor, Location where);

/// The gradients of a region's `outputs` (indices), given their cotangents, with respect to the inputs `targets`.
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
