#pragma once

#include <atomic>
#include <pthread.h>

#include "framework/core/context.h"

namespace diptych {

/// Lets one thread in at a time and knows which, so that a thread which is inside already is told so instead of waiting
/// for itself. std::mutex would do, but half of all units would read its header for the sake of this one member.
class CallLock {
 public:
  CallLock() = default;
  CallLock(const CallLock&) = delete;
  CallLock& operator=(const CallLock&) = delete;

  /// While it lives, other threads wait.
  class Scope {
   public:
    explicit Scope(CallLock& lock) noexcept : lock_(lock), is_first_(lock.enter()) {}
    ~Scope() {
      if (is_first_) {
        lock_.leave();
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    /// False: a scope of the same thread is around this one.
    bool is_first() const noexcept { return is_first_; }

   private:
    CallLock& lock_;
    bool is_first_;
  };

 private:
  bool enter() noexcept {
    const void* const self = &thread_context;
    if (holder_.load(std::memory_order_relaxed) == self) {  // nobody else can write that
      return false;
    }
    pthread_mutex_lock(&mutex_);  // a default mutex that is never destroyed while locked: it can't fail
    holder_.store(self, std::memory_order_relaxed);
    return true;
  }
  void leave() noexcept {
    holder_.store(nullptr, std::memory_order_relaxed);
    pthread_mutex_unlock(&mutex_);
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<const void*> holder_ = nullptr;
};

}  // namespace diptych
