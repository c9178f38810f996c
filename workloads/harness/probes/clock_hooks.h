#pragma once

#include "framework/core/error.h"
#include "framework/core/trace_points.h"

namespace diptych::workloads {

/// While it lives, the trace points of this thread tell `clock`: begin(label, source_op), end(label) and
/// counter(value, subject), which must not throw, nor allocate tensors. Those on other threads tell nothing; nothing
/// else may be traced at the same time.
template <class Clock>
class ClockHooks {
 public:
  explicit ClockHooks(Clock& clock) {
    internal_check(trace::hooks() == nullptr, "nothing else is traced");
    running = &clock;
    trace::install(&kHooks);
  }
  ~ClockHooks() {
    trace::install(nullptr);
    running = nullptr;
  }
  ClockHooks(const ClockHooks&) = delete;
  ClockHooks& operator=(const ClockHooks&) = delete;

 private:
  static inline thread_local Clock* running = nullptr;

  static constexpr trace::Hooks kHooks{
      [](const trace::Label* label, std::uint64_t source_op) noexcept {
        if (running != nullptr) {
          running->begin(*label, source_op);
        }
      },
      [](const trace::Label* label) noexcept {
        if (running != nullptr) {
          running->end(*label);
        }
      },
      [](const trace::Label* /*label*/, std::int64_t value, const void* subject) noexcept {
        if (running != nullptr) {
          running->counter(value, subject);
        }
      }};
};

}  // namespace diptych::workloads
