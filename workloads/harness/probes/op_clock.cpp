#include "workloads/harness/probes/op_clock.h"

#include "framework/core/context.h"
#include "framework/core/trace_points.h"
#include "workloads/harness/probes/clock_hooks.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

std::size_t ops_since(std::uint64_t start) { return static_cast<std::size_t>(thread_context.dispatches - start); }

struct PassClock {
  PassTimes times;
  std::uint64_t first_op = thread_context.dispatches;
  std::int64_t points = 0;
  int depth = 0;
  OpRange pass = {};
  double begin_seconds = 0;
  std::int64_t begin_points = 0;

  void begin(const trace::Label& label, std::uint64_t /*source_op*/) {
    ++points;
    if (label.category == trace::Category::autograd && depth++ == 0) {
      pass.begin = ops_since(first_op);
      begin_points = points;
      begin_seconds = steady_seconds();
    }
  }
  void end(const trace::Label& label) {
    ++points;
    const bool is_last = label.category == trace::Category::autograd && --depth == 0;
    if (is_last && times.ops.size() < times.ops.capacity()) {
      times.seconds += steady_seconds() - begin_seconds;
      times.trace_points_in += static_cast<double>(points - begin_points);
      pass.end = ops_since(first_op);
      times.ops.push_back(pass);
    }
  }
  void counter(std::int64_t /*value*/, const void* /*subject*/) { ++points; }
};

}  // namespace

PassTimes time_passes(const std::function<void()>& call) {
  constexpr std::size_t kMostPasses = 4096;  // further passes aren't counted
  PassClock clock;
  clock.times.ops.reserve(kMostPasses);
  const ClockHooks hooks(clock);
  const double start = steady_seconds();
  call();
  clock.times.call_seconds = steady_seconds() - start;
  clock.times.trace_points = static_cast<double>(clock.points);
  return std::move(clock.times);
}

}  // namespace diptych::workloads
