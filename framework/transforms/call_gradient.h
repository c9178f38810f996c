#pragma once

#include <memory>
#include <span>
#include <vector>

#include "framework/dispatch/tape.h"
#include "framework/transforms/jit.h"

/// The gradient of a graph that is called from eager.
namespace diptych::graph {

/// A call whose gradient was captured with it: the forward graph gives what the backward graph reads
/// (split_gradient.h).
struct SplitCall {
  std::unique_ptr<runtime::Executable> forward, backward;
  std::vector<bool> wanted;  ///< by input: whether backward gives its gradient
  std::size_t results = 0;
};

struct RecordedCall {
  /// Of the inputs and cotangents, from the beginning: for gradients of gradients, and where nothing can be saved.
  std::shared_ptr<JitFunction> backward;
  std::shared_ptr<SplitCall> split;  ///< null: there is none
  std::vector<Tensor> inputs;        ///< arguments, then states
  std::vector<Tensor> saved;         ///< what the forward graph of `split` gave besides results
  std::vector<TensorType> outputs;
  Location where;
};
std::unique_ptr<autograd::CustomRule> rule_of_call(RecordedCall call);

/// Calls `forward` on the first of `tensors`, with the variables bound to those behind, and gives the gradients of
/// those that are floating and `wanted` (empty: all) for the cotangents behind these. Its results go to `results`,
/// unless that is null.
std::vector<Tensor> gradients_of(const JitFunction::Function& forward, std::size_t argument_count,
                                 const Variables& variables, std::span<const Tensor> tensors,
                                 const std::vector<bool>& wanted, std::vector<Tensor>* results);

/// Lets the calls of `graph` update the states as `captured` does: the nodes that the updates need are added, of which
/// CSE drops those that are there already. The inputs of both are the arguments, then the states. False, and nothing
/// changes, if one of these nodes has an effect, which would happen twice.
bool add_updates(const Graph& captured, Graph& graph);

}  // namespace diptych::graph
