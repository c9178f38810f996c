#include "profiler/trace/tracer.h"

#include <atomic>
#include <mutex>

#include "framework/core/error.h"
#include "profiler/trace/trace_session.h"

namespace diptych::profiler {

namespace {

/// Never destroyed: a thread may still pass a trace point while the program exits.
struct Registry {
  std::mutex mutex;
  std::shared_ptr<TraceSession> session;
  std::uint64_t last_generation = 0;
};

Registry& registry() {
  static auto& instance = *new Registry;
  return instance;
}

/// The session that is recording; 0 for none. A thread with another number must attach again.
constinit std::atomic<std::uint64_t> active_generation{0};

/// Plain data, so that the hot path reads it without an initialisation guard.
struct ThreadSlot {
  ThreadBuffer* buffer = nullptr;
  std::uint64_t generation = 0;
  bool exiting = false;
};
constinit thread_local ThreadSlot slot;

/// Keeps the session alive for as long as this thread may write to it.
struct ThreadOwner {
  std::shared_ptr<TraceSession> session;
  ~ThreadOwner() { slot = {nullptr, 0, true}; }
};
thread_local ThreadOwner owner;

[[gnu::noinline]] ThreadBuffer* attach() noexcept {
  if (slot.exiting || active_generation.load(std::memory_order_relaxed) == 0) {
    return nullptr;
  }
  try {
    const std::lock_guard lock(registry().mutex);
    if (registry().session == nullptr) {
      return nullptr;
    }
    ThreadBuffer& buffer = registry().session->add_thread();
    owner.session = registry().session;
    slot = {&buffer, active_generation.load(std::memory_order_relaxed), false};
    return &buffer;
  } catch (...) {
    return nullptr;  // out of memory: this thread isn't recorded until its next zone
  }
}

bool is_current() noexcept {
  return slot.buffer != nullptr && slot.generation == active_generation.load(std::memory_order_relaxed);
}

void on_begin(const trace::Label* label, std::uint64_t source_op) noexcept {
  if (ThreadBuffer* buffer = is_current() ? slot.buffer : attach(); buffer != nullptr) [[likely]] {
    buffer->begin_zone(label, source_op);
  }
}

void on_end(const trace::Label* label) noexcept {
  if (is_current()) [[likely]] {
    slot.buffer->end_zone(label);
  }
}

void on_counter(const trace::Label* label, std::int64_t value, const void* /*subject*/) noexcept {
  if (ThreadBuffer* buffer = is_current() ? slot.buffer : attach(); buffer != nullptr) [[likely]] {
    buffer->sample(label, value);
  }
}

void ignore_counter(const trace::Label* /*label*/, std::int64_t /*value*/, const void* /*subject*/) noexcept {}

constexpr trace::Hooks tracer_hooks{on_begin, on_end, on_counter};
constexpr trace::Hooks zone_hooks{on_begin, on_end, ignore_counter};

}  // namespace

Tracer::Tracer(TracerOptions options) noexcept : options_(options) {}

Tracer::~Tracer() {
  if (active()) {
    trace::install(nullptr);
    const std::lock_guard lock(registry().mutex);
    active_generation.store(0, std::memory_order_relaxed);
    registry().session.reset();
  }
}

void Tracer::start() {
  const std::lock_guard lock(registry().mutex);
  if (registry().session != nullptr) {
    throw Error("tracer: another tracer is active; stop it first");
  }
  session_ = std::make_shared<TraceSession>(options_.max_bytes);
  registry().session = session_;
  session_->mark_start();
  active_generation.store(++registry().last_generation, std::memory_order_relaxed);
  resume();
}

void Tracer::pause() noexcept {
  if (active()) {
    trace::install(nullptr);
  }
}

void Tracer::resume() noexcept {
  if (active()) {
    trace::install(options_.counters ? &tracer_hooks : &zone_hooks);
  }
}

Trace Tracer::stop() {
  if (!active()) {
    throw Error("tracer: stop() without start()");
  }
  trace::install(nullptr);
  const std::uint64_t now = ticks();
  {
    const std::lock_guard lock(registry().mutex);
    active_generation.store(0, std::memory_order_relaxed);
    registry().session.reset();
  }
  const std::shared_ptr<TraceSession> session = std::move(session_);
  session_.reset();
  return session->collect(now);
}

}  // namespace diptych::profiler
