#pragma once

#include <list>
#include <unordered_map>

#include "framework/core/guarded.h"
#include "framework/transforms/cut_call.h"

/// The graphs of a jit: one cache, one capacity and one ledger, however many structures its arguments have.
namespace diptych::graph {

struct JitFunction::Entry {
  const State* owner = nullptr;
  std::size_t hash = 0;  ///< of the owner, types and strides
  std::vector<TensorType> types;
  std::vector<Strides> strides;
  Guards guards;
  std::size_t ledger_line = 0;
  Graph graph;
  std::unique_ptr<runtime::Executable> executable;
  std::shared_ptr<void> structure;
  Variables states;
  Graph with_updates;                      ///< as captured, if it updates states
  std::size_t effects = 0;                 ///< nodes that have one, as captured
  std::vector<Tensor> captured;            ///< that the graph reads where they are
  std::shared_ptr<CallGradient> gradient;  ///< null before the first call that is recorded
  struct Cut {
    std::vector<ResultSet> sets = {};      ///< empty: it isn't made
    std::shared_ptr<SplitCall> call = {};  ///< null: it can't be cut
    Guards guards = {};                    ///< of what gradient rules read besides
    std::size_t ledger_line = 0;           ///< of Compilation::gradients
  };
  using Cuts = std::map<std::vector<bool>, Cut>;
  Cuts cuts;  ///< by the inputs whose gradients are wanted

  /// Makes one of the two oldest lines that no cut is of, where there are many.
  void shorten(std::vector<GradientCompilation>& lines);

  bool matches(const State* of, std::span<const Tensor> arguments) const {
    if (owner != of || arguments.size() != types.size() || !guards.hold()) {
      return false;
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const TensorBody& body = *arguments[i].body();
      if (body.type != types[i] || body.strides != strides[i]) {
        return false;
      }
    }
    return true;
  }
};

/// The graphs of all functions that share it.
class JitCache {
 public:
  using Entry = JitFunction::Entry;
  using State = JitFunction::State;

  JitCache(std::size_t capacity, std::shared_ptr<CallLock> of_others)
      : turns(of_others != nullptr ? std::move(of_others) : std::make_shared<CallLock>()),
        capacity_(std::max<std::size_t>(capacity, 1)) {}

  /// The owner's entry for these arguments, moved to the front; null if there is none. Compares two signatures, however
  /// many there are.
  Entry* find(const State* owner, std::span<const Tensor> arguments);
  /// Drops the least recently used beyond the capacity. Throws std::bad_alloc, and has changed nothing then.
  Entry& add(Entry&& made, Compilation&& line);
  /// The last used one; null if there is none.
  const Entry* last_of(const State* owner) const;
  void forget(const State* owner) noexcept;
  /// Why there is no entry for these arguments.
  std::string cause_of(const State* owner, std::span<const Tensor> arguments) const;

  const std::shared_ptr<CallLock> turns;
  std::vector<Compilation> ledger;

 private:
  using Entries = std::list<Entry>;

  Entries::iterator erase(Entries::iterator entry) noexcept;
  void shorten_ledger();

  std::size_t capacity_;
  Entries entries_;  ///< most recently used first
  /// Keyed by hash. Entries with the same hash differ in their guards, or collide.
  std::unordered_multimap<std::size_t, Entries::iterator> by_signature_;
};

/// The hash of the owner, and of the arguments' types and strides.
std::size_t hash_of(const void* owner, std::span<const Tensor> arguments);

}  // namespace diptych::graph
