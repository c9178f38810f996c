#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <type_traits>

#include "framework/capture/capture.h"
#include "framework/core/call_lock.h"
#include "framework/core/context.h"
#include "framework/core/tree.h"
#include "framework/passes/pass.h"
#include "framework/runtime/executable.h"

namespace diptych::graph {

struct JitOptions {
  std::string name = "graph";
  passes::PipelineOptions pipeline;
  /// Maximum number of compiled graphs, whatever their arguments; the least recently used is dropped first.
  std::size_t capacity = 64;
  Location where;  ///< named in messages about calls; jit() sets it to its own caller
};

/// How often gradients of calls were taken; threads count.
struct GradientUse {
  std::atomic<std::uint64_t> taken = 0;   ///< by a backward graph
  std::atomic<std::uint64_t> again = 0;   ///< others, for which the forward pass was computed again
  std::atomic<double> again_seconds = 0;  ///< it took to compile graphs for those
};

/// Calls that eager takes gradients of: the function and its gradients as one graph, cut into a forward graph and, for
/// each set of results that gradients are of, a backward graph.
struct GradientCompilation {
  std::vector<bool> wanted;  ///< by argument, then by the variables that the function reads
  std::string uncut;         ///< why it isn't cut, and each gradient computes the forward pass again; empty: it is
  double seconds = 0;
  std::size_t saved_bytes = 0;                               ///< what the forward graph keeps for the backward graphs
  std::vector<passes::PassRecord> joint = {}, forward = {};  ///< before the cut; of the forward graph
  std::size_t forward_nodes = 0;
  struct Backward {
    std::vector<bool> given;  ///< by result: those whose cotangents it takes
    std::vector<passes::PassRecord> passes;
    std::size_t nodes = 0;
  };
  std::vector<Backward> backwards = {};
  std::uint64_t calls = 0;
  std::uint64_t merged = 0;  ///< so many earlier ones are in its seconds and calls
  std::shared_ptr<GradientUse> use = std::make_shared<GradientUse>();
};

/// A ledger has about so many lines: beyond them, the oldest whose graphs were dropped become one.
inline constexpr std::size_t kLedgerLines = 256;

/// One line of the recompile ledger.
struct Compilation {
  std::string cause;  ///< what was new in the signature: "first call", "argument 0: f32[8,4] -> f32[16,4]"
  Location where;     ///< the call that caused it
  std::vector<TensorType> arguments = {};
  double capture_seconds = 0;
  double passes_seconds = 0;
  double lower_seconds = 0;
  std::vector<passes::PassRecord> passes;
  std::size_t captured_nodes = 0;
  std::size_t nodes = 0;
  std::uint64_t calls = 0;        ///< calls served so far
  std::uint64_t comparisons = 0;  ///< of its signature with a call's: at most two per call, however many there are
  /// One for each set of inputs whose gradients are wanted; another one where gradients were of other results than
  /// expected. The oldest of very many become one.
  std::vector<GradientCompilation> gradients = {};
  bool is_dropped = false;   ///< its graph, for others: JitOptions::capacity
  std::uint64_t merged = 0;  ///< how many compilations the line sums up; 0: it is one of them

  /// Without gradients.
  double seconds() const { return capture_seconds + passes_seconds + lower_seconds; }
};

class JitCache;

/// A function on flat lists of tensors, compiled once per signature (dtypes, shapes and strides of the arguments).
/// Threads may call it at the same time: they take turns, from the look-up to the results, and so do those that compute
/// its gradient again. What ledger(), graph() and executable() give is read while nobody calls it.
class JitFunction {
 public:
  /// `structure` may be set to anything that the caller wants returned with each result of this graph.
  using Function =
      std::function<std::vector<Tensor>(std::span<const Tensor> arguments, std::shared_ptr<void>& structure)>;

  /// `cache`: of functions that share one capacity and one ledger, and must not run at the same time; null: it has its
  /// own.
  JitFunction(Function function, JitOptions options, std::shared_ptr<JitCache> cache = nullptr);
  ~JitFunction();
  JitFunction(JitFunction&&) noexcept;
  JitFunction& operator=(JitFunction&&) noexcept;

