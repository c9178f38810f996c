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

/// A whole number on the host that programs branch on: train or eval, the version of a list of hooks. Reading it while
/// a graph is captured makes its value part of the graph's signature: a change captures anew, and both graphs stay
/// cached.
class Guarded {
 public:
  /// `name` stands in the recompile ledger.
  Guarded(std::string name, std::int64_t value);

  std::int64_t get() const {
    if (thread_context.capture != nullptr) [[unlikely]] {
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

/// The values that a graph was captured with.
class Guards {
 public:
  /// One comparison as long as no Guarded has changed at all.
  bool hold() const;
  /// The first that doesn't hold: "training of 'dropout': 1 -> 0".
  std::string describe_change() const;

  /// While it lives, what is read on this thread is noted.
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
