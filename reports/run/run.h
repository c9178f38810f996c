#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/run/json_access.h"
#include "reports/run/part.h"
#include "reports/run/profile.h"
#include "reports/run/verdicts.h"
#include "reports/statistics/statistics.h"

/// The parts of a run file (reports/schema/run.schema.json says what they mean), each as a typed view of its JSON
/// (part.h); this is the only place that names the keys to read.
namespace diptych::reports {

// ---- An arm

/// Edges between ops that a pass left in kernels of their own.
class RefusedEntry : public Part {
 public:
  using Part::Part;
  std::string producer() const { return text("producer"); }
  std::string consumer() const { return text("consumer"); }
  std::string why() const { return text("why"); }
  double edges() const { return number("edges").value_or(0); }
};

class PassEntry : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::optional<double> nodes_before() const { return number("nodes_before"); }
  std::optional<double> nodes_after() const { return number("nodes_after"); }
  std::optional<double> seconds() const { return number("seconds"); }
  bool changed() const { return is_true("changed"); }
  Parts<RefusedEntry> refused() const { return Parts<RefusedEntry>(list(json(), "refused")); }
};

/// Instructions of one steady call; present if they were asked for.
class Instructions : public Part {
 public:
  using Part::Part;
  std::optional<double> value() const { return number("value"); }
  std::string isa() const { return text("isa"); }
  std::string reason() const { return text("reason"); }
};

/// When the calls of a new process became steady.
class WarmupEntry : public Part {
 public:
  using Part::Part;
  std::string kind() const { return text("class"); }
  /// Number of processes by kind.
  const Json& processes() const { return member("processes"); }
  std::optional<double> steady_after_calls() const { return number("steady_after_calls"); }
  std::optional<double> steady_seconds() const { return number("steady_seconds"); }
};

/// What an arm used of the machine: in one process, or in all.
class MachineUsage : public Part {
 public:
  using Part::Part;
  /// `group`: "memory" or "counters"; `field`: one of its fields (usage.h).
  std::optional<double> usage(const char* group, const char* field) const {
    return reports::number(member(group), field);
  }
  bool has_usage(const char* group) const { return member(group).is_object(); }
  std::string why_no_usage(const char* group) const { return reports::text(member(group), "reason"); }
};

/// A fused kernel, timed in the program beside what it replaces.
class FusedEntry : public Part {
 public:
  using Part::Part;
  std::string pass() const { return text("pass"); }
  std::string ops() const { return text("ops"); }
  double seconds() const { return number("seconds").value_or(0); }
  double apart_seconds() const { return number("apart_seconds").value_or(0); }
  /// Lower end, median and upper end of the first by the second.
  std::vector<double> ratio() const;
  bool is_loss() const { return member("loss") == true; }
  bool is_vetoed() const { return member("vetoed") == true; }
};

class Arm : public MachineUsage {
 public:
  using MachineUsage::MachineUsage;
  std::string name() const { return text("name"); }
  std::string description() const { return text("description"); }
  /// The cause that its rung of the ladder stands for; nothing if it isn't recorded.
  std::optional<std::string> cause() const;
  std::string rung() const { return text("rung"); }
  /// The enabled pass rungs of a compiled arm.
  std::optional<std::vector<std::string>> groups() const;
  std::optional<double> ulp() const { return number("ulp"); }
  bool in_ladder() const { return member("in_ladder") != false; }
  /// On which it computes.
  int threads() const;
  /// Whether it is another framework's.
  bool is_external() const { return member("external").is_object(); }
  std::string framework() const { return reports::text(member("external"), "framework"); }
  /// Why it has no figures; empty if it has some.
  std::string failure() const { return text("failed"); }
  bool has_failed() const { return !member("failed").is_null(); }
  /// `metric`: a name from exact_metrics.h.
  std::optional<double> exact(const char* metric) const { return reports::number(member("exact"), metric); }
  Instructions instructions() const { return member("instructions"); }
  Parts<PassEntry> passes() const { return Parts<PassEntry>(list(json(), "passes")); }
  /// The slowest loss first.
  Parts<FusedEntry> fused() const { return Parts<FusedEntry>(list(json(), "fused")); }

