#include "workloads/harness/cell/rounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "framework/core/rng.h"
#include "workloads/harness/cell/block_watch.h"
#include "workloads/harness/cell/turns.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

constexpr std::size_t kWarmupCalls = 64;  ///< the most that are recorded
constexpr double kWarmupSeconds = 0.2;    ///< the most that an arm may spend on them
constexpr double kMostIterations = 1e7;   ///< of a block
constexpr double kWarmupBlocks = 2;       ///< the most that may be spent on that, for a long enough series
constexpr double kLongCalls = 10;         ///< blocks: of calls that are longer there are fewer rounds
constexpr int kLeastRounds = 5;
constexpr double kFastest =
    100;  ///< times as fast as the engine's fastest: the limit for an external arm's influence on the counts
constexpr double kSlowest = 300;                ///< times the block length: the longest block of an external arm
constexpr double kRenewalShare = 0.25;          ///< of the timed seconds, spent on other layouts of the heap
constexpr std::int64_t kCallsAfterRenewal = 2;  ///< not timed: the first one compiles

/// How much the control workload typically moves from one round to the next. Slower drift doesn't matter: every arm of
/// a round sees it, and it cancels in the ratio.
double typical_move(const std::vector<double>& controls) {
  std::vector<double> moves;
  for (std::size_t i = 1; i < controls.size(); ++i) {
    moves.push_back(std::fabs(std::log(controls[i] / controls[i - 1])));
  }
  return median_of(std::move(moves));
}

class Rounds {
 public:
  Rounds(const CellPlan& plan, std::vector<WarmArm>& arms, ExternalArms& external, HeapLayout& layout,
         const CallSize& size, const Progress& progress)
      : plan_(plan),
        arms_(arms),
        external_(external),
        layout_(layout),
        size_(size),
        progress_(progress),
        block_seconds_(block_seconds_of(plan, external)),
        watch_(plan.files) {}

  json run() {
    warm_up();
    const Schedule own = own_schedule();
    const auto [iterations, count] = plan_.turns != nullptr ? plan_.turns->agree(own) : own;
    json rounds = time_all(iterations, count);
    json process = {{"seed", plan_.settings.process_seed},
                    {"layout_seed", plan_.settings.layout_seed},
                    {"layouts", layouts_},
                    {"iterations", iterations},
                    {"block_seconds", block_seconds_},
                    {"control_drift", typical_move(controls_)},
                    {"blocks", watch_.summary()},
                    {"harness_overhead", harness_seconds(plan_.clock, iterations) / shortest_block_},
                    {"arms", json::array()},
                    {"rounds", std::move(rounds)}};
    for (const WarmArm& arm : arms_) {
      std::vector<double> series = arm.later_calls;
      series.resize(std::min(series.size(), kWarmupCalls));
      const double worst = std::accumulate(arm.later_calls.begin(), arm.later_calls.end(), arm.first_call,
                                           [](double a, double b) { return std::max(a, b); });
      process["arms"].push_back({{"name", arm.instance->arm().name},
                                 {"first_call_seconds", arm.first_call},
                                 {"compile_seconds", arm.instance->compile_seconds()},
                                 {"worst_call_seconds", worst},
                                 {"warmup_seconds", series}});
    }
    external_.finish();
    for (ExternalArm& arm : external_.arms()) {
      json measured = arm.runs() ? arm.measurements() : json();
      if (arm.runs()) {
        process["arms"].push_back(std::move(measured));
      } else {
        take_out(arm.name(), process["rounds"]);
      }
    }
    return process;
  }

 private:
  /// Results are freed inside the block, as they are in a program.
  double time_block(const WarmArm& arm, std::int64_t iterations, double stretch) {
    ArmInstance& instance = *arm.instance;
    return time_calls(
        plan_.clock, iterations, [&](std::int64_t i) { instance.call(next_step_ + i); }, [&] { instance.finish(); },
        stretch);
  }

