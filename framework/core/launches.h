#pragma once

#include <atomic>

namespace diptych {

struct TensorBody;

/// The part of pipelined dispatch (runtime/pipeline.h) that core knows: elements may still be pending.
namespace launches {

struct Hooks {
  /// Waits until a pending tensor is written; throws the earliest error.
  void (*wait_for)(const TensorBody& body);
  /// Waits for all launches of the calling thread; throws any failure since the last read.
  void (*synchronize)();
};

/// Null until a thread uses pipelined dispatch.
inline constinit std::atomic<const Hooks*> hooks{nullptr};

inline void synchronize() {
  if (const Hooks* const set = hooks.load(std::memory_order_acquire)) [[unlikely]] {
    set->synchronize();
  }
}

}  // namespace launches
}  // namespace diptych
