#include "workloads/harness/cell/block_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace diptych::workloads {
namespace {

using nlohmann::json;
using profiler::MachineTimes;
using profiler::ThreadTimes;

constexpr double kUnknownTime = std::numeric_limits<double>::quiet_NaN();

/// The times of one thread at both ends of a block.
struct Ends {
  ThreadTimes before, after;
  double ran() const { return after.ran - before.ran; }
};

/// Threads that started during the block began at zero; nothing is known of threads that ended.
std::vector<Ends> matched(const std::vector<ThreadTimes>& before, const std::vector<ThreadTimes>& after) {
  std::vector<Ends> threads;
  for (const ThreadTimes& thread : after) {
    const auto found =
        std::find_if(before.begin(), before.end(), [&](const ThreadTimes& other) { return other.id == thread.id; });
    threads.push_back({found != before.end() ? *found : ThreadTimes{thread.id, thread.cpu}, thread});
  }
  return threads;
}

double stolen_from(const std::set<int>& cpus, const MachineTimes& before, const MachineTimes& after) {
  double stolen = 0;
  for (const int cpu : cpus) {
    const auto first = before.cpus.find(cpu);
    const auto last = after.cpus.find(cpu);
    if (first == before.cpus.end() || last == after.cpus.end()) {
      return kUnknownTime;
    }
    stolen += last->second.stolen - first->second.stolen;
  }
  return stolen / static_cast<double>(cpus.size());
}

}  // namespace

void BlockWatch::begin(std::vector<ThreadTimes> threads) {
  before_ = {profiler::machine_times(files_), std::move(threads)};
}

void BlockWatch::end(Side side, const std::vector<ThreadTimes>& threads, double seconds) {
  const std::optional<MachineTimes> after = profiler::machine_times(files_);
  const std::vector<Ends> ends = matched(before_.threads, threads);
  seconds_ += seconds;
  engine_seconds_ += side == Side::engine ? seconds : 0;
  const auto busiest =
      std::max_element(ends.begin(), ends.end(), [](const Ends& a, const Ends& b) { return a.ran() < b.ran(); });
  const bool known = after && before_.machine && busiest != ends.end();
  stolen_ += known ? stolen_from({busiest->before.cpu, busiest->after.cpu}, *before_.machine, *after) : kUnknownTime;
  if (side == Side::engine) {
    waited_ += busiest != ends.end() ? busiest->after.waited - busiest->before.waited : kUnknownTime;
  }
  double own = 0;
  for (const Ends& thread : ends) {
    own += thread.ran();
  }
  others_ += known ? after->all.busy - before_.machine->all.busy - own : kUnknownTime;
}

json BlockWatch::summary() const {
  json blocks = {{"seconds", seconds_},
                 {"steal_seconds", nullptr},
                 {"waited_share", nullptr},
                 {"others_cpu", nullptr},
                 {"tick_seconds", profiler::tick_seconds()}};
  const auto set = [&](const char* name, double value, double scale) {
    if (std::isfinite(value) && scale > 0) {
      // The difference of values rounded to ticks may come out below zero.
      blocks[name] = std::max(0.0, value) / scale;
    }
  };
  set("steal_seconds", stolen_, seconds_ > 0 ? 1 : 0);
  set("waited_share", waited_, engine_seconds_);
  set("others_cpu", others_, seconds_);
  if (blocks["steal_seconds"].is_null() || blocks["waited_share"].is_null() || blocks["others_cpu"].is_null()) {
    blocks["reason"] = "/proc/stat or the threads of /proc can't be read";
  }
  return blocks;
}

}  // namespace diptych::workloads