  std::optional<Estimate> seconds() const { return estimate("seconds"); }
  std::optional<double> first_call_seconds() const { return number("first_call_seconds"); }
  std::optional<double> worst_call_seconds() const { return number("worst_call_seconds"); }
  std::optional<Estimate> compile_seconds() const { return estimate("compile_seconds"); }
  WarmupEntry warmup() const { return member("warmup"); }
};

// ---- A process

/// Seconds per call, by arm.
class Round : public Part {
 public:
  using Part::Part;
  std::optional<double> seconds(const std::string& arm) const { return reports::number(member("seconds"), arm); }
  const Json& all_seconds() const { return member("seconds"); }
};

/// What other programs did on the CPU of the timed blocks meanwhile.
class Blocks : public Part {
 public:
  using Part::Part;
  std::optional<double> seconds() const { return number("seconds"); }
  std::optional<double> steal_seconds() const { return number("steal_seconds"); }
  std::optional<double> waited_share() const { return number("waited_share"); }
  std::optional<double> others_cpu() const { return number("others_cpu"); }
  std::optional<double> tick_seconds() const { return number("tick_seconds"); }
};

class Load : public Part {
 public:
  using Part::Part;
  std::optional<double> others_cpu() const { return number("others_cpu"); }
  std::optional<double> cpus() const { return number("cpus"); }
};

/// What one process recorded of an arm.
class ArmOfProcess : public MachineUsage {
 public:
  using MachineUsage::MachineUsage;
  std::string name() const { return text("name"); }
  std::optional<double> start_seconds() const { return number("start_seconds"); }
  std::optional<double> load_seconds() const { return number("load_seconds"); }
  std::optional<double> protocol_seconds() const { return number("protocol_seconds"); }
  std::optional<double> first_call_seconds() const { return number("first_call_seconds"); }
  std::optional<double> worst_call_seconds() const { return number("worst_call_seconds"); }
  std::optional<double> compile_seconds() const { return number("compile_seconds"); }
  /// Seconds of the calls after the first.
  std::vector<double> warmup_seconds() const;
};

/// A figure that a process may say of an arm: &ArmOfProcess::compile_seconds.
using Said = std::optional<double> (ArmOfProcess::*)() const;

/// An op's calls in the split of eager.
class SplitKind : public Part {
 public:
  using Part::Part;
  std::string op() const { return text("op"); }
  std::optional<double> calls() const { return number("calls"); }
  /// `part`: a key of split_views.h.
  std::optional<double> seconds(const char* part) const { return number(part); }
};

/// What a process measured of eager besides kernels.
class OpSplit : public Part {
 public:
  using Part::Part;
  std::string reason() const { return text("reason"); }
  double eager_seconds() const { return number("eager_seconds").value_or(0); }
  bool has_hollow_seconds() const { return number("hollow_seconds").has_value(); }
  double hollow_seconds() const { return number("hollow_seconds").value_or(0); }
  double hollow_replay_seconds() const { return number("hollow_replay_seconds").value_or(0); }
  double hollow_list_seconds() const { return number("hollow_list_seconds").value_or(0); }
  double memory_seconds() const { return number("memory_seconds").value_or(0); }
  double kernel_seconds() const { return number("kernel_seconds").value_or(0); }
  double inference_seconds() const { return number("inference_seconds").value_or(0); }
  double allocation_seconds() const { return number("allocation_seconds").value_or(0); }
  double taped_seconds() const { return number("taped_seconds").value_or(0); }
  double untaped_seconds() const { return number("untaped_seconds").value_or(0); }
  double backward_seconds() const { return number("backward_seconds").value_or(0); }
  Parts<SplitKind> kinds() const { return Parts<SplitKind>(list(json(), "kinds")); }
};

class Bandwidth : public Part {
 public:
  using Part::Part;
  std::string level() const { return text("level"); }
  std::optional<double> size_bytes() const { return number("size_bytes"); }
  std::optional<double> bytes_per_second() const { return number("bytes_per_second"); }
};

class ArmOfLimits : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::optional<double> share() const { return number("share"); }
};

