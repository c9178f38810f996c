#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <type_traits>

#include "framework/core/context.h"
#include "framework/core/tree.h"
#include "framework/graph/capture.h"
#include "framework/passes/pass.h"
#include "framework/runtime/executable.h"

namespace diptych::graph {

struct JitOptions {
  std::string name = "graph";
  passes::PipelineOptions pipeline;
  /// Compiled graphs kept; the least recently used goes first.
  std::size_t capacity = 64;
  Location where;  ///< named in messages about calls; jit() sets it to its own caller
};

/// One line of the recompile ledger.
struct Compilation {
  std::string cause;  ///< what in the signature was new: "first call", "argument 0: f32[8,4] -> f32[16,4]"
  Location where;     ///< the call that compiled
  double capture_seconds = 0;
  double passes_seconds = 0;
  double lower_seconds = 0;
  std::vector<passes::PassRecord> passes;
  std::size_t captured_nodes = 0;
  std::size_t nodes = 0;
  std::uint64_t calls = 0;  ///< that it has served so far

  double seconds() const { return capture_seconds + passes_seconds + lower_seconds; }
};

/// A function on flat lists of tensors, compiled once per signature (dtypes, shapes and strides of the arguments).
/// Not thread-safe: one per thread.
class JitFunction {
 public:
  /// `structure` may be set to anything that the caller wants back with each result of this graph.
  using Function =
      std::function<std::vector<Tensor>(std::span<const Tensor> arguments, std::shared_ptr<void>& structure)>;

  JitFunction(Function function, JitOptions options);
  ~JitFunction();
  JitFunction(JitFunction&&) noexcept;
  JitFunction& operator=(JitFunction&&) noexcept;

  struct Result {
    std::vector<Tensor> outputs;
    const void* structure;
  };
  /// Gradients flow through a call, to its arguments and to the variables that the function reads.
  Result call(std::span<const Tensor> arguments, Location where);

  const std::vector<Compilation>& ledger() const;
  /// The graph (after the passes) and the executable of the last call; null before the first.
  const Graph* graph() const;
  const runtime::Executable* executable() const;

 private:
  struct Entry;
  struct State;
  std::unique_ptr<State> state_;
};

/// A callable with the signature of `Fn`, run as a graph: `auto step = jit(train_step); step(x, y);`
template <class Fn>
class Jit {
 public:
  Jit(Fn function, JitOptions options)
      : function_(std::make_shared<Fn>(std::move(function))), options_(std::move(options)) {}

  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    using Result = std::invoke_result_t<Fn&, const Arguments&...>;
    static_assert(!std::is_void_v<Result>,
                  "a captured function returns its results: tensors, pairs, tuples or vectors");
    if (thread_context.capture != nullptr) {
      return Result((*function_)(arguments...));  // part of the graph around it
    }
    std::vector<std::size_t> lengths;
    (append_lengths(arguments, lengths), ...);
    std::shared_ptr<JitFunction>& compiled = state_->by_structure[lengths];
    if (compiled == nullptr) {
      // The arguments' structure without their tensors, which must not live as long as this.
      auto structure = std::tuple<Arguments...>(arguments...);
      for_each_tensor(structure, [](Tensor& tensor) { tensor = Tensor(); });
      compiled = std::make_shared<JitFunction>(
          [function = function_, structure](std::span<const Tensor> tensors, std::shared_ptr<void>& kept) {
            const auto rebuilt = rebuild_tree(structure, tensors);
            auto result = std::make_shared<Result>(
                std::apply([&](const auto&... parts) { return Result((*function)(parts...)); }, rebuilt));
            std::vector<Tensor> flat = flatten_tree(*result);
            kept = std::move(result);
            return flat;
          },
          options_);
    }
    state_->last = compiled;
    std::vector<Tensor> flat;
    (for_each_tensor(arguments, [&](const Tensor& tensor) { flat.push_back(tensor); }), ...);
    const JitFunction::Result result = state_->last->call(flat, options_.where);
    return rebuild_tree(*static_cast<const Result*>(result.structure), result.outputs);
  }

  /// Of the last call; null before the first.
  const JitFunction* compiled() const { return state_->last.get(); }

 private:
  struct State {
    std::map<std::vector<std::size_t>, std::shared_ptr<JitFunction>> by_structure;
    std::shared_ptr<JitFunction> last;
  };

  std::shared_ptr<Fn> function_;
  JitOptions options_;
  std::shared_ptr<State> state_ = std::make_shared<State>();  ///< shared by copies
};

}  // namespace diptych::graph

namespace diptych {

/// Runs `function` as a graph: captured at the first call with each signature, then replayed.
template <class Fn>
graph::Jit<std::decay_t<Fn>> jit(Fn&& function, graph::JitOptions options = {}, Location where = Location::current()) {
  if (options.where.line == 0) {
    options.where = where;
  }
  return {std::forward<Fn>(function), std::move(options)};
}

}  // namespace diptych
