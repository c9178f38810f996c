#include "workloads/harness/probes/op_clock.h"

#include "framework/core/context.h"
#include "framework/core/error.h"
#include "framework/core/trace_points.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

/// For the thread that makes the call. Trace points on other threads don't count.
struct PassClock;
thread_local PassClock* running = nullptr;

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

void begin(const trace::Label* label, std::uint64_t /*source_op*/) noexcept {
  if (running != nullptr) {
    running->begin(label->category);
  }
}
void end(const trace::Label* label) noexcept {
  if (running != nullptr) {
    running->end(label->category);
  }
}
void counter(const trace::Label* /*label*/, std::int64_t /*value*/) noexcept {
  if (running != nullptr) {
    running->counter();
  }
}

class Installed {
 public:
  explicit Installed(PassClock& clock) {
    internal_check(trace::hooks() == nullptr, "nothing else is traced");
    running = &clock;
    trace::install(&kHooks);
  }
  ~Installed() {
    trace::install(nullptr);
    running = nullptr;
  }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;

 private:
  static constexpr trace::Hooks kHooks{begin, end, counter};
};

}  // namespace

PassTimes time_passes(const std::function<void()>& call) {
  constexpr std::size_t kMostPasses = 4096;  // further passes aren't counted
  PassClock clock;
  clock.times.ops.reserve(kMostPasses);
  const Installed installed(clock);
  const double start = steady_seconds();
  call();
  clock.times.call_seconds = steady_seconds() - start;
  clock.times.trace_points = static_cast<double>(clock.points);
  return std::move(clock.times);
}

}  // namespace diptych::workloads
