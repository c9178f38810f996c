#include "cli/aligned_profile.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "profiler/trace/split_steps.h"
#include "reports/run/json_access.h"
#include "workloads/harness/probes/op_split.h"

namespace diptych::cli {
namespace {

/// One zone of an op, without what is inside it and what tracing it took.
struct OpZone {
  std::string name;
  std::uint64_t traced = 0;  ///< the trace's source op; 0 in eager
  double seconds = 0;
};

struct StepTimes {
  std::vector<OpZone> ops;  ///< in order of time
  double tape_seconds = 0;
  double total_seconds = 0;
};

/// The time between a zone's own stamps, less what its children and tracing take: negative, if tracing took less than
/// it does on average.
std::vector<double> own_seconds(const profiler::Trace& trace, const profiler::TracerOverhead& overhead) {
  std::vector<double> seconds;
  seconds.reserve(trace.zones.size());
  for (const profiler::Trace::Zone& zone : trace.zones) {
    seconds.push_back(static_cast<double>(zone.duration_ns()) - overhead.inside_ns);
  }
  for (const profiler::Trace::Zone& zone : trace.zones) {
    if (zone.parent != profiler::Trace::no_parent) {
      seconds[static_cast<std::size_t>(zone.parent)] -=
          static_cast<double>(zone.duration_ns()) + overhead.enabled_ns - overhead.inside_ns;
    }
  }
  for (double& each : seconds) {
    each *= 1e-9;
  }
  return seconds;
}

/// Ops that would have taken less than nothing took nothing, and the others as much less as keeps the sum: where an op
/// takes less than a zone, leaving out what is negative would make all of them together up to twice as long.
void make_positive(StepTimes& step) {
  double sum = 0;
  double positive = 0;
  for (const OpZone& op : step.ops) {
    sum += op.seconds;
    positive += std::max(0.0, op.seconds);
  }
  const double scale = positive > 0 ? std::max(0.0, sum) / positive : 0;
  for (OpZone& op : step.ops) {
    op.seconds = std::max(0.0, op.seconds) * scale;
  }
  step.tape_seconds = std::max(0.0, step.tape_seconds);
  step.total_seconds = std::max(step.total_seconds, std::max(0.0, sum) + step.tape_seconds);
}

std::vector<StepTimes> times_of_steps(const profiler::Trace& trace, const profiler::TracerOverhead& overhead) {
  const std::vector<std::size_t> steps = profiler::steps_of(trace);
  const std::vector<double> seconds = own_seconds(trace, overhead);
  std::vector<std::size_t> order(trace.zones.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return trace.zones[a].begin_ns < trace.zones[b].begin_ns; });
  std::vector<StepTimes> times(steps.size());
  std::size_t next = 0;  // the step behind the one that zones lie in
  for (const std::size_t i : order) {
    while (next < steps.size() && trace.zones[steps[next]].begin_ns <= trace.zones[i].begin_ns) {
      ++next;
    }
    if (next == 0) {
      continue;
    }
    StepTimes& step = times[next - 1];
    const profiler::Trace::Zone& zone = trace.zones[i];
    const profiler::Trace::Label& label = trace.label_of(zone);
    if (zone.thread == trace.zones[steps[next - 1]].thread) {
      step.total_seconds += seconds[i];
    }
    if (label.category == trace::Category::op) {
      step.ops.push_back({label.name, zone.source_op, seconds[i]});
    } else if (label.category == trace::Category::autograd) {
      step.tape_seconds += seconds[i];
    }
  }
  std::for_each(times.begin(), times.end(), make_positive);
  return times;
}

/// The half whose durations lie in the middle: what others take of the machine makes some steps long.
std::vector<StepTimes> middle_half(std::vector<StepTimes> steps) {
  std::stable_sort(steps.begin(), steps.end(),
                   [](const StepTimes& a, const StepTimes& b) { return a.total_seconds < b.total_seconds; });
  const auto quarter = static_cast<std::ptrdiff_t>(steps.size() / 4);
  return {std::make_move_iterator(steps.begin() + quarter), std::make_move_iterator(steps.end() - quarter)};
}

std::vector<std::string> names_of(const StepTimes& step) {
  std::vector<std::string> names;
  for (const OpZone& op : step.ops) {
    names.push_back(op.name);
  }
  return names;
}

/// In eager, an op is a kernel of its own. `ops` are ordered by id.
std::vector<reports::OpWork> work_alone(const std::vector<reports::SourceOp>& ops, std::uint64_t id) {
  const auto op = std::lower_bound(
      ops.begin(), ops.end(), id, [](const reports::SourceOp& each, std::uint64_t wanted) { return each.id < wanted; });
  return op != ops.end() && op->id == id && op->work ? std::vector{*op->work} : std::vector<reports::OpWork>{};
}

}  // namespace