  struct Result {
    std::vector<Tensor> outputs;
    std::shared_ptr<const void> structure;  ///< of this graph, which may be dropped meanwhile
  };
  /// Gradients flow through a call to its arguments and to the variables that the function reads.
  Result call(std::span<const Tensor> arguments, Location where);

  /// Of all functions of its cache.
  const std::vector<Compilation>& ledger() const;
  /// Whether no graph of it is kept.
  bool is_empty() const;
  /// The graph (after the passes) and the executable of the last call; null before the first.
  const Graph* graph() const;
  const runtime::Executable* executable() const;

 private:
  friend class JitCache;
  struct Entry;
  struct State;
  std::unique_ptr<State> state_;
};

/// A cache for functions; `turns`: of others that must not run at the same time as these; null: there are none.
std::shared_ptr<JitCache> make_jit_cache(std::size_t capacity, std::shared_ptr<CallLock> turns = nullptr);

/// The state of a `Jit`, in one type for all functions, so that units with many graphs have little to instantiate.
class JitTable {
 public:
  explicit JitTable(JitOptions options);

  /// Taken for a whole call, because all functions of a table capture the same one.
  CallLock& turns() const { return *turns_; }

  /// The function for arguments whose lists have these lengths (append_lengths), which becomes the last one; null if it
  /// is new.
  JitFunction* find(const std::vector<std::size_t>& lengths);
  /// Forgets those whose graphs were all dropped.
  JitFunction* add(const std::vector<std::size_t>& lengths, JitFunction::Function&& function);
  JitFunction::Result call(JitFunction& function, std::span<const Tensor> arguments) const;
  const JitFunction* last() const { return last_; }

 private:
  JitOptions options_;
  std::shared_ptr<CallLock> turns_;
  std::shared_ptr<JitCache> cache_;
  std::map<std::vector<std::size_t>, JitFunction> by_structure_;
  JitFunction* last_ = nullptr;
};

/// A callable with the signature of `Fn`, run as a graph: `auto step = jit(train_step); step(x, y);` Threads that share
/// it, or copies of it, take turns.
template <class Fn>
class Jit {
 public:
  Jit(Fn function, JitOptions options)
      : function_(new Fn(std::move(function))), table_(std::make_shared<JitTable>(std::move(options))) {}

  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    using Result = std::invoke_result_t<Fn&, const Arguments&...>;
    static_assert(!std::is_void_v<Result>,
                  "a captured function returns its results: tensors, pairs, tuples or vectors");
    if (thread_context.inlines_graphs()) {
      return Result((*function_)(arguments...));  // part of the enclosing graph
    }
    const CallLock::Scope turn(table_->turns());
    std::vector<std::size_t> lengths;
    (append_lengths(arguments, lengths), ...);
    JitFunction* compiled = table_->find(lengths);
    if (compiled == nullptr) {
      // The arguments' structure without their tensors, which must not be kept alive by it.
      auto structure = std::tuple<Arguments...>(arguments...);
      clear_tree(structure);
      compiled = table_->add(
          lengths, [function = function_, structure](std::span<const Tensor> tensors, std::shared_ptr<void>& kept) {
            const auto rebuilt = rebuild_tree(structure, tensors);
            auto result = std::make_shared<Result>(
                std::apply([&](const auto&... parts) { return Result((*function)(parts...)); }, rebuilt));
            std::vector<Tensor> flat = flatten_tree(*result);
            kept = std::move(result);
            return flat;
          });
    }
    std::vector<Tensor> flat;
    (append_tensors(arguments, flat), ...);
    const JitFunction::Result result = table_->call(*compiled, flat);
    return rebuild_tree(*static_cast<const Result*>(result.structure.get()), result.outputs);
  }

  /// The function of the last call, until the next; null before the first.
  const JitFunction* compiled() const { return table_->last(); }

 private:
  // Shared by copies, and by the graphs, which may outlive them.
  std::shared_ptr<Fn> function_;
  std::shared_ptr<JitTable> table_;
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
