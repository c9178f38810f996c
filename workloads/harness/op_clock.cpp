#include "workloads/harness/op_clock.h"

#include "framework/core/context.h"
#include "framework/core/error.h"
#include "framework/core/trace_points.h"
#include "workloads/harness/timing.h"

namespace diptych::workloads {
namespace {

/// One of the two clocks below, on the thread that makes the call. Trace points on other threads don't count.
template <class T>
thread_local T* running = nullptr;

std::size_t ops_since(std::uint64_t start) { return static_cast<std::size_t>(thread_context.dispatches - start); }

struct PassClock {
  PassTimes times;
  std::uint64_t first_op = thread_context.dispatches;
  std::int64_t points = 0;
  int depth = 0;
  OpRange pass = {};
  double begin_seconds = 0;
  std::int64_t begin_points = 0;

  void begin(trace::Category category) {
    ++points;
    if (category == trace::Category::autograd && depth++ == 0) {
      pass.begin = ops_since(first_op);
      begin_points = points;
      begin_seconds = steady_seconds();
    }
  }
  void end(trace::Category category) {
    ++points;
    const bool is_last = category == trace::Category::autograd && --depth == 0;
    if (is_last && times.ops.size() < times.ops.capacity()) {  // trace points don't allocate
      times.seconds += steady_seconds() - begin_seconds;
      times.trace_points_in += static_cast<double>(points - begin_points);
      pass.end = ops_since(first_op);
      times.ops.push_back(pass);
    }
  }
  void counter() { ++points; }
};

struct GapClock {
  std::span<const OpRange> passes;
  std::uint64_t first_op = thread_context.dispatches;
  int depth = 0;
  double seconds = 0;
  double last = 0;  // end of the op or pass before

  void begin(trace::Category category) {
    // An op is counted as dispatched before its zone begins.
    if (depth++ == 0 && (category != trace::Category::op || !continues_pass(ops_since(first_op) - 1))) {
      seconds += steady_seconds() - last;
    }
  }
  void end(trace::Category category) {
    if (--depth == 0 && (category != trace::Category::op || !continues_pass(ops_since(first_op)))) {
      last = steady_seconds();
    }
  }
  void counter() {}

 private:
  /// Op `number` is in a pass, and not its first.
  bool continues_pass(std::size_t number) {
    while (!passes.empty() && passes.front().end <= number) {
      passes = passes.subspan(1);
    }
    return !passes.empty() && passes.front().begin < number;
  }
};

template <class T>
void begin(const trace::Label* label, std::uint64_t /*source_op*/) noexcept {
  if (running<T> != nullptr) {
    running<T>->begin(label->category);
  }
}
template <class T>
void end(const trace::Label* label) noexcept {
  if (running<T> != nullptr) {
    running<T>->end(label->category);
  }
}
template <class T>
void counter(const trace::Label* /*label*/, std::int64_t /*value*/) noexcept {
  if (running<T> != nullptr) {
    running<T>->counter();
  }
}

template <class T>
class Installed {
 public:
  explicit Installed(T& clock) {
    internal_check(trace::hooks() == nullptr, "nothing else is traced");
    running<T> = &clock;
    trace::install(&kHooks);
  }
  ~Installed() {
    trace::install(nullptr);
    running<T> = nullptr;
  }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;

 private:
  static constexpr trace::Hooks kHooks{begin<T>, end<T>, counter<T>};
};

}  // namespace

PassTimes time_passes(const std::function<void()>& call) {
  constexpr std::size_t kMostPasses = 4096;  // the others aren't counted
  PassClock clock;
  clock.times.ops.reserve(kMostPasses);
  const Installed<PassClock> installed(clock);
  const double start = steady_seconds();
  call();
  clock.times.call_seconds = steady_seconds() - start;
  clock.times.trace_points = static_cast<double>(clock.points);
  return std::move(clock.times);
}

double seconds_between_ops(const std::function<void()>& call, std::span<const OpRange> passes) {
  GapClock clock{passes};
  const Installed<GapClock> installed(clock);
  clock.last = steady_seconds();
  call();
  return clock.seconds + (steady_seconds() - clock.last);
}

}  // namespace diptych::workloads
