#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "cli/folder_lock.h"
#include "cli/gate_job.h"
#include "cli/names.h"
#include "cli/self.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "framework/io/naming.h"
#include "reports/gate/calibration.h"
#include "reports/gate/documents.h"
#include "reports/run/fingerprint.h"
#include "reports/run/json_access.h"
#include "reports/run/run_file.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Calibration {
 public:
  explicit Calibration(const CalibrateOptions& options)
      : options_(options), file_(options.append.empty() ? options.out : options.append) {
    if (file_ == "-") {
      throw Error("a calibration is kept in a file, run by run; name one instead of -");
    }
    program_ = describe_program(own_program());
    if (options.inject_instructions > 0) {
      tiers_ = {reports::Tier::instructions};
    }
    plan_ = gate_plan(tiers_, options.seed);
    plan_.workloads = resolve_workloads(options.workloads);
    plan_.arms = resolve_arms(options.arms);
    refuse_external_arms(plan_.arms, "a calibration");
    json design = {{"workloads", plan_.workloads},
                   {"arms", plan_.arms},
                   {"processes", plan_.size.processes},
                   {"rounds", plan_.size.rounds},
                   {"block_seconds", plan_.size.block_seconds},
                   {"alpha", reports::GateConfig().alpha}};
    if (const json injection = describe_injection(); !injection.is_null()) {
      design["injection"] = injection;
    }
    const fs::path folder = fs::path(file_).parent_path();
    if (!folder.empty()) {
      fs::create_directories(folder);
    }
    lock_.emplace(folder);
    if (lock_->is_taken()) {
      throw Error(fmt::format("another `diptych calibrate` is adding runs to a file beside '{}'; let it end first",
                              reports::printable(file_)));
    }
    if (!options.append.empty() && fs::exists(file_)) {
      document_ = reports::parse_json(file_, reports::read_text_file(file_));
      io::naming(file_, [&] { reports::check_calibration(document_); });
      check_same(design);
    } else {
      if (fs::exists(file_)) {
        throw Error(fmt::format("'{}' exists; --append {} adds runs to it, --out names another file",
                                reports::printable(file_), reports::printable(file_)));
      }
      document_ = reports::new_calibration(program_.environment, design);
    }
  }

  /// The change injected into the head; null for A/A.
  json describe_injection() {
    injection_.time = options_.inject_time;
    injection_.instructions = options_.inject_instructions;
    if (!injection_.any()) {
      return nullptr;
    }
    json arms = json::array();
    std::ranges::copy_if(plan_.arms, std::back_inserter(arms), [&](const auto& arm) { return injection_.hits(arm); });
    if (arms.empty()) {
      throw Error(
          "the change is put into every arm but eager, and --arms names no other; add one (graph, for example)");
    }
    return injection_.time > 0 ? json{{"time", injection_.time}, {"arms", arms}}
                               : json{{"instructions", injection_.instructions}, {"arms", arms}};
  }

  int execute() {
    InterruptGuard guard;
    const auto begin = std::chrono::steady_clock::now();
    for (int run = 0; run < options_.runs && !InterruptGuard::stop(); ++run) {
      std::string label = fmt::format("run {}/{}", run + 1, options_.runs);
      if (run > 0) {
        const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        label += fmt::format(" (of all {})", left_text(passed / run * (options_.runs - run)));
      }
      add_run(label);
    }
    status_.clear();
    show();
    return InterruptGuard::stop() ? kInterrupted : kSuccess;
  }

 private:
  void check_same(const json& design) const {
    const reports::CalibrationDocument document = document_;
    const auto machine = reports::compare_machines(document.environment(), program_.environment);
    if (machine.same != reports::SameMachine::yes) {
      throw Error(
          fmt::format("'{}' is of another machine ({}); start a new file with --out", reports::printable(file_),
                      machine.differences.empty() ? "unknown" : reports::printable(machine.differences.front())));
    }
    const json& then = reports::member(reports::member(document.environment(), "build"), "version");
    if (then != reports::member(reports::member(program_.environment, "build"), "version")) {
      throw Error(
          fmt::format("'{}' is of another version of Diptych; start a new file with --out", reports::printable(file_)));
    }
    if (document.design().json() != design) {
      throw Error(fmt::format("'{}' was taken with other workloads, arms or sizes; start a new file with --out",
                              reports::printable(file_)));
    }
  }

  void add_run(const std::string& label) {
    GateJob job;
    job.base = {"A", {}, program_};
    job.head = {"A again", {}, program_};
    job.plan = plan_;
    // Each run has its own layouts and orders, even over several calls with --append.
    job.plan.seed = Rng(options_.seed + reports::CalibrationDocument(document_).runs().size()).next_u64() >> 11U;
    job.setup.time_decides = true;
    job.setup.base = job.setup.head = "this program";
    job.tiers = tiers_;
    job.injection = injection_;
    job.skip_unchanged = false;
    job.progress = [&](const std::string& what) { status_.show(label + ": " + what); };
    job.stop = &InterruptGuard::stop();
    const GateOutcome outcome = run_whole_gate(std::move(job));
    if (outcome.interrupted) {
      return;  // half a run has no meaning
    }
    reports::add_calibration_run(document_, outcome.base, outcome.head, outcome.gate);
    reports::write_atomically(file_, reports::to_text(document_));
  }

  void show() {
    const reports::CalibrationDocument document = document_;
    if (!document.runs().empty() && !document.is_power_study()) {
      document_["summary"]["resampled"] = reports::resampled_gates(document_, kResamples, options_.seed);
      reports::write_atomically(file_, reports::to_text(document_));
    }
    const reports::CalibrationSummary summary = document.summary();
    if (const reports::PowerSummary power = summary.power()) {
      show_power(power);
      return;
    }
    fmt::print("{} A/A runs, {} could not tell: {} false alarms, rate {}, at most {} (95 %)\n", summary.runs(),
               summary.cannot_tell(), summary.alarms(), reports::format_percent(summary.rate()),
               reports::format_percent(summary.upper_95()));
    if (const reports::ResampledSummary resampled = summary.resampled()) {
      fmt::print("{} gates drawn again from their processes: false alarms {}, at most {} (95 %)\n",
                 resampled.resamples(), reports::format_percent(resampled.rate()),
                 reports::format_percent(resampled.upper_95()));
    }
    fmt::print("Of the time of an arm, a gate here finds a change that is this large nine times out of ten:\n");
    for (const reports::CellOfCalibration cell : summary.cells()) {
      const auto detectable = cell.detectable();
      fmt::print("  {:<36} detects {}\n", reports::printable(cell.cell()),
                 detectable ? reports::format_percent(*detectable) : "-");
    }
    fmt::print("{}\n", reports::printable(reports::match_calibration(document, program_.environment).note));
    if (fs::exists(file_)) {
      fmt::print("{}\n", reports::printable(file_));
    }
  }

  void show_power(const reports::PowerSummary& power) const {
    const int claimed = power.claimed();
    fmt::print("{} runs with {} put in, {} rows of the changed arms\n",
               reports::CalibrationDocument(document_).runs().size(),
               injection_.time > 0 ? fmt::format("+{} time", reports::format_percent(injection_.time))
                                   : fmt::format("+{} instructions", reports::format_percent(injection_.instructions)),
               power.rows());
    fmt::print("{} of them claim to detect it, {} did", claimed, power.caught());
    if (claimed > 0) {
      fmt::print(": {}, at least {} (95 %)", reports::format_percent(power.rate()),
                 reports::format_percent(power.lower_95()));
    }
    fmt::print("\n{}\n", reports::printable(file_));
  }

  static constexpr int kResamples = 10000;

  const CalibrateOptions& options_;
  std::set<reports::Tier> tiers_ = {reports::Tier::exact, reports::Tier::time};
  workloads::Injection injection_;
  std::string file_;
  std::optional<FolderLock> lock_;
  Measurable program_;
  workloads::RunPlan plan_;
  json document_;
  StatusLine status_;
};

}  // namespace

int calibrate(const CalibrateOptions& options) { return Calibration(options).execute(); }

}  // namespace diptych::cli
