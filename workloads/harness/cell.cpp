#include "workloads/harness/cell.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "framework/core/rng.h"
#include "framework/core/tensor_body.h"
#include "profiler/system_files.h"
#include "workloads/harness/op_split.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A fixed amount of integer work: if its time moves, the machine did.
double control_seconds() {
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const double start = now_seconds();
    std::uint64_t x = 88172645463325252ULL;
    for (int i = 0; i < 200000; ++i) {
      x ^= x << 13U;
      x ^= x >> 7U;
      x ^= x << 17U;
    }
    asm volatile("" : : "r"(x));
    best = std::min(best, now_seconds() - start);
  }
  return best;
}

class Cell {
 public:
  Cell(const CellPlan& plan, const Progress& progress) : plan_(plan), progress_(progress) {}

  json run() {
    cell_ = {{"validity", {{"agree", true}, {"checks", json::array()}, {"reason", nullptr}}},
             {"metrics", json::array()},
             {"arms", json::array()},
             {"processes", json::array()}};
    const double steal_before = profiler::steal_seconds();
    check();
    describe_arms();
    if (is_valid()) {
      time_rounds();
      const double steal = profiler::steal_seconds() - steal_before;
      split();
      process_["control_drift"] = control_drift();
      process_["steal_seconds"] = std::isfinite(steal) ? json(steal) : json(0.0);
      cell_["processes"].push_back(process_);
    }
    return cell_;
  }

 private:
  void fail(const std::string& reason) {
    cell_["validity"]["agree"] = false;
    cell_["validity"]["reason"] = reason;
  }
  bool is_valid() const { return cell_["validity"]["agree"] == true; }
  void note(std::string text) { cell_["validity"]["checks"].push_back(std::move(text)); }

