#pragma once

#include <atomic>
#include <cstdint>

/// Everything that the framework knows about the profiler. A profiler installs `Hooks`; without one a trace point is a
/// load and a branch; with DIPTYCH_TRACE_POINTS off it is nothing.
namespace diptych::trace {

enum class Category : std::uint8_t { op, kernel, autograd, graph, pass, memory, user };

/// Names a trace point; must outlive every trace that mentions it (static storage, or an OpDef).
struct Label {
  const char* name;
  Category category;
};

/// All functions are called on the thread that does the work, with zones strictly nested per thread. They must not
/// throw.
struct Hooks {
  /// `source_op`: id of the source op, 0 if there is none.
  void (*begin)(const Label* label, std::uint64_t source_op) noexcept;
  void (*end)(const Label* label) noexcept;
  /// A sample of a counter, for example bytes in use. `subject`: what has changed it, for example the block that was
  /// allocated or is to be released; may be null.
  void (*counter)(const Label* label, std::int64_t value, const void* subject) noexcept;
};

#ifdef DIPTYCH_TRACE_POINTS

inline constinit std::atomic<const Hooks*> installed{nullptr};

inline const Hooks* hooks() noexcept { return installed.load(std::memory_order_acquire); }

/// Switches tracing on or off (nullptr) for the whole program. To be called between runs, not in the middle of an op.
inline void install(const Hooks* new_hooks) noexcept { installed.store(new_hooks, std::memory_order_release); }

#else

constexpr const Hooks* hooks() noexcept { return nullptr; }
inline void install(const Hooks*) noexcept {}

#endif

/// A zone lasts as long as this object.
class Zone {
 public:
  explicit Zone(const Label* label, std::uint64_t source_op = 0) noexcept : hooks_(hooks()), label_(label) {
    if (hooks_ != nullptr) [[unlikely]] {
      hooks_->begin(label_, source_op);
    }
  }
  ~Zone() {
    if (hooks_ != nullptr) [[unlikely]] {
      hooks_->end(label_);
    }
  }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

 private:
  const Hooks* hooks_;
  const Label* label_;
};

inline void counter(const Label* label, std::int64_t value, const void* subject = nullptr) noexcept {
  if (const Hooks* active = hooks(); active != nullptr) [[unlikely]] {
    active->counter(label, value, subject);
  }
}

}  // namespace diptych::trace