/// The roofline: from a process's probe, or of the cell.
class Limits : public Part {
 public:
  using Part::Part;
  std::string reason() const { return text("reason"); }
  /// On which it was measured.
  int threads() const { return whole_count(number("threads").value_or(1)); }
  std::optional<double> fma_flops_per_second() const { return number("fma_flops_per_second"); }
  Parts<Bandwidth> bandwidth() const { return Parts<Bandwidth>(list(json(), "bandwidth")); }
  std::optional<double> flops() const { return number("flops"); }
  std::optional<double> bytes() const { return number("bytes"); }
  std::optional<double> arithmetic_intensity() const { return number("arithmetic_intensity"); }
  std::string level() const { return text("level"); }
  std::string bound() const { return text("bound"); }
  std::optional<double> limit_seconds() const { return number("limit_seconds"); }
  Parts<ArmOfLimits> arms() const { return Parts<ArmOfLimits>(list(json(), "arms")); }
};

class Process : public Part {
 public:
  using Part::Part;
  const Json& seed() const { return member("seed"); }
  std::optional<double> iterations() const { return number("iterations"); }
  /// Over how many layouts of the heap its rounds were spread.
  std::optional<double> layouts() const { return number("layouts"); }
  std::optional<double> control_drift() const { return number("control_drift"); }
  /// For the whole cell and all CPUs; in runs without blocks().
  std::optional<double> steal_seconds() const { return number("steal_seconds"); }
  Blocks blocks() const { return member("blocks"); }
  Load load() const { return member("load"); }
  /// Workloads that this process had measured before this cell.
  std::vector<std::string> after() const { return texts("after"); }
  /// Whether its rounds took turns with those of another build's process.
  bool has_turns() const { return is_true("turns"); }
  OpSplit op_split() const { return member("op_split"); }
  Limits limits_before() const { return reports::member(member("limits"), "before"); }
  Limits limits_after() const { return reports::member(member("limits"), "after"); }
  Parts<ArmOfProcess> arms() const { return Parts<ArmOfProcess>(list(json(), "arms")); }
  /// Those of that name: one, if it was measured.
  std::vector<ArmOfProcess> arms(const std::string& name) const;
  Parts<Round> rounds() const { return Parts<Round>(list(json(), "rounds")); }
  /// Of each round that has timed the arm.
  std::vector<double> seconds(const std::string& arm) const;
  /// Of each round what `read` makes of the arm's entry, which may be missing or anything; nothing leaves the round
  /// out.
  std::vector<double> seconds(const std::string& arm,
                              const std::function<std::optional<double>(const Json& entry)>& read) const;

 private:
  NameIndex arm_index_;
};

/// What these processes say of an arm, in their order; those that don't are left out.
std::vector<double> said_of(std::span<const Process> processes, const std::string& arm, Said figure);

// ---- What the analysis adds

class Validity : public Part {
 public:
  using Part::Part;
  bool agree() const { return is_true("agree"); }
  std::string reason() const { return text("reason"); }
  std::vector<std::string> checks() const { return texts("checks"); }
};

/// A figure of merit that the program computed.
class MetricEntry : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::string arm() const { return text("arm"); }
  std::optional<double> value() const { return number("value"); }
  std::string unit() const { return text("unit"); }
};

class BreakEvenEntry : public Part {
 public:
  using Part::Part;
  bool reached() const { return is_true("reached"); }
  bool uncertain() const { return is_true("uncertain"); }
  std::optional<double> calls() const { return number("calls"); }
  std::optional<double> low() const { return number("low"); }
  std::optional<double> high() const { return number("high"); }
};

class Evidence : public Part {
 public:
  using Part::Part;
  std::optional<Interval> sign_interval() const;
  std::optional<Interval> bootstrap_interval() const;
  std::optional<double> p() const { return number("p"); }
  std::optional<double> p_holm() const { return number("p_holm"); }
  std::optional<double> variance_between() const { return reports::number(member("variance"), "between"); }
  std::optional<double> variance_within() const { return reports::number(member("variance"), "within"); }
  std::optional<double> autocorrelation() const { return number("autocorrelation"); }
};

class Judgement : public Part {
 public:
  using Part::Part;
  std::optional<Verdict> verdict() const { return named_verdict("verdict"); }
  std::string name() const { return text("verdict"); }
  std::string direction() const { return text("direction"); }
  std::string reason() const { return text("reason"); }
  std::string detail() const { return text("detail"); }
};

