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

/// Results of a function, by place: those whose cotangents a gradient has.
using ResultSet = std::vector<bool>;

/// A call whose gradients were captured with it: the forward graph gives what the backward graphs read
/// (split_gradient.h).
struct SplitCall {
  struct Backward {
    ResultSet given;           ///< those whose cotangents it takes
    std::vector<bool> wanted;  ///< by input: whether it gives its gradient
    std::vector<bool> reads;   ///< by what a call keeps
    std::unique_ptr<runtime::Executable> executable;
  };
  std::unique_ptr<runtime::Executable> forward;
  std::size_t results = 0;         ///< of the function, the first outputs of `forward`
  std::vector<std::size_t> saved;  ///< which outputs of `forward` are saved: results, and those behind them
  std::vector<Tensor> captured;    ///< that some backward graph reads where they are
  std::vector<Backward> backwards;
};

/// The sets of results that gradients of a function were of, so that its calls are cut for them. Threads may share it.
class GradientSets {
 public:
  /// A function with more of them computes the forward pass again for what is beyond, until one of these was of no
  /// gradient for so many.
  static constexpr std::size_t kMost = 4;
  static constexpr std::uint64_t kForgotten = 64;

  struct Expected {
    std::vector<ResultSet> sets;
    bool is_guess = false;  ///< no gradient was taken so far: all results, and then some of them alone
  };
  /// Those that a call with these results can have.
  Expected expected(std::span<const TensorType> results) const;
  void note(const ResultSet& given);

 private:
  struct Seen {
    ResultSet given;
    std::uint64_t last;  ///< which gradient
  };
  mutable CallLock lock_;
  std::vector<Seen> seen_;
  std::uint64_t gradients_ = 0;
};

/// The gradient of a function for one signature, from the beginning: for gradients of gradients, and where nothing was
/// saved for the results whose cotangents there are. A result without a cotangent has no influence, as in eager: zeros
/// in its place would give NaN behind an infinity. Threads may share it.
class CallGradient {
 public:
  /// `turns` and `sets`: of the function. The inputs are `argument_count` arguments, then the states.
  CallGradient(JitFunction::Function function, std::size_t argument_count, Variables states, JitOptions options,
               std::shared_ptr<CallLock> turns, std::shared_ptr<GradientSets> sets);

  /// Which gradients, of what.
  struct Which {
    std::vector<bool> wanted;  ///< by input; others get none
    ResultSet given;
    friend bool operator<(const Which& a, const Which& b) {
      return std::tie(a.wanted, a.given) < std::tie(b.wanted, b.given);
    }
  };
  /// By input, undefined for those that aren't wanted or have no influence. `cotangents`: of the given results. Counted
  /// in `use`.
  std::vector<Tensor> call(std::span<const Tensor> inputs, const Which& which, std::span<const Tensor> cotangents,
                           GradientUse& use, Location where);

  GradientSets& sets() { return *sets_; }

 private:
  JitFunction::Function function_;
  std::size_t argument_count_;
  Variables states_;
  JitOptions options_;
  std::shared_ptr<CallLock> turns_;
  std::shared_ptr<GradientSets> sets_;
  std::shared_ptr<JitCache> cache_;
  std::map<Which, JitFunction> functions_;
};

struct RecordedCall {
  std::shared_ptr<CallGradient> gradient;
  std::shared_ptr<SplitCall> split;  ///< null: there is none
  std::vector<bool> wanted;          ///< by input
  /// The inputs, which are arguments and then states; what the forward graph of `split` gave to be saved; and captured
  /// tensors.
  std::vector<autograd::SavedTensor> kept;
  std::size_t inputs = 0, saved = 0;  ///< how many
  std::shared_ptr<GradientUse> use;
  std::vector<TensorType> outputs;
  Location where;
};
std::unique_ptr<autograd::CustomRule> rule_of_call(RecordedCall call);

/// The cotangents of some results.
struct Cotangents {
  ResultSet given;
  std::vector<Tensor> tensors;  ///< of those
};

/// Calls `forward` on the first of `inputs`, with the variables bound to those behind, and gives, for each set of
/// cotangents, the gradients of the inputs, as CallGradient::call does. Its results go to `results`, unless that is
/// null.
std::vector<std::vector<Tensor>> gradients_of(const JitFunction::Function& forward, std::size_t argument_count,
                                              const Variables& variables, std::span<const Tensor> inputs,
                                              const std::vector<bool>& wanted, std::span<const Cotangents> sets,
                                              std::vector<Tensor>* results);

}  // namespace diptych::graph