AlignedTraces::AlignedTraces(const workloads::Workload& workload, const AlignedRequest& request)
    : workload_(workload), request_(request) {
  make_instances();
  overhead_ = profiler::measure_overhead();
  trace();
  capture();
  profile_.ops = reports::source_ops_of(captured_);
  links_ = reports::op_links(captured_);
  has_control_flow_ = reports::has_control_flow(captured_);
  for (std::size_t arm = 0; arm < request_.arms.size(); ++arm) {
    describe_arm(arm);
  }
}

void AlignedTraces::make_instances() {
  for (const workloads::Arm* arm : request_.arms) {
    arms_.push_back(*arm);
    std::vector<GraphStage>& stages = stages_.emplace_back();
    if (arms_.back().pipeline) {
      arms_.back().pipeline->observe = [&stages](const std::string& stage, const graph::Graph& graph, bool changed) {
        if (stage == "captured") {
          stages.clear();  // of an earlier signature
        }
        stages.push_back({stage, graph, changed});
      };
    }
    instances_.push_back(std::make_unique<workloads::ArmInstance>(workload_, arms_.back(), request_.seed));
  }
}

void AlignedTraces::capture() {
  const auto compiled =
      std::find_if(stages_.begin(), stages_.end(), [](const std::vector<GraphStage>& each) { return !each.empty(); });
  if (compiled != stages_.end()) {
    captured_ = compiled->front().graph;
    return;
  }
  workloads::ArmInstance replay(workload_, *workloads::find_arm("replay"), request_.seed);
  replay.call(0);
  captured_ = *compiled_graph(replay);
}

reports::CompiledOps AlignedTraces::compiled_ops_of(std::size_t arm) const {
  std::vector<reports::StageGraph> stages;
  for (const GraphStage& stage : stages_[arm]) {
    stages.push_back({stage.name, &stage.graph});
  }
  reports::CompiledOps ops = reports::compiled_ops(stages);
  const graph::JitFunction* const function = instances_[arm]->compiled();
  if (function != nullptr && function->executable() != nullptr) {
    reports::note_placed_concats(*stages.back().graph, function->executable()->values(), ops);
  }
  return ops;
}