  /// An arm that failed has no times, not even those from before its failure.
  static void take_out(const std::string& name, json& rounds) {
    for (json& round : rounds) {
      round["seconds"].erase(name);
      std::erase(round["order"].get_ref<json::array_t&>(), json(name));
    }
  }

  // By index: the engine's arms, then the external ones.
  ExternalArm& external(std::size_t index) { return external_.arms()[index - arms_.size()]; }
  ExternalArm::Timed time_block(std::size_t index, std::int64_t iterations) {
    return index < arms_.size()
               ? ExternalArm::Timed{iterations, time_block(arms_[index], iterations, stretch_of(arms_[index]))}
               : external(index).time_block(iterations);
  }
  /// The same, while measuring what others take of the machine.
  ExternalArm::Timed watched_block(std::size_t index, std::int64_t iterations) {
    const bool is_external = index >= arms_.size();
    watch_.begin(threads_of(index));
    const ExternalArm::Timed block = time_block(index, iterations);
    watch_.end(is_external ? BlockWatch::Side::external : BlockWatch::Side::engine, threads_of(index), block.seconds);
    return block;
  }
  std::vector<profiler::ThreadTimes> threads_of(std::size_t index) {
    std::vector<profiler::ThreadTimes> threads = profiler::thread_times(plan_.files, "/proc/self");
    if (index >= arms_.size()) {
      const std::vector<profiler::ThreadTimes> others = external(index).threads();
      threads.insert(threads.end(), others.begin(), others.end());
    }
    return threads;
  }
  const std::string& name_of(std::size_t index) {
    return index < arms_.size() ? arms_[index].instance->arm().name : external(index).name();
  }
  bool runs(std::size_t index) { return index < arms_.size() || external(index).runs(); }

  double stretch_of(const WarmArm& arm) const {
    return plan_.settings.injection.hits(arm.instance->arm().name) ? plan_.settings.injection.time : 0;
  }

  /// Runs each arm for the time of a block, and for up to twice that while its series of first calls is short. An arm
  /// whose calls are longer than a block is already warm.
  void warm_up() {
    progress_("warm-up");
    const double for_series = std::min(kWarmupSeconds, kWarmupBlocks * block_seconds_);
    for (WarmArm& arm : arms_) {
      double spent = arm.steady_call;
      while (spent < block_seconds_ || (spent < for_series && arm.later_calls.size() < kWarmupCalls)) {
        const double seconds = time_block(arm, 1, 0);
        arm.later_calls.push_back(seconds);
        spent += seconds;
        fastest_ = std::min(fastest_, seconds);
      }
      fastest_ = std::min(fastest_, arm.steady_call);
      one_renewal_ += arm.build + arm.first_call + arm.steady_call;
    }
    const double own = fastest_;
    for (ExternalArm& arm : external_.arms()) {
      const double least = arm.warm_up(for_series, block_seconds_, kWarmupCalls, size_.floor);
      fastest_ = arm.runs() ? std::min(fastest_, std::max(least, own / kFastest)) : fastest_;
    }
  }