/// A comparison of an arm with eager.
class Comparison : public Part {
 public:
  using Part::Part;
  std::string base() const { return text("base"); }
  std::string arm() const { return text("arm"); }
  std::optional<Estimate> speedup() const { return estimate("speedup"); }
  /// Of the graph over this arm, if it is another framework's.
  std::optional<Estimate> graph_speedup() const { return estimate("graph_speedup"); }
  std::optional<double> mde() const { return number("mde"); }
  BreakEvenEntry break_even() const { return member("break_even"); }
  Evidence evidence() const { return member("evidence"); }
  Judgement verdict() const { return member("verdict"); }
};

/// A rung's saving at the other places on the ladder where it was measured.
class ByPlace : public Part {
 public:
  using Part::Part;
  std::optional<double> places() const { return number("places"); }
  std::optional<double> low_seconds() const { return number("low_seconds"); }
  std::optional<double> high_seconds() const { return number("high_seconds"); }
  std::optional<double> low_share() const { return number("low_share"); }
  std::optional<double> high_share() const { return number("high_share"); }
};

class Rung : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::string from() const { return text("from"); }
  std::string to() const { return text("to"); }
  std::string title() const { return text("title"); }
  std::string cause() const { return text("cause"); }
  std::optional<Estimate> saved_seconds() const { return estimate("saved_seconds"); }
  std::optional<double> share() const { return number("share"); }
  ByPlace by_place() const { return member("by_place"); }
  std::optional<double> ulp() const { return number("ulp"); }
  std::optional<Estimate> seconds() const { return estimate("seconds"); }
  std::optional<Estimate> compile_seconds() const { return estimate("compile_seconds"); }
  BreakEvenEntry break_even() const { return member("break_even"); }
  std::optional<double> planned_peak_bytes() const { return number("planned_peak_bytes"); }
  /// Its passes changed nothing here, so that a difference in time is chance, or where memory lies.
  bool is_same_graph() const { return is_true("same_graph"); }
  /// Whether it saves or costs time for certain.
  bool has_effect() const {
    const std::optional<Estimate> saved = saved_seconds();
    return saved && saved->has_interval() && saved->excludes(0) && !is_same_graph();
  }
};

/// Eager's time besides kernels, by part, over processes.
class Split : public Part {
 public:
  using Part::Part;
  std::string reason() const { return text("reason"); }
  /// `key`: one of split_views.h.
  std::optional<Estimate> part(const char* key) const { return estimate(key); }
  std::optional<Estimate> explained_seconds() const { return estimate("explained_seconds"); }
  std::optional<Estimate> rung_seconds() const { return estimate("rung_seconds"); }
  std::optional<Estimate> residual_seconds() const { return estimate("residual_seconds"); }
  Parts<SplitKind> kinds() const { return Parts<SplitKind>(list(json(), "kinds")); }
};

class Ladder : public Part {
 public:
  using Part::Part;
  Split split() const { return member("split"); }
  std::vector<std::string> order() const { return texts("order"); }
  std::optional<Estimate> base_seconds() const { return estimate("base_seconds"); }
  std::optional<Estimate> gap_seconds() const { return estimate("gap_seconds"); }
  std::optional<Estimate> residual_seconds() const { return estimate("residual_seconds"); }
  std::optional<double> residual_share() const { return number("residual_share"); }
  Parts<Rung> rungs() const { return Parts<Rung>(list(json(), "rungs")); }
};

/// The arithmetic and memory traffic of a call.
class Work : public Part {
 public:
  using Part::Part;
  std::string reason() const { return text("reason"); }
  std::optional<double> flops() const { return number("flops"); }
  std::optional<double> op_bytes() const { return number("op_bytes"); }
  std::optional<double> compulsory_bytes() const { return number("compulsory_bytes"); }
};

// ---- A cell, a run