void AlignedTraces::describe_arm(std::size_t arm) {
  reports::ProfiledArm described{arms_[arm].name, {}, {}, 0, 0};
  const bool is_compiled = !stages_[arm].empty();
  const reports::CompiledOps& compiled =
      compiled_.emplace_back(is_compiled ? compiled_ops_of(arm) : reports::CompiledOps());
  described.fates = compiled.fates;
  struct Sum {
    double seconds = 0, runs = 0;
    std::vector<reports::OpWork> work;
  };
  std::map<std::pair<std::vector<std::uint64_t>, std::string>, Sum> kernels;
  const std::vector<StepTimes> steps = middle_half(times_of_steps(traces_[arm], sampling_[arm].overhead));
  const auto weight = 1 / static_cast<double>(std::max<std::size_t>(1, steps.size()));
  std::vector<std::string> names;
  std::vector<std::uint64_t> aligned;
  for (const StepTimes& step : steps) {
    if (!is_compiled) {
      if (std::vector<std::string> applied = names_of(step); applied != names || aligned.empty()) {
        names = std::move(applied);
        aligned = reports::source_ops_of_calls(names, profile_.ops, has_control_flow_);
      }
    }
    for (std::size_t i = 0; i < step.ops.size(); ++i) {
      const OpZone& op = step.ops[i];
      std::vector<std::uint64_t> of_source;
      std::vector<reports::OpWork> work;
      if (is_compiled) {
        of_source = compiled.source_ops_of(op.traced, op.name);
        work = compiled.work_of(op.traced, op.name);
      } else if (aligned[i] != 0) {
        of_source = {aligned[i]};
        work = work_alone(profile_.ops, aligned[i]);
      }
      Sum& sum = kernels[{std::move(of_source), op.name}];
      sum.work = std::move(work);
      sum.seconds += op.seconds * weight;
      sum.runs += weight;
    }
    described.tape_seconds += step.tape_seconds * weight;
    described.total_seconds += step.total_seconds * weight;
  }
  for (auto& [key, sum] : kernels) {
    described.kernels.push_back({key.second, key.first, sum.seconds, sum.runs, std::move(sum.work)});
  }
  profile_.arms.push_back(std::move(described));
}

std::vector<AlignedTraces::SourceOps> AlignedTraces::source_ops_of_call(std::size_t arm,
                                                                        std::span<const AppliedOp> applied) const {
  std::vector<SourceOps> sources;
  if (!stages_[arm].empty()) {
    for (const AppliedOp& op : applied) {
      sources.push_back(compiled_[arm].source_ops_of(op.traced, op.name));
    }
    return sources;
  }
  std::vector<std::string> names;
  for (const AppliedOp& op : applied) {
    names.push_back(op.name);
  }
  for (const std::uint64_t id : reports::source_ops_of_calls(names, profile_.ops, has_control_flow_)) {
    sources.push_back(id != 0 ? SourceOps{id} : SourceOps{});
  }
  return sources;
}

std::map<std::string, reports::OpParts> AlignedTraces::measure_parts(double budget_seconds) {
  std::map<std::string, reports::OpParts> parts;
  if (request_.arms.front()->name != "eager") {
    return parts;
  }
  const workloads::MakeArm make = [&](const workloads::Arm& arm) {
    return std::make_unique<workloads::ArmInstance>(workload_, arm, request_.seed);
  };
  const auto eager = make(*workloads::find_arm("eager"));
  const auto replay = make(*workloads::find_arm("replay"));
  eager->call(0);
  replay->call(0);
  const nlohmann::json split = workloads::split_ops(*eager, *replay, make, budget_seconds);
  for (const nlohmann::json& kind : reports::list(split, "kinds")) {
    const auto seconds = [&](const char* part) { return reports::number(kind, part).value_or(0); };
    const double inference = seconds("inference_seconds");
    const double allocation = seconds("allocation_seconds");
    const double dispatch = std::max(0.0, seconds("apply_seconds") - inference - allocation);
    if (const auto of_one =
            parts_of_one_op(reports::number(kind, "calls").value_or(1), dispatch, inference, allocation)) {
      parts[reports::text(kind, "op")] = *of_one;
    }
  }
  return parts;
}

std::optional<reports::OpParts> parts_of_one_op(double calls, double dispatch, double inference, double allocation) {
  constexpr double kMostDispatch = 3e-7;  // it takes some ten nanoseconds
  calls = std::max(1.0, calls);
  if (dispatch / calls > kMostDispatch) {
    return std::nullopt;
  }
  return reports::OpParts{dispatch / calls, inference / calls, allocation / calls, 0};
}

}  // namespace diptych::cli
