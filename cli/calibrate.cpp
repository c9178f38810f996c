#include <filesystem>

#include <fmt/format.h>

#include "cli/gate_job.h"
#include "cli/names.h"
#include "cli/self.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "reports/calibration.h"
#include "reports/fingerprint.h"
#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/run_file.h"
#include "reports/text.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Calibration {
 public:
  explicit Calibration(const CalibrateOptions& options)
      : options_(options), file_(options.append.empty() ? options.out : options.append) {
    program_ = describe_program(own_program());
    plan_ = gate_plan({reports::Tier::exact, reports::Tier::time}, options.seed);
    plan_.workloads = resolve_workloads(options.workloads);
    plan_.arms = resolve_arms(options.arms);
    const json design = {{"workloads", plan_.workloads},
                         {"arms", plan_.arms},
                         {"processes", plan_.size.processes},
                         {"rounds", plan_.size.rounds},
                         {"block_seconds", plan_.size.block_seconds},
                         {"alpha", reports::GateConfig().alpha}};
    if (!options.append.empty() && fs::exists(file_)) {
      document_ = reports::parse_json(file_, reports::read_text_file(file_));
      reports::check_calibration(document_);
      check_same(design);
    } else {
      if (fs::exists(file_)) {
        throw Error(fmt::format("'{}' exists; --append {} adds runs to it, --out names another file",
                                reports::printable(file_), reports::printable(file_)));
      }
      document_ = reports::new_calibration(program_.environment, design);
    }
    if (const fs::path folder = fs::path(file_).parent_path(); !folder.empty()) {
      fs::create_directories(folder);
    }
  }

  int execute() {
    InterruptGuard guard;
    for (int run = 0; run < options_.runs && !InterruptGuard::stop(); ++run) {
      add_run(fmt::format("run {}/{}", run + 1, options_.runs));
    }
    status_.clear();
    show();
    return InterruptGuard::stop() ? kInterrupted : kSuccess;
  }

 private:
  void check_same(const json& design) const {
    const auto machine = reports::compare_machines(document_["environment"], program_.environment);
    if (machine.same != reports::SameMachine::yes) {
      throw Error(
          fmt::format("'{}' is of another machine ({}); start a new file with --out", reports::printable(file_),
                      machine.differences.empty() ? "unknown" : reports::printable(machine.differences.front())));
    }
    const json& then = reports::member(reports::member(document_["environment"], "build"), "version");
    if (then != reports::member(reports::member(program_.environment, "build"), "version")) {
      throw Error(
          fmt::format("'{}' is of another version of Diptych; start a new file with --out", reports::printable(file_)));
    }
    if (document_["design"] != design) {
      throw Error(fmt::format("'{}' was taken with other workloads, arms or sizes; start a new file with --out",
                              reports::printable(file_)));
    }
  }

  void add_run(const std::string& label) {
    GateJob job;
    job.base = {"A", {}, program_};
    job.head = {"A again", {}, program_};
    job.plan = plan_;
    // Each run has its own layouts and orders, also over several calls with --append.
    job.plan.seed = Rng(options_.seed + document_["runs"].size()).next_u64() >> 11U;
    job.setup.time_decides = true;
    job.setup.base = job.setup.head = "this program";
    job.tiers = {reports::Tier::exact, reports::Tier::time};
    job.skip_unchanged = false;
    job.progress = [&](const std::string& what) { status_.show(label + ": " + what); };
    job.stop = &InterruptGuard::stop();
    const GateOutcome outcome = run_whole_gate(std::move(job));
    if (outcome.interrupted) {
      return;  // half a run says nothing
    }
    reports::add_calibration_run(document_, outcome.base, outcome.head, outcome.gate);
    reports::write_atomically(file_, reports::to_text(document_));
  }

  void show() const {
    const json& summary = document_["summary"];
    fmt::print("{} A/A runs, {} could not tell: {} false alarms, rate {}, at most {} (95 %)\n",
               summary["runs"].get<int>(), summary["cannot_tell"].get<int>(), summary["alarms"].get<int>(),
               reports::format_percent(summary["rate"].get<double>()),
               reports::format_percent(summary["upper_95"].get<double>()));
    for (const json& cell : summary["cells"]) {
      fmt::print("  {:<36} detects {}\n", reports::printable(cell["cell"].get<std::string>()),
                 cell["detectable"].is_number() ? reports::format_percent(cell["detectable"].get<double>()) : "-");
    }
    fmt::print("{}\n", reports::printable(reports::match_calibration(document_, program_.environment).note));
    if (fs::exists(file_)) {
      fmt::print("{}\n", reports::printable(file_));
    }
  }

  const CalibrateOptions& options_;
  std::string file_;
  Measurable program_;
  workloads::RunPlan plan_;
  json document_;
  StatusLine status_;
};

}  // namespace

int calibrate(const CalibrateOptions& options) { return Calibration(options).execute(); }

}  // namespace diptych::cli
