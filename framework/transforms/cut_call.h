#pragma once

#include "framework/core/guarded.h"
#include "framework/transforms/call_gradient.h"

/// The calls of a function for one signature whose gradients are likely to be wanted, captured with their gradients and
/// cut into a forward and backward graphs:
///
///   function ──> joint graph ──> simplified ──> split_gradient ──> forward: results, saved
///   (captured with the gradients of each set)                 └──> backward of each set of results
namespace diptych::graph {

/// What is known of a signature.
struct CallToCut {
  const JitFunction::Function& function;
  const JitOptions& options;
  std::span<const TensorType> arguments;
  std::span<const Strides> strides;  ///< by argument
  const Variables& states;           ///< that the function reads; its inputs behind the arguments
  const Graph& with_updates;         ///< as captured, if it updates states, else empty
  std::size_t effects;               ///< nodes that have one, as captured
  std::span<const TensorType> results;
};

/// The graphs for the gradients that `line` wants of the expected sets of results. Null if that can't be done: `line`
/// says why. `guards`: of what gradient rules read besides. Throws what the function or a gradient rule throws.
std::shared_ptr<SplitCall> cut_call(const CallToCut& of, const GradientSets::Expected& expected, Guards& guards,
                                    GradientCompilation& line, Location where);

/// By the steps that these options leave on.
std::unique_ptr<runtime::Executable> make_executable(const Graph& graph, std::span<const Strides> strides,
                                                     const passes::PipelineOptions& pipeline);

/// How many nodes have an effect.
std::size_t count_effects(const Graph& graph);

/// The captured tensors of a graph, each once.
std::vector<Tensor> captured_of(const Graph& graph);

}  // namespace diptych::graph
