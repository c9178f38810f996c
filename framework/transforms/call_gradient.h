#pragma once

#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "framework/dispatch/tape.h"
#include "framework/transforms/jit.h"

/// The gradient of a graph that is called from eager.
namespace diptych::graph {

/// A call whose gradient was captured with it: the forward graph gives what the backward graph reads
/// (split_gradient.h).
struct SplitCall {
  std::unique_ptr<runtime::Executable> forward, backward;
  std::vector<bool> given;   ///< by result: whether backward takes its cotangent
  std::vector<bool> wanted;  ///< by input: whether backward gives its gradient
  std::size_t results = 0;
};

/// The gradient of a function for one signature, from the beginning: for gradients of gradients, and where nothing was
/// saved for the results whose cotangents there are. A result without a cotangent has no influence, as in eager: zeros
/// in its place would give NaN behind an infinity. Threads may share it.
class CallGradient {
 public:
  /// `turns`: of the function. The inputs are `argument_count` arguments, then the states.
  CallGradient(JitFunction::Function function, std::size_t argument_count, Variables states, JitOptions options,
               std::shared_ptr<CallLock> turns);

  /// Which gradients, of what.
  struct Which {
    std::vector<bool> wanted;  ///< by input; others get none
    std::vector<bool> given;   ///< by result: whether there is a cotangent
    friend bool operator<(const Which& a, const Which& b) {
      return std::tie(a.wanted, a.given) < std::tie(b.wanted, b.given);
    }
  };
  /// By input, undefined for those that aren't wanted or have no influence. `cotangents`: of the given results.
  std::vector<Tensor> call(std::span<const Tensor> inputs, const Which& which, std::span<const Tensor> cotangents,
                           Location where);

  /// The results that the last gradient had cotangents of, so that the next call is cut for them; empty: not known.
  std::vector<bool> last_given() const;
  void note_given(const std::vector<bool>& given);

 private:
  JitFunction::Function function_;
  std::size_t argument_count_;
  Variables states_;
  JitOptions options_;
  std::shared_ptr<CallLock> turns_;
  std::map<Which, JitFunction> functions_;
  mutable CallLock lock_;  ///< of what follows, which no graph is run under
  std::vector<bool> last_given_;
};

struct RecordedCall {
  std::shared_ptr<CallGradient> gradient;
  std::shared_ptr<SplitCall> split;  ///< null: there is none
  std::vector<Tensor> inputs;        ///< arguments, then states
  std::vector<bool> wanted;          ///< by input
  std::vector<Tensor> saved;         ///< what the forward graph of `split` gave besides results
  std::vector<TensorType> outputs;
  Location where;
};
std::unique_ptr<autograd::CustomRule> rule_of_call(RecordedCall call);

/// Calls `forward` on the first of `tensors`, with the variables bound to those behind, and gives the gradients of the
/// inputs for the cotangents behind these, as CallGradient::call does. Its results go to `results`, unless that is
/// null.
std::vector<Tensor> gradients_of(const JitFunction::Function& forward, std::size_t argument_count,
                                 const Variables& variables, std::span<const Tensor> tensors,
                                 const CallGradient::Which& which, std::vector<Tensor>* results);

/// Lets the calls of `graph` update the states as `captured` does: the nodes that the updates need are added, of which
/// CSE drops those that are there already. The inputs of both are the arguments, then the states. False, and nothing
/// changes, if one of these nodes has an effect, which would happen twice.
bool add_updates(const Graph& captured, Graph& graph);

}  // namespace diptych::graph
