#include "workloads/harness/cell/cell.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include <fmt/format.h>

#include "framework/core/parallel.h"
#include "framework/core/tensor_body.h"
#include "framework/runtime/exact_metrics.h"
#include "profiler/machine/system_files.h"
#include "workloads/harness/cell/external_arms.h"
#include "workloads/harness/cell/load.h"
#include "workloads/harness/cell/rounds.h"
#include "workloads/harness/cell/turns.h"
#include "workloads/harness/cell/ulp.h"
#include "workloads/harness/probes/arithmetic.h"
#include "workloads/harness/probes/fusion_clock.h"
#include "workloads/harness/probes/limits.h"
#include "workloads/harness/probes/op_split.h"
#include "workloads/harness/probes/usage.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

json to_json(const ExactMetrics& metrics) {
  json exact = json::object();
  for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
    const auto& count = metrics.*metric.count;
    exact[metric.name] = count ? json(*count) : json();
  }
  return exact;
}

json to_json(std::span<const passes::FusionRefusal> refusals) {
  json refused = json::array();
  for (const passes::RefusalGroup& group : passes::grouped(refusals)) {
    refused.push_back({{"producer", group.producer},
                       {"consumer", group.consumer},
                       {"why", passes::name_of(group.why)},
                       {"edges", group.edges}});
    if (group.nanoseconds > 0) {
      refused.back()["nanoseconds"] = group.nanoseconds;
    }
  }
  return refused;
}

class Cell {
 public:
  Cell(const CellPlan& plan, const Progress& progress)
      : plan_(plan), progress_(progress), layout_(plan.settings.layout_seed), external_(plan) {}

