#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/gate_job.h"
#include "cli/names.h"
#include "cli/output.h"
#include "cli/self.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/core/temporary_folder.h"
#include "framework/io/naming.h"
#include "reports/gate/calibration.h"
#include "reports/gate/documents.h"
#include "reports/run/json_access.h"
#include "reports/run/run_file.h"
#include "reports/text/suggest.h"
#include "reports/text/text.h"
#include "reports/views/gate_views.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))); }

/// The named file; otherwise diptych.toml in this folder, if there is one.
reports::GateConfig read_config(const std::string& named) {
  const std::string file = named.empty() ? "diptych.toml" : named;
  if (named.empty() && !fs::exists(file)) {
    return {};
  }
  return reports::parse_gate_config(reports::read_text_file(file), file, today());
}

std::set<reports::Tier> read_tiers(const std::vector<std::string>& names) {
  std::set<reports::Tier> tiers;
  for (const std::string& name : names) {
    const auto tier = reports::tier_of(name);
    if (!tier) {
      throw Error(reports::unknown("metric", name, std::vector<std::string>{"exact", "instructions", "time"}));
    }
    tiers.insert(*tier);
  }
  return tiers;
}

/// Whether times may decide, and why.
void calibrate_setup(reports::GateSetup& setup, const std::string& file, const json& environment) {
  if (!fs::exists(file)) {
    setup.time_note =
        fmt::format("advisory: no calibration ('{}'); `diptych calibrate` takes one", reports::printable(file));
    return;
  }
  const reports::CalibrationMatch match = io::naming(file, [&] {
    return reports::match_calibration(reports::parse_json(file, reports::read_text_file(file)), environment);
  });
  setup.time_decides = match.holds;
  setup.time_note = match.holds ? match.note : "advisory: " + match.note;
}

void write_runs(const GateOutcome& outcome, const std::string& folder) {
  const auto write = [&](const char* name, const json& run) {
    if (!run.is_null()) {
      reports::write_atomically(folder + "/" + name, reports::to_text(run));
    }
  };
  write("base.json", outcome.base);
  write("head.json", outcome.head);
  write("base-again.json", outcome.base_again);
  write("head-again.json", outcome.head_again);
}

void write_verdict(const reports::GateDocument& gate, const std::string& folder) {
  reports::write_atomically(folder + "/gate.md", reports::render_gate_markdown(gate));
  reports::write_atomically(folder + "/junit.xml", reports::render_junit(gate));
  reports::write_atomically(folder + "/gate.json", reports::to_text(gate.json()));
}

bool in_github_actions() {
  const char* value = std::getenv("GITHUB_ACTIONS");
  return value != nullptr && value == std::string("true");
}

/// `build_cache`: where git refs are built. Every possible mistake in the arguments is found here.
GateJob prepare(const GateVerbOptions& options, const std::string& build_cache,
                const std::function<void(const std::string&)>& progress) {
  GateJob job;
  job.config = read_config(options.config);  // first, so that a mistake in it costs no measurement
  job.setup.today = today();
  job.progress = progress;
  job.stop = &InterruptGuard::stop();
  const auto chosen = [](const std::vector<std::string>& typed, const std::vector<std::string>& configured) {
    return typed.empty() ? configured : typed;
  };
  const std::vector<std::string> metrics = chosen(options.metrics, job.config.metrics);
  job.tiers = read_tiers(metrics.empty() ? std::vector<std::string>{"exact", "time"} : metrics);
  job.base = resolve_side(options.base, build_cache, progress);
  job.head = resolve_side(options.head.empty() ? own_program() : options.head, build_cache, progress);
  job.setup.base = job.base.name;
  job.setup.head = job.head.name;
  job.plan = gate_plan(job.tiers, options.seed);
  job.plan.instructions_timeout = options.instructions_timeout;
  const std::vector<std::string> workloads = chosen(options.workloads, job.config.workloads);
  job.plan.workloads = workloads.empty() ? std::vector<std::string>{} : resolve_workloads(workloads);
  const std::vector<std::string> arms = chosen(options.arms, job.config.arms);
  job.plan.arms = arms.empty() ? arms : resolve_arms(arms);
  refuse_external_arms(job.plan.arms, "a gate");
  if (job.tiers.contains(reports::Tier::time)) {
    calibrate_setup(job.setup, options.calibration, job.head.environment());
  }
  return job;
}

/// Prints the verdict before writing it, so that a full disk costs the files and not the verdict. Returns the exit
/// code.
int report_outcome(const GateOutcome& outcome, const std::string& folder, bool annotations) {
  fmt::print("{}\n", reports::render_gate(outcome.gate, {wants_colour(), terminal_width()}));
  if (annotations) {
    fmt::print("{}", reports::render_annotations(outcome.gate));
  }
  std::fflush(stdout);
  write_runs(outcome, folder);
  write_verdict(outcome.gate, folder);
  fmt::print("{}/\n  gate.md  junit.xml  gate.json\n", reports::printable(folder));
  if (outcome.interrupted) {
    complain("interrupted; what was measured until then is kept, and is no verdict");
    return kInterrupted;
  }
  return reports::GateDocument(outcome.gate).exit_code();
}

int run_named(const GateVerbOptions& options) {
  if (options.base.empty()) {
    throw Error("gate needs --base: a run file, a program, or a git ref; `diptych gate --help` shows examples");
  }
  InterruptGuard guard;
  StatusLine status;
  std::optional<TemporaryFolder> temporary;
  const std::string cache =
      options.build_dir.empty() ? temporary.emplace("diptych-gate").path().string() : options.build_dir;
  GateJob job = prepare(options, cache, [&](const std::string& what) { status.show(what); });
  const std::string folder = make_output_folder(options.out, "gate");
  job.save = [&](const std::string& name, const json& run) {
    reports::write_atomically(folder + "/" + name + ".json", reports::to_text(run));
  };
  const GateOutcome outcome = run_gate(std::move(job));
  status.clear();
  if (!outcome.problem.empty()) {
    write_runs(outcome, folder);
    throw Error(fmt::format("{}; no verdict; what was measured until then is in {}/", outcome.problem,
                            reports::printable(folder)));
  }
  return report_outcome(outcome, folder, options.annotations || in_github_actions());
}

}  // namespace

workloads::RunPlan gate_plan(const std::set<reports::Tier>& tiers, std::uint64_t seed) {
  workloads::RunPlan plan;
  plan.seed = seed;
  plan.metrics.clear();
  for (const reports::Tier tier : tiers) {
    plan.metrics.emplace_back(reports::tier_name(tier));
  }
  const auto& sizes = workloads::run_sizes();
  plan.size = *std::find_if(sizes.begin(), sizes.end(), [](const auto& size) { return size.name == "gate"; });
  if (!tiers.contains(reports::Tier::time)) {
    plan.size.processes = 1;  // counts are the same in every process
  }
  return plan;
}

int gate(const GateVerbOptions& options) { return options.self_test ? gate_self_test(options) : run_named(options); }

}  // namespace diptych::cli