  /// Recreates all instances elsewhere on the heap, if that costs little compared with the time measured so far.
  void renew() {
    if (renewal_seconds_ + one_renewal_ > kRenewalShare * timed_seconds_) {
      return;
    }
    const double start = plan_.clock();
    std::vector<const Arm*> kinds;
    for (WarmArm& arm : arms_) {
      kinds.push_back(&arm.instance->arm());
      arm.instance.reset();
    }
    layout_.change();
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      arms_[i].instance =
          std::make_unique<ArmInstance>(*plan_.workload, *kinds[i], plan_.settings.seed, plan_.settings.threads);
    }
    for (const WarmArm& arm : arms_) {
      time_block(arm, kCallsAfterRenewal, 0);
    }
    one_renewal_ = elapsed_since(plan_.clock, start);
    renewal_seconds_ += one_renewal_;
    ++layouts_;
  }

  /// One count for all arms, because separate counts would bias the ratio. The fastest arm determines it, so that every
  /// block is long enough.
  std::int64_t shared_iterations() const {
    return static_cast<std::int64_t>(std::clamp(std::ceil(block_seconds_ / fastest_), 1.0, kMostIterations));
  }

  /// An external arm whose blocks would be very much longer than the others' drops out, because all would wait for it.
  Schedule own_schedule() {
    const std::int64_t iterations = shared_iterations();
    for (ExternalArm& arm : external_.arms()) {
      const double block = arm.latest_call() * static_cast<double>(iterations);
      if (arm.runs() && block > kSlowest * block_seconds_ && iterations > 1) {
        arm.fail(
            fmt::format("too slow for this cell: a block of {} calls, which the fastest arm does in {:.3g} s, "
                        "would take it {:.3g} s",
                        iterations, block_seconds_, block));
      }
    }
    return {iterations, rounds_of(plan_.settings, size_.nominal_seconds)};
  }

  json time_all(std::int64_t iterations, std::int64_t count) {
    json rounds = json::array();
    Rng rng(plan_.settings.process_seed);
    std::vector<std::size_t> order(arms_.size() + external_.arms().size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::int64_t round = 0; round < count; ++round) {
      progress_(fmt::format("round {}/{}", round + 1, count));
      // A random order; every second round reverses the one before (ABBA), so that a trend cancels in the pair.
      if (round % 2 == 0) {
        for (std::size_t i = order.size(); i > 1; --i) {
          std::swap(order[i - 1], order[rng.below(i)]);
        }
      } else {
        std::reverse(order.begin(), order.end());
      }
      if (plan_.turns != nullptr) {
        plan_.turns->begin_round();
      }
      if (round > 0) {
        renew();
      }
      controls_.push_back(control_seconds(plan_.clock));
      json entry = {{"order", json::array()}, {"seconds", json::object()}};
      for (const std::size_t i : order) {
        const ExternalArm::Timed block = runs(i) ? watched_block(i, iterations) : ExternalArm::Timed{};
        if (!runs(i)) {
          continue;
        }
        const std::string& name = name_of(i);
        shortest_block_ = i < arms_.size() ? std::min(shortest_block_, block.seconds) : shortest_block_;
        timed_seconds_ += block.seconds;
        entry["order"].push_back(name);
        entry["seconds"][name] = block.seconds / static_cast<double>(block.calls);
      }
      if (plan_.turns != nullptr) {
        plan_.turns->end_round(round);
      }
      next_step_ += iterations;
      rounds.push_back(std::move(entry));
    }
    return rounds;
  }

  const CellPlan& plan_;
  std::vector<WarmArm>& arms_;
  ExternalArms& external_;
  HeapLayout& layout_;
  const CallSize& size_;
  const Progress& progress_;
  double block_seconds_;
  BlockWatch watch_;
  std::vector<double> controls_;
  int layouts_ = 1;
  double one_renewal_ = 0;  ///< seconds of the latest renewal; before the first, an estimate
  double renewal_seconds_ = 0;
  double timed_seconds_ = 0;
  double fastest_ = std::numeric_limits<double>::infinity();
  double shortest_block_ = std::numeric_limits<double>::infinity();
  std::int64_t next_step_ = 0;
};

}  // namespace

double block_seconds_of(const CellPlan& plan, const ExternalArms& external) {
  const std::vector<ExternalArm>& arms = external.arms();
  const bool has_others = std::any_of(arms.begin(), arms.end(), [](const ExternalArm& arm) { return arm.runs(); });
  return has_others ? std::max(plan.settings.block_seconds, kLeastBlockSeconds) : plan.settings.block_seconds;
}

int rounds_of(const CellSettings& settings, double nominal_seconds) {
  const double share = kLongCalls * settings.block_seconds / nominal_seconds;
  return share < 1 ? std::max(static_cast<int>(settings.rounds * share), std::min(settings.rounds, kLeastRounds))
                   : settings.rounds;
}

json time_rounds(const CellPlan& plan, std::vector<WarmArm>& arms, ExternalArms& external, HeapLayout& layout,
                 const CallSize& size, const Progress& progress) {
  return Rounds(plan, arms, external, layout, size, progress).run();
}

}  // namespace diptych::workloads
