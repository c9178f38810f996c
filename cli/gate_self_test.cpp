#include <algorithm>

#include <fmt/format.h>

#include "cli/gate_job.h"
#include "cli/output.h"
#include "cli/self.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "reports/gate/documents.h"
#include "reports/run/run.h"
#include "reports/run/verdicts.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
using reports::GateDocument;
using reports::Tier;

enum class Result { holds, fails, cannot_tell };

/// Gates that must pass and gates that must fail, of this program against itself.
class SelfTest {
 public:
  explicit SelfTest(const GateVerbOptions& options) : options_(options), program_(describe_program(own_program())) {}

  int execute() {
    InterruptGuard guard;
    identical_passes();
    counted_changes_are_caught();
    empty_is_no_pass();
    if (wants("instructions")) {
      instructions_are_caught();
    }
    if (wants("time")) {
      time_is_caught();
    }
    status_.clear();
    if (InterruptGuard::stop()) {
      complain("interrupted; the self-test is no proof");
      return kInterrupted;
    }
    fmt::print("{}", table_.render(wants_colour(), terminal_width()));
    fmt::print("{}\n", worst_ == Result::holds   ? "The gate can fail, and passes what is the same."
                       : worst_ == Result::fails ? "The gate is not to be trusted here: see above."
                                                 : "Not all could be shown: see above.");
    return worst_ == Result::holds ? kSuccess : worst_ == Result::fails ? kFailure : kCannotTell;
  }

 private:
  static constexpr double kTimeInjected = 0.05;
  static constexpr double kInstructionsInjected = 0.01;

  /// --metrics leaves out the others: on a busy machine the deterministic ones still prove something.
  bool wants(const std::string& metric) const {
    return options_.metrics.empty() ||
           std::find(options_.metrics.begin(), options_.metrics.end(), metric) != options_.metrics.end();
  }

  GateJob job(const std::set<Tier>& tiers, const std::string& label) {
    GateJob out;
    out.base = {"this program", {}, program_};
    out.head = {"this program", {}, program_};
    out.plan = gate_plan(tiers, options_.seed);
    out.plan.workloads = {"micro/dispatch"};
    out.plan.arms = {"eager", "graph"};
    out.setup.time_decides = true;  // as a calibration would allow
    out.tiers = tiers;
    out.skip_unchanged = false;
    out.progress = [this, label](const std::string& what) { status_.show(label + ": " + what); };
    out.stop = &InterruptGuard::stop();
    return out;
  }

  void report(const std::string& what, const std::string& expected, Result result, const std::string& seen) {
    const char* word = result == Result::holds ? "holds" : result == Result::fails ? "FAILS" : "cannot tell";
    table_.add({what, expected, reports::shorten(reports::printable(seen), 60), word},
               result == Result::holds ? "faster" : "slower");
    worst_ = result == Result::fails || worst_ == Result::holds ? (result == Result::holds ? worst_ : result) : worst_;
  }

  void expect_code(const std::string& what, const GateDocument& gate, int code) {
    const int seen = gate.exit_code();
    report(what, fmt::format("exit {}", code), seen == code ? Result::holds : Result::fails,
           fmt::format("exit {}: {}", seen, gate.reason()));
  }

  void identical_passes() {
    const GateOutcome outcome = run_whole_gate(
        job(wants("time") ? std::set<Tier>{Tier::exact, Tier::time} : std::set<Tier>{Tier::exact}, "identical"));
    base_ = outcome.base;
    head_ = outcome.head;
    const GateDocument gate = outcome.gate;
    if (gate.exit_code() == reports::gate_cannot_tell) {
      report("identical programs", "exit 0", Result::cannot_tell, gate.reason());
    } else {
      expect_code("identical programs", gate, reports::gate_pass);
    }
  }

  json judged(const json& base, const json& head) const {
    reports::CompareOptions options;
    options.tiers = {Tier::exact};
    return reports::judge_gate(reports::compare_runs(base, head, options), nullptr, {}, {});
  }

  void counted_changes_are_caught() {
    if (reports::Run(base_).cells().empty()) {
      return;
    }
    json head = head_;
    json& exact = head["cells"][0]["arms"][1]["exact"];
    exact["allocations"] = exact["allocations"].get<double>() + 1;
    expect_code("one allocation more", judged(base_, head), reports::gate_regressed);
    head = head_;
    head["cells"][0]["arms"].erase(1);
    expect_code("an arm vanished", judged(base_, head), reports::gate_cannot_tell);
  }

  void empty_is_no_pass() {
    if (base_.is_null()) {
      return;
    }
    json empty = head_;
    empty["cells"] = json::array();
    expect_code("an empty head", judged(base_, empty), reports::gate_cannot_tell);
    expect_code("empty on both sides", judged(empty, empty), reports::gate_cannot_tell);
  }

  void instructions_are_caught() {
    if (InterruptGuard::stop()) {
      return;
    }
    GateJob same = job({Tier::instructions}, "instructions");
    const json judged = run_whole_gate(same).gate;
    const GateDocument unchanged = judged;
    if (unchanged.exit_code() == reports::gate_cannot_tell) {
      report("+1 % instructions", "exit 2", Result::cannot_tell,
             unchanged.rows().empty() ? unchanged.reason() : unchanged.rows().front().detail());
      return;
    }
    expect_code("the same instructions", unchanged, reports::gate_pass);
    same.injection.instructions = kInstructionsInjected;
    expect_code("+1 % instructions", run_whole_gate(std::move(same)).gate, reports::gate_regressed);
  }

  void time_is_caught() {
    if (InterruptGuard::stop()) {
      return;
    }
    GateJob slower = job({Tier::time}, "+5 % time");
    slower.injection.time = kTimeInjected;
    const json gate = run_whole_gate(std::move(slower)).gate;
    for (const reports::ComparisonRow row : GateDocument(gate).rows()) {
      if (row.arm() == "eager") {
        continue;  // the injection affects the other arms
      }
      const auto detectable = row.detectable();
      const bool claimed = detectable && *detectable <= kTimeInjected;
      const std::optional<reports::Verdict> verdict = row.verdict();
      const std::string seen =
          fmt::format("{}, detects {}", row.verdict_name(), detectable ? reports::format_percent(*detectable) : "-");
      report("+5 % time, " + row.workload(), "REGRESSED",
             verdict == reports::Verdict::regressed      ? Result::holds
             : claimed && !reports::is_unusable(verdict) ? Result::fails
                                                         : Result::cannot_tell,
             seen);
      return;
    }
    report("+5 % time", "REGRESSED", Result::fails, "no row was measured");
  }

  const GateVerbOptions& options_;
  Measurable program_;
  reports::TextTable table_{{"gate of", "must be", "is", ""}};
  Result worst_ = Result::holds;
  json base_, head_;
  StatusLine status_;
};

}  // namespace

int gate_self_test(const GateVerbOptions& options) { return SelfTest(options).execute(); }

}  // namespace diptych::cli