  json run() {
    cell_ = {{"validity", {{"agree", true}, {"checks", json::array()}, {"reason", nullptr}}},
             {"metrics", json::array()},
             {"arms", json::array()},
             {"processes", json::array()}};
    if (plan_.turns != nullptr) {
      plan_.turns->take();
    }
    const double steal_before = profiler::steal_seconds(plan_.files);
    const LoadWatch watch(plan_.files, plan_.clock, [this] {
      return own_cpu_seconds() + external_.cpu_seconds() +
             (plan_.turns != nullptr ? plan_.turns->partner_cpu_seconds() : 0);
    });
    choose_vetoes();
    check();
    describe_arms();
    start_external();
    if (is_valid() && plan_.settings.rounds > 0) {
      describe_work();
      const std::vector<MemoryLevel> levels = memory_levels(plan_.files);
      json limits = {{"before", measure_limits(levels, thread_count())}};
      const CallSize size = size_of_call();
      json process = time_rounds(plan_, arms_, external_, layout_, size, progress_);
      if (plan_.turns != nullptr) {
        plan_.turns->take();
        process["turns"] = plan_.turns->has_partner();
      }
      limits["after"] = measure_limits(levels, thread_count());
      process["after"] = plan_.after;
      process["limits"] = std::move(limits);
      const double steal = profiler::steal_seconds(plan_.files) - steal_before;
      process["steal_seconds"] = std::isfinite(steal) ? json(steal) : json();
      process["load"] = watch.finish();
      note_failures();
      take_usage(process);
      if (plan_.turns == nullptr) {  // a gate is for changes, not for causes
        split(process);
        time_fused();
      }
      cell_["processes"].push_back(std::move(process));
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

  /// Of the arms, the last that fuses; null: none does.
  const Arm* fusing_arm() const {
    const Arm* last = nullptr;
    for (const Arm* arm : plan_.arms) {
      const auto is_off = [&](const char* pass) { return arm->pipeline->disabled.contains(pass); };
      const bool fuses =
          arm->pipeline && !std::all_of(passes::kFusingPasses.begin(), passes::kFusingPasses.end(), is_off);
      last = fuses ? arm : last;
    }
    return last;
  }
  std::vector<KernelTiming> fused_kernels(const Arm& arm) {
    progress_("fused kernels");
    constexpr double kBlocks = 10;
    return time_fused_kernels(*plan_.workload, *arm.pipeline, plan_.settings.seed,
                              kBlocks * plan_.settings.block_seconds);
  }

  /// By the first process, so that all of them measure the same graphs.
  void choose_vetoes() {
    vetoed_ = plan_.vetoed;
    const Arm* const arm = fusing_arm();
    if (plan_.settings.veto_losses && plan_.full_check && arm != nullptr) {
      timings_ = fused_kernels(*arm);
      for (const KernelTiming& timing : timings_) {
        if (timing.is_loss()) {
          vetoed_.insert(timing.name());
        }
      }
    }
  }
  /// Whether its graph numbers values as that of fusing_arm() does, before the passes that fuse: they come after all
  /// passes that make new ones.
  bool has_same_values(const Arm& arm) const {
    const auto before_fusion = [](std::set<std::string> disabled) {
      for (const char* step : passes::kLoweringSteps) {
        disabled.erase(step);
      }
      for (const char* pass : passes::kFusingPasses) {
        disabled.erase(pass);
      }
      return disabled;
    };
    return before_fusion(arm.pipeline->disabled) == before_fusion(fusing_arm()->pipeline->disabled);
  }
  const Arm* with_vetoes(const Arm* arm) {
    if (vetoed_.empty() || !arm->pipeline || !has_same_values(*arm)) {
      return arm;
    }
    own_arms_.push_back(*arm);
    own_arms_.back().pipeline->vetoed = vetoed_;
    return &own_arms_.back();
  }
  /// Whether its graph has a fused kernel.
  bool has_fused(const Arm& arm) const {
    return std::any_of(arms_.begin(), arms_.end(), [&](const WarmArm& warm) {
      const ArmInstance& instance = *warm.instance;
      if (instance.arm().name != arm.name || instance.compiled() == nullptr) {
        return false;
      }
      const std::vector<passes::PassRecord>& passes = instance.compiled()->ledger().front().passes;
      return std::any_of(passes.begin(), passes.end(),
                         [](const passes::PassRecord& pass) { return !pass.fused.empty(); });
    });
  }
  void time_fused() {
    const Arm* const arm = fusing_arm();
    if (!plan_.full_check || arm == nullptr || (!plan_.settings.veto_losses && !has_fused(*arm))) {
      return;
    }
    if (!plan_.settings.veto_losses) {
      timings_ = fused_kernels(*arm);
    }
    for (json& described : cell_["arms"]) {
      if (described["name"] == arm->name) {
        described["fused"] = to_json(timings_, vetoed_);
      }
    }
  }

  /// Runs the arms side by side, step by step, and compares their results bit by bit. The first call is timed, because
  /// it is the one that compiles.
  void check() {
    const std::int64_t steps = plan_.full_check ? plan_.workload->check_steps : 1;
    layout_.change();
    for (const Arm* arm : plan_.arms) {
      if (arm->is_external()) {
        continue;  // started once the engine's own arms agree
      }
      engine_.push_back(with_vetoes(arm));
      const double start = plan_.clock();
      auto instance =
          std::make_unique<ArmInstance>(*plan_.workload, *engine_.back(), plan_.settings.seed, plan_.settings.threads);
      arms_.push_back({std::move(instance), elapsed_since(plan_.clock, start)});
    }
    if (arms_.empty()) {
      throw Error("arms of other frameworks alone have nothing to be checked against: add eager or graph to --arms");
    }
    distances_.assign(arms_.size(), 0);
    std::int64_t outputs_compared = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step % 64 == 0) {
        progress_(fmt::format("check {}/{}", step, steps));
      }
      std::vector<Tensor> reference;
      for (std::size_t i = 0; i < arms_.size(); ++i) {
        std::vector<Tensor> outputs = timed_call(arms_[i], step);
        if (i == 0) {
          reference = std::move(outputs);
          if (step == 0) {
            first_outputs_ = reference;
          }
          continue;
        }
        if (outputs.size() != reference.size()) {
          return fail(fmt::format("{} gives {} outputs, {} gives {}", engine_[0]->name, reference.size(),
                                  engine_[i]->name, outputs.size()));
        }
        for (std::size_t k = 0; k < reference.size(); ++k) {
          if (!engine_[i]->exact) {
            if (step == 0 && !measure_distance(i, reference[k], outputs[k])) {
              return fail(fmt::format("output {} of {} and {} are no numbers to compare in step {}", k,
                                      engine_[0]->name, engine_[i]->name, step));
            }
            continue;
          }
          if (!bitwise_equal(reference[k], outputs[k])) {
            return fail(
                fmt::format("output {} of {} and {} differ in step {}", k, engine_[0]->name, engine_[i]->name, step));
          }
          ++outputs_compared;
        }
      }
    }
    const auto exact = std::count_if(engine_.begin(), engine_.end(), [](const Arm* arm) { return arm->exact; });
    note(fmt::format("{} outputs of {} steps bitwise equal between {} arms", outputs_compared, steps, exact));
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      if (!engine_[i]->exact) {
        note(fmt::format("outputs of the first step of {} within {:.0f} ULP of {}", engine_[i]->name, distances_[i],
                         engine_[0]->name));
      }
    }
    compare_states(steps);
    if (plan_.full_check && is_valid()) {
      take_metrics();
    }
  }

  /// For an arm that doesn't keep every bit. Later steps and states drift apart once a last place differs, so they are
  /// judged only by the workload's targets. False if there is no distance.
  bool measure_distance(std::size_t arm, const Tensor& reference, const Tensor& output) {
    const auto distance = ulp_distance(reference, output);
    distances_[arm] = std::max(distances_[arm], distance.value_or(0));
    return distance.has_value();
  }

  std::vector<Tensor> timed_call(WarmArm& arm, std::int64_t step) {
    const double start = plan_.clock();
    std::vector<Tensor> outputs = arm.instance->call(step);
    arm.instance->finish();
    const double seconds = elapsed_since(plan_.clock, start);
    if (step == 0) {
      arm.first_call = seconds;
    } else {
      arm.later_calls.push_back(seconds);
    }
    return outputs;
  }

  /// Other frameworks take part only if the engine's arms agree.
  void start_external() {
    if (!is_valid()) {
      return;
    }
    external_.start(first_outputs_, progress_);
    for (const ExternalArm& arm : external_.arms()) {
      if (arm.runs()) {
        note(fmt::format("outputs of {} within {:.0e} of {}'s largest", arm.name(), kExternalTolerance,
                         engine_[0]->name));
      }
      cell_["arms"].push_back(arm.describe());
    }
  }
  /// Records the arms that failed while they were timed.
  void note_failures() {
    for (json& described : cell_["arms"]) {
      for (const ExternalArm& arm : external_.arms()) {
        if (described["name"] == arm.name() && !arm.runs()) {
          described["failed"] = arm.failure();
        }
      }
    }
  }

  void compare_states(std::int64_t steps) {
    const Variables reference = arms_[0].instance->program().state();
    for (std::size_t i = 1; i < arms_.size(); ++i) {
      const Variables state = arms_[i].instance->program().state();
      if (state.size() != reference.size()) {
        return fail(fmt::format("{} has {} state variables, {} has {}", engine_[0]->name, reference.size(),
                                engine_[i]->name, state.size()));
      }
      for (std::size_t k = 0; k < reference.size() && engine_[i]->exact; ++k) {
        if (!bitwise_equal(reference[k].value(), state[k].value())) {
          return fail(fmt::format("'{}' of {} and {} differ after {} steps", reference[k].name(), engine_[0]->name,
                                  engine_[i]->name, steps));
        }
      }
    }
    if (!reference.empty()) {
      note(fmt::format("{} parameters and optimizer states bitwise equal after {} steps", reference.size(), steps));
    }
  }

  void take_metrics() {
    for (const WarmArm& warm : arms_) {
      const auto& instance = warm.instance;
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

  /// The difference between this arm and the chosen one before it: the causes of all arms in between.
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
    const Arm* before = nullptr;
    for (WarmArm& warm : arms_) {
      ArmInstance* const instance = warm.instance.get();
      json arm = uncounted(instance->arm());
      if (!instance->arm().rung.empty()) {
        arm["rung"] = instance->arm().rung;
      }
      if (instance->arm().pipeline) {
        arm["groups"] = instance->arm().groups;
      }
      if (plan_.settings.threads > 1) {
        arm["threads"] = instance->arm().on_threads ? plan_.settings.threads : thread_count();
      }
      if (!instance->arm().exact) {
        arm["ulp"] = distances_[cell_["arms"].size()];
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
        const double start = plan_.clock();
        const ExactMetrics exact = instance->count(0);
        warm.steady_call = elapsed_since(plan_.clock, start);
        warm.later_calls.push_back(warm.steady_call);
        arm["exact"] = to_json(exact);
        if (const graph::JitFunction* compiled = instance->compiled()) {
          for (const passes::PassRecord& pass : compiled->ledger().front().passes) {
            arm["passes"].push_back({{"name", pass.name},
                                     {"nodes_before", pass.nodes_before},
                                     {"nodes_after", pass.nodes_after},
                                     {"seconds", pass.seconds},
                                     {"changed", pass.changed}});
            if (!pass.refusals.empty()) {
              arm["passes"].back()["refused"] = to_json(pass.refusals);
            }
          }
        }
      }
      cell_["arms"].push_back(std::move(arm));
    }
  }

  /// From the graph with the fewest passes.
  void describe_work() {
    for (const WarmArm& arm : arms_) {
      if (arm.instance->compiled() != nullptr) {
        cell_["work"] = analytic_work(*arm.instance->compiled()->graph());
        return;
      }
    }
  }

  CallSize size_of_call() {
    const auto compiled = std::find_if(arms_.begin(), arms_.end(),
                                       [](const WarmArm& arm) { return arm.instance->compiled() != nullptr; });
    // Of the instance that is captured anyway, if there is one.
    ArmInstance& instance = *(compiled != arms_.end() ? *compiled : arms_.front()).instance;
    CallSize size;
    const std::optional<graph::Graph> graph = captured(instance.program(), plan_.workload->name);
    if (!graph) {
      return size;
    }
    size.nominal_seconds = nominal_seconds(*graph);
    const int rounds = rounds_of(plan_.settings, size.nominal_seconds);
    if (rounds < plan_.settings.rounds) {
      cell_["fewer_rounds"] = {
          {"planned", plan_.settings.rounds}, {"timed", rounds}, {"nominal_call_seconds", size.nominal_seconds}};
    }
    if (!external_.arms().empty()) {
      size.floor = floor_of(*graph);
    }
    return size;
  }

  /// Runs a quarter of a timed block of each arm, after all timing, because counting isn't free.
  void take_usage(json& process) {
    progress_("memory and counters");
    const UsageMeter meter(plan_.files, plan_.system);
    const std::int64_t calls = (process["iterations"].get<std::int64_t>() + 3) / 4;
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      ArmInstance& instance = *arms_[i].instance;
      meter.measure(process["arms"][i], calls, [&] {
        for (std::int64_t step = 0; step < calls; ++step) {
          instance.call(step);
        }
        instance.finish();
      });
    }
  }

  /// Splits what eager does besides its kernels, which is what replay saves.
  void split(json& process) {
    const auto find = [&](const char* name) {
      const auto found = std::find_if(arms_.begin(), arms_.end(),
                                      [&](const WarmArm& arm) { return arm.instance->arm().name == name; });
      return found != arms_.end() ? found->instance.get() : nullptr;
    };
    ArmInstance* eager = find("eager");
    ArmInstance* replay = find("replay");
    if (eager != nullptr && replay != nullptr) {
      progress_("per-op split");
      constexpr double kBlocks = 4;
      const auto make = [this](const Arm& arm) {
        return std::make_unique<ArmInstance>(*plan_.workload, arm, plan_.settings.seed);
      };
      process["op_split"] = split_ops(*eager, *replay, make, kBlocks * plan_.settings.block_seconds);
    }
  }

  const CellPlan& plan_;
  const Progress& progress_;
  json cell_;
  HeapLayout layout_;
  std::set<graph::ValueId> vetoed_;
  std::vector<KernelTiming> timings_;  ///< of the fused kernels of fusing_arm()
  std::deque<Arm> own_arms_;           ///< with vetoes
  std::vector<const Arm*> engine_;     ///< the arms of the plan that are the engine's own
  std::vector<WarmArm> arms_;          ///< instances of these, in the same order
  ExternalArms external_;
  std::vector<Tensor> first_outputs_;  ///< of the first arm
  std::vector<double> distances_;      ///< of the same outputs from the first arm's, in units in the last place
};

}  // namespace

nlohmann::json uncounted(const Arm& arm) {
  return {{"name", arm.name},
          {"description", arm.description},
          {"exact", to_json(ExactMetrics())},
          {"passes", json::array()}};
}

nlohmann::json measure_cell(const CellPlan& plan, const Progress& progress) { return Cell(plan, progress).run(); }

}  // namespace diptych::workloads