  /// Runs the arms side by side, step by step, and compares what they give, bit by bit. The first call is timed: it is
  /// the one that compiles.
  void check() {
    const std::int64_t steps = plan_.full_check ? plan_.workload->check_steps : 1;
    for (const Arm* arm : plan_.arms) {
      instances_.push_back(std::make_unique<ArmInstance>(*plan_.workload, *arm, plan_.seed));
      first_call_.push_back(0);
    }
    std::int64_t outputs_compared = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step % 64 == 0) {
        progress_(fmt::format("check {}/{}", step, steps));
      }
      std::vector<Tensor> reference;
      for (std::size_t i = 0; i < instances_.size(); ++i) {
        const double start = now_seconds();
        std::vector<Tensor> outputs = instances_[i]->call(step);
        if (step == 0) {
          instances_[i]->finish();
          first_call_[i] = now_seconds() - start;
        }
        if (i == 0) {
          reference = std::move(outputs);
          continue;
        }
        if (outputs.size() != reference.size()) {
          return fail(fmt::format("{} gives {} outputs, {} gives {}", plan_.arms[0]->name, reference.size(),
                                  plan_.arms[i]->name, outputs.size()));
        }
        for (std::size_t k = 0; k < reference.size(); ++k) {
          if (!bitwise_equal(reference[k], outputs[k])) {
            return fail(fmt::format("output {} of {} and {} differ in step {}", k, plan_.arms[0]->name,
                                    plan_.arms[i]->name, step));
          }
          ++outputs_compared;
        }
      }
    }
    note(fmt::format("{} outputs of {} steps bitwise equal between {} arms", outputs_compared, steps,
                     instances_.size()));
    compare_states(steps);
    if (plan_.full_check && is_valid()) {
      take_metrics();
    }
  }

  void compare_states(std::int64_t steps) {
    const Variables reference = instances_[0]->program().state();
    for (std::size_t i = 1; i < instances_.size(); ++i) {
      const Variables state = instances_[i]->program().state();
      if (state.size() != reference.size()) {
        return fail(fmt::format("{} has {} state variables, {} has {}", plan_.arms[0]->name, reference.size(),
                                plan_.arms[i]->name, state.size()));
      }
      for (std::size_t k = 0; k < reference.size(); ++k) {
        if (!bitwise_equal(reference[k].value(), state[k].value())) {
          return fail(fmt::format("'{}' of {} and {} differ after {} steps", reference[k].name(), plan_.arms[0]->name,
                                  plan_.arms[i]->name, steps));
        }
      }
    }
    if (!reference.empty()) {
      note(fmt::format("{} parameters and optimizer states bitwise equal after {} steps", reference.size(), steps));
    }
  }

  void take_metrics() {
    for (const auto& instance : instances_) {
      const std::vector<Metric> metrics = instance->program().metrics();
      for (const Metric& metric : metrics) {
        cell_["metrics"].push_back(
            {{"name", metric.name}, {"arm", instance->arm().name}, {"value", metric.value}, {"unit", metric.unit}});
      }
      for (const Workload::Target& target : plan_.workload->targets) {
        const auto metric = std::find_if(metrics.begin(), metrics.end(),
                                         [&](const Metric& candidate) { return candidate.name == target.metric; });
        if (metric == metrics.end()) {
          fail(fmt::format("{} reports no {}, which has to be at least {:.4g}", instance->arm().name, target.metric,
                           target.at_least));
        } else if (!(metric->value >= target.at_least)) {
          fail(fmt::format("{} of {} is {:.4g}, below {:.4g}", metric->name, instance->arm().name, metric->value,
                           target.at_least));
        }
      }
    }
  }

  /// How much the control workload typically moves from one round to the next. Slower drift is no matter: every arm of
  /// a round sees it, and the ratio cancels it.
  double control_drift() const {
    std::vector<double> moves;
    for (std::size_t i = 1; i < controls_.size(); ++i) {
      moves.push_back(std::fabs(std::log(controls_[i] / controls_[i - 1])));
    }
    std::sort(moves.begin(), moves.end());
    return moves.empty() ? 0 : moves[moves.size() / 2];
  }

  /// What is between the arm before (of those that were chosen) and this one: the causes of all arms in between.
  static std::string cause_of(const Arm& arm, const Arm* before) {
    if (!arm.in_ladder) {
      return arm.cause;
    }
    std::string causes;
    bool between = before == nullptr;
    for (const Arm& candidate : all_arms()) {
      if (between && before != nullptr && candidate.in_ladder && !candidate.cause.empty()) {
        causes += fmt::format("{}{}", causes.empty() ? "" : ", ", candidate.cause);
      }
      if (candidate.name == arm.name) {
        break;
      }
      between = between || candidate.name == before->name;
    }
    return causes;
  }

  void describe_arms() {
    const auto optional = [](const std::optional<std::int64_t>& value) { return value ? json(*value) : json(nullptr); };
    const Arm* before = nullptr;
    for (const auto& instance : instances_) {
      json arm = {{"name", instance->arm().name},
                  {"description", instance->arm().description},
                  {"exact",
                   {{"nodes", nullptr},
                    {"dispatches", nullptr},
                    {"allocations", nullptr},
                    {"peak_bytes", nullptr},
                    {"planned_peak_bytes", nullptr},
                    {"lower_bound_bytes", nullptr}}},
                  {"passes", json::array()}};
      if (!instance->arm().rung.empty()) {
        arm["rung"] = instance->arm().rung;
      }
      if (instance->arm().pipeline) {
        arm["groups"] = instance->arm().groups;
      }
      if (const std::string cause = cause_of(instance->arm(), before); !cause.empty()) {
        arm["cause"] = cause;
      }
      if (instance->arm().in_ladder) {
        before = &instance->arm();
      } else {
        arm["in_ladder"] = false;
      }
      if (is_valid()) {
        const double start = now_seconds();
        const ExactMetrics exact = instance->count(0);
        steady_call_.push_back(now_seconds() - start);
        arm["exact"] = {{"nodes", optional(exact.nodes)},
                        {"dispatches", exact.dispatches},
                        {"allocations", exact.allocations},
                        {"peak_bytes", exact.peak_bytes},
                        {"planned_peak_bytes", optional(exact.planned_peak_bytes)},
                        {"lower_bound_bytes", optional(exact.lower_bound_bytes)}};
        if (const graph::JitFunction* compiled = instance->compiled()) {
          for (const passes::PassRecord& pass : compiled->ledger().front().passes) {
            arm["passes"].push_back({{"name", pass.name},
                                     {"nodes_before", pass.nodes_before},
                                     {"nodes_after", pass.nodes_after},
                                     {"seconds", pass.seconds},
                                     {"changed", pass.changed}});
          }
        }
      }
      cell_["arms"].push_back(std::move(arm));
    }
  }

  /// Seconds of `iterations` calls. Results die inside the block, as they do in a program.
  double time_block(ArmInstance& instance, std::int64_t iterations) {
    const double start = now_seconds();
    for (std::int64_t i = 0; i < iterations; ++i) {
      instance.call(next_step_ + i);
    }
    instance.finish();
    return now_seconds() - start;
  }

  void time_rounds() {
    // One shared iteration count: separate ones would bias the ratio. From the fastest arm, so that every block is long
    // enough; and each arm's slowest call here is the warm-up's worst.
    std::vector<double> worst(instances_.size());
    double fastest = 1e9;
    progress_("warm-up");
    for (std::size_t i = 0; i < instances_.size(); ++i) {
      worst[i] = std::max(first_call_[i], steady_call_[i]);
      double best = steady_call_[i];
      // An arm whose calls are longer than a block has warmed up by now.
      for (double spent = steady_call_[i]; spent < plan_.block_seconds;) {
        const double seconds = time_block(*instances_[i], 1);
        worst[i] = std::max(worst[i], seconds);
        best = std::min(best, seconds);
        spent += seconds;
      }
      fastest = std::min(fastest, best);
    }
    constexpr double kMost = 1e7;
    const auto iterations = static_cast<std::int64_t>(std::clamp(std::ceil(plan_.block_seconds / fastest), 1.0, kMost));

    json rounds = json::array();
    Rng rng(plan_.process_seed);
    std::vector<std::size_t> order(instances_.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    for (int round = 0; round < plan_.rounds; ++round) {
      progress_(fmt::format("round {}/{}", round + 1, plan_.rounds));
      // A random order, and in every second round the one before reversed (ABBA): a trend cancels in the pair.
      if (round % 2 == 0) {
        for (std::size_t i = order.size(); i > 1; --i) {
          std::swap(order[i - 1], order[rng.below(i)]);
        }
      } else {
        std::reverse(order.begin(), order.end());
      }
      controls_.push_back(control_seconds());
      json entry = {{"order", json::array()}, {"seconds", json::object()}};
      for (std::size_t i : order) {
        const std::string& name = instances_[i]->arm().name;
        entry["order"].push_back(name);
        entry["seconds"][name] = time_block(*instances_[i], iterations) / static_cast<double>(iterations);
      }
      next_step_ += iterations;
      rounds.push_back(std::move(entry));
    }
    process_ = {{"seed", plan_.process_seed}, {"iterations", iterations}, {"arms", json::array()}, {"rounds", rounds}};
    for (std::size_t i = 0; i < instances_.size(); ++i) {
      process_["arms"].push_back({{"name", instances_[i]->arm().name},
                                  {"first_call_seconds", first_call_[i]},
                                  {"compile_seconds", instances_[i]->compile_seconds()},
                                  {"worst_call_seconds", worst[i]}});
    }
  }

  /// What eager does besides its kernels, which is what replay saves.
  void split() {
    const auto find = [&](const char* name) {
      const auto found = std::find_if(instances_.begin(), instances_.end(),
                                      [&](const auto& instance) { return instance->arm().name == name; });
      return found != instances_.end() ? found->get() : nullptr;
    };
    ArmInstance* eager = find("eager");
    ArmInstance* replay = find("replay");
    if (eager != nullptr && replay != nullptr) {
      progress_("per-op split");
      constexpr double kBlocks = 4;
      process_["op_split"] = split_ops(*eager, *replay, kBlocks * plan_.block_seconds);
    }
  }

  const CellPlan& plan_;
  const Progress& progress_;
  json cell_;
  json process_;
  std::vector<std::unique_ptr<ArmInstance>> instances_;
  std::vector<double> first_call_;
  std::vector<double> steady_call_;
  std::vector<double> controls_;
  std::int64_t next_step_ = 0;
};

}  // namespace

nlohmann::json measure_cell(const CellPlan& plan, const Progress& progress) { return Cell(plan, progress).run(); }

}  // namespace diptych::workloads
