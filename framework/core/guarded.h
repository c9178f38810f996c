#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/context.h"

namespace diptych {

struct GuardedState {
  std::string name;
  std::int64_t value;
};

/// An integer on the host that programs branch on: train or eval, the version of a list of hooks. Reading it while a
/// graph is captured makes its value part of the graph's signature: a change causes a new capture, and both graphs stay
/// cached.
class Guarded {
 public:
  /// `name` appears in the recompile ledger.
  Guarded(std::string name, std::int64_t value);

  std::int64_t get() const {
    if (thread_context.tracer() != nullptr) [[unlikely]] {
      note();
    }
    return state_->value;
  }
  void set(std::int64_t value);
  void rename(std::string name) { state_->name = std::move(name); }

 private:
  void note() const;

  std::shared_ptr<GuardedState> state_;
};

/// The values under which a graph was captured.
class Guards {
 public:
  /// A single comparison as long as no Guarded has changed.
  bool hold() const;
  /// The first value that has changed: "training of 'dropout': 1 -> 0".
  std::string describe_change() const;

  /// While it lives, reads on this thread are recorded.
  class Recorder {
   public:
    explicit Recorder(Guards& guards);
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

   private:
    Guards* previous_;
  };

 private:
  friend class Guarded;
  struct Guard {
    std::shared_ptr<const GuardedState> state;
    std::int64_t value;
  };

  std::vector<Guard> guards_;
  mutable std::uint64_t checked_at_ = 0;
  mutable bool hold_ = true;
};

}  // namespace diptych
