#include "tests/support/machine_watch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include "profiler/machine/system_files.h"
#include "reports/statistics/statistics.h"
#include "workloads/harness/cell/load.h"

namespace diptych::testing {

namespace {

/// The shortest time of the loop in this process. The very shortest may be an error of the clock.
class Best {
 public:
  void add(double seconds) {
    if (seconds < two_[0]) {
      two_ = {seconds, two_[0]};
    } else {
      two_[1] = std::min(two_[1], seconds);
    }
  }
  double seconds() const { return two_[1]; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  std::array<double, 2> two_ = {kNever, kNever};
};
Best best;

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Independent chains, as many as keep the ports for arithmetic busy: a second thread on the core takes from it.
double seconds_of_loop() {
  constexpr int kSteps = 10'000;
  double a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  std::uint64_t p = 1, q = 2, r = 3, s = 4;
  const double start = thread_seconds();
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    a += 1.5, b += 1.5, c += 1.5, d += 1.5, e += 1.5, f += 1.5, g += 1.5, h += 1.5;
    p = (p << 1U) ^ i, q = (q << 1U) ^ i, r = (r << 1U) ^ i, s = (s << 1U) ^ i;
    asm volatile(""  // in registers, and each step for itself
                 : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h), "+r"(p), "+r"(q), "+r"(r),
                   "+r"(s));
  }
  return thread_seconds() - start;
}

}  // namespace

double core_share(const std::vector<double>& seconds, double best_seconds) {
  if (seconds.empty()) {
    return 1;
  }
  return std::min(1.0, best_seconds / reports::median(seconds));
}

struct MachineWatch::Start {
  workloads::LoadWatch load;
  double steal = profiler::steal_seconds();
  double time = workloads::steady_seconds();
};

std::string MachineState::text() const {
  return fmt::format("steal {:.0f} %, others on {:.2f} CPUs, core at {:.0f} %, load {:.1f}", 100 * steal, others_cpu,
                     100 * core, load);
}

double cpu_seconds_with_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return workloads::own_cpu_seconds() + seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

MachineWatch::MachineWatch(std::function<double()> own_seconds)
    : start_(
          new Start{workloads::LoadWatch(profiler::SystemFiles(), workloads::steady_seconds, std::move(own_seconds))}) {
}
MachineWatch::~MachineWatch() = default;

void MachineWatch::sample_core() {
  const double seconds = std::min(seconds_of_loop(), seconds_of_loop());  // an interrupt makes one of them longer
  best.add(seconds);
  core_seconds_.push_back(seconds);
}

MachineState MachineWatch::state() const {
  const nlohmann::json load = start_->load.finish();
  const auto known = [&](const char* name) { return load[name].is_number() ? load[name].get<double>() : 0; };
  const double passed = workloads::steady_seconds() - start_->time;
  const double steal = (profiler::steal_seconds() - start_->steal) / passed;
  // A span may begin and end within a tick of each CPU, so that much can't be attributed to others.
  const double unknown = known("cpus") / static_cast<double>(sysconf(_SC_CLK_TCK)) / passed;
  return {std::isfinite(steal) ? steal : 0, std::max(0.0, known("others_cpu") - unknown), known("after"),
          core_share(core_seconds_, best.seconds())};
}

}  // namespace diptych::testing