class Cell : public Part {
 public:
  using Part::Part;
  std::string workload() const { return text("workload"); }
  std::string title() const { return text("title"); }
  std::string unit() const { return text("unit"); }
  std::string reproduce() const { return text("reproduce"); }
  Validity validity() const { return member("validity"); }
  Parts<MetricEntry> metrics() const { return Parts<MetricEntry>(list(json(), "metrics")); }
  Parts<Arm> arms() const { return Parts<Arm>(list(json(), "arms")); }
  /// Nothing if there is none of that name.
  Arm arm(const std::string& name) const;
  Parts<Comparison> comparisons() const { return Parts<Comparison>(list(json(), "comparisons")); }
  /// The comparison of that arm with eager; nothing if there is none.
  Comparison comparison(const std::string& arm) const;
  /// The comparison that the cell is about: of eager with "graph", otherwise with the last arm. Nothing if there is
  /// none.
  Comparison main_comparison() const;
  Ladder ladder() const { return member("ladder"); }
  /// Those of the ladder, or of a run of the first version.
  Parts<Rung> rungs() const;
  Work work() const { return member("work"); }
  Limits limits() const { return member("limits"); }
  /// How near that arm comes to the machine's limit.
  std::optional<double> limit_share(const std::string& arm) const;
  ProfileEntry profile() const { return member("profile"); }
  Parts<Process> processes() const { return Parts<Process>(list(json(), "processes")); }

 private:
  NameIndex arm_index_, comparison_index_, limit_index_;
};

class Size : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::optional<double> processes() const { return number("processes"); }
  std::optional<double> rounds() const { return number("rounds"); }
};

/// The request: what was to be measured.
class Plan : public Part {
 public:
  using Part::Part;
  std::vector<std::string> metrics() const { return texts("metrics"); }
  /// What multiplies matrices: "tiles", "openblas".
  std::string gemm() const { return text("gemm").empty() ? "openblas" : text("gemm"); }
  bool veto_losses() const { return is_true("veto_losses"); }
  /// The least length of a timed block.
  std::optional<double> block_seconds() const { return number("block_seconds"); }
  std::vector<std::string> benchmark_options() const { return texts("benchmark_options"); }
};

/// What the fingerprint says of how was measured.
class MeasuringEnvironment : public Part {
 public:
  using Part::Part;
  std::string compiler() const { return reports::text(member("build"), "compiler"); }
  std::string build_type() const { return reports::text(member("build"), "build_type"); }
  std::string sanitizers() const { return reports::text(member("build"), "sanitizers"); }
  /// Of the sources; empty: not recorded.
  std::string revision() const { return reports::text(member("build"), "git_sha"); }
  /// Whether sources were changed on top of it.
  bool is_dirty() const { return reports::member(member("build"), "git_dirty") == true; }
  bool has_process() const { return member("process").is_object(); }
  /// Environment variables that tune the program or its libraries: "A=1 B=2".
  std::string tuning_variables() const;
  std::string instruction_set() const { return reports::text(member("engine"), "isa"); }
  std::string governor() const { return reports::text(member("cpu"), "governor"); }
  std::string cpu_model() const { return reports::text(member("cpu"), "model"); }
  std::string kernel() const { return reports::text(member("os"), "kernel"); }
};

class Run : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::string created() const { return text("created"); }
  std::string status() const { return text("status"); }
  std::string numerics() const { return text("numerics"); }
  std::vector<std::string> command() const { return texts("command"); }
  Plan plan() const { return member("plan"); }
  Size size() const { return member("size"); }
  const Json& seed() const { return member("seed"); }
  std::optional<double> threads() const { return number("threads"); }
  /// Numbers of the CPUs that the processes were bound to; empty: not bound.
  std::vector<int> pinned() const;
  /// In a test of the gate: what was made slower.
  const Json& injected() const { return member("injected"); }
  /// Whether the run was to time anything: its plan says so, or it has no plan.
  bool is_timed() const;
  const Json& environment() const { return member("environment"); }
  /// If `diptych why` asked for it: how often the program is to be called.
  std::optional<double> why_calls() const { return reports::number(member("why"), "calls"); }
  Parts<Cell> cells() const { return Parts<Cell>(list(json(), "cells")); }
  /// Nothing if there is none of that name.
  Cell cell(const std::string& workload) const;

 private:
  NameIndex cell_index_;
};

}  // namespace diptych::reports
