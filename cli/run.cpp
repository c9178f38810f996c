#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/artifacts.h"
#include "cli/names.h"
#include "cli/run_plan.h"
#include "cli/self.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "reports/html.h"
#include "reports/ladder_table.h"
#include "reports/markdown.h"
#include "reports/run_file.h"
#include "reports/summary.h"
#include "reports/table.h"
#include "reports/text.h"
#include "workloads/harness/runner.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {
    if (options.resume.empty()) {
      plan_ = plan_from(options);
      name_ = options.workloads.size() == 1 ? options.workloads[0] : options.size;
      folder_ = make_output_folder(options.out, name_);  // before anything is measured: a full disk costs seconds
      run_ = new_run(plan_, name_, options.command, present_environment());
    } else {
      const fs::path given = options.resume;
      const fs::path file = fs::is_directory(given) ? given / "run.json" : given;
      run_ = reports::load_run(file);
      plan_ = plan_to_resume(options, run_, file);
      name_ = run_["name"];
      folder_ = file.has_parent_path() ? file.parent_path().string() : ".";
    }
  }

  const json& result() const { return run_; }

  int execute() {
    if (!options_.resume.empty()) {
      if (run_["status"] == "complete") {
        fmt::print("{}: complete, nothing to do\n", reports::printable(folder_));
        return kSuccess;
      }
      run_["resumed"] = run_.value("resumed", 0) + 1;
    }
    const auto begin = std::chrono::steady_clock::now();
    workloads::RunHooks hooks;
    hooks.progress = [&](const workloads::RunProgress& progress) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      status_.show(fmt::format("process {}/{}  {} ({}/{})  {}  {:.0f} s", progress.process, progress.processes,
                               progress.workload, progress.cell, progress.cells, progress.what, seconds));
    };
    hooks.cell_done = [&](const json& cells) {
      save(cells, "partial");
      show_first_figures();
    };
    hooks.stop = &InterruptGuard::stop();
    const workloads::RunResult result =
        workloads::run_processes(plan_, {own_program(), "worker"}, hooks, run_["cells"]);
    status_.clear();
    if (result.cells.empty()) {
      fs::remove(folder_);  // only if nothing was written
      if (result.interrupted) {
        fmt::print(stderr, "diptych: interrupted before the first cell was measured\n");
        return kInterrupted;
      }
      throw Error(result.problems.empty() ? std::string("nothing was measured: --benchmark_filter matches no workload")
                                          : "nothing was measured: " + result.problems.front());
    }
    if (!result.context.is_null()) {
      run_["environment"]["benchmark"] = result.context;
    }
    const bool complete = !result.interrupted && result.problems.empty();
    save(result.cells, complete ? "complete" : result.interrupted ? "interrupted" : "partial");
    if (!result.interrupted && plan_.measures("time")) {
      write_artifacts();
    }
    write_views();
    show(result);
    if (!options_.json.empty()) {
      reports::write_atomically(options_.json, reports::to_text(run_));
    }
    return result.interrupted ? kInterrupted : complete && all_valid() ? kSuccess : kFailure;
  }

 private:
  void save(const json& cells, const char* status) {
    set_cells(run_, plan_, cells, status);
    reports::write_atomically(path("run.json"), reports::to_text(run_));
  }

  /// A trace of each arm and a picture of each graph, of what was valid.
  void write_artifacts() {
    fs::create_directory(path("traces"));
    fs::create_directory(path("graphs"));
    for (const json& cell : run_["cells"]) {
      if (cell["validity"]["agree"] != true) {
        continue;
      }
      if (InterruptGuard::stop()) {
        return;  // what was measured still gets its views
      }
      const workloads::Workload& workload = *workloads::find_workload(cell["workload"].get<std::string>());
      const std::string base = file_name(workload.name);
      status_.show(fmt::format("traces and pictures: {}", workload.name));
      for (const std::string& arm : plan_.arms) {
        if (arm.find('+') != std::string::npos || workloads::find_arm(arm)->is_external()) {
          continue;  // rungs between replay and graph, and other sets of passes: `diptych profile` traces them
        }
        workloads::ArmInstance instance(workload, *workloads::find_arm(arm), plan_.seed);
        write_trace(trace_calls(instance, 1, 1).trace, path(fmt::format("traces/{}-{}.json", base, arm)));
      }
      const CompiledStages compiled = compile_stages(workload, plan_.seed);
      const std::string title = fmt::format("{}: the graph after all passes", workload.name);
      const std::string svg = render_stage(compiled, compiled.stages.size() - 1, title, "g" + base);
      reports::write_atomically(path(fmt::format("graphs/{}.svg", base)), svg);
    }
    status_.clear();
  }

  void write_views() {
    reports::write_atomically(path("summary.md"), reports::render_markdown(run_));
    reports::write_atomically(path("report.html"), reports::render_html(run_, {report_pictures(run_, folder_)}));
  }

  void show(const workloads::RunResult& result) {
    const reports::TableOptions view{wants_colour(), terminal_width()};
    fmt::print("{}\n", plan_.verb == "ladder" ? reports::render_ladder(run_, view) : reports::render_table(run_, view));
    for (const std::string& problem : result.problems) {
      fmt::print(stderr, "diptych: {}\n", reports::printable(problem));
    }
    if (result.interrupted) {
      fmt::print(stderr, "diptych: interrupted; what was measured until then is kept\n");
    }
    show_missing_counts();
    show_failed_arms();
    if (options_.workloads.empty() && options_.filter.empty() && options_.resume.empty()) {
      show_left_out();
    }
    fmt::print("{}/\n", reports::printable(folder_));
    fmt::print("  report.html   the report: open it in a browser\n");
    fmt::print("  summary.md    the same in short\n");
    fmt::print("  run.json      every figure and raw round\n");
    if (fs::exists(path("traces"))) {
      fmt::print("  traces/       one step of every arm, for ui.perfetto.dev\n");
      fmt::print("  graphs/       the compiled graphs as pictures\n");
    }
  }

  /// What the first process says of a cell, as soon as it has: nobody waits for the last process to see a figure.
  void show_first_figures() {
    const std::size_t done = run_["cells"].size();
    for (; plan_.size.processes > 1 && shown_cells_ < done; ++shown_cells_) {
      const json& cell = run_["cells"][shown_cells_];
      if (cell["processes"].size() == 1) {
        status_.say(fmt::format("{:<20}  {}  (1 of {} processes)", cell["workload"].get<std::string>(),
                                reports::figures_line(cell), plan_.size.processes));
      }
    }
  }

  /// Each reason once: instructions were asked for, and there are none.
  void show_missing_counts() const {
    std::set<std::string> reasons;
    for (const json& cell : run_["cells"]) {
      for (const json& arm : cell["arms"]) {
        if (const auto counts = arm.find("instructions"); counts != arm.end() && (*counts)["value"].is_null()) {
          reasons.insert(counts->value("reason", ""));
        }
      }
    }
    for (const std::string& reason : reasons) {
      fmt::print(stderr, "diptych: instructions were not counted: {}\n", reports::printable(reason));
    }
  }

  void show_failed_arms() const {
    for (const std::string& line : reports::failed_arms(run_)) {
      fmt::print(stderr, "diptych: {}\n", reports::shorten(reports::printable(line), 600));
    }
  }

  void show_left_out() const {
    std::vector<std::string> others = workloads::names_of_suite("all");
    std::erase_if(others, [&](const std::string& name) {
      return std::find(plan_.workloads.begin(), plan_.workloads.end(), name) != plan_.workloads.end();
    });
    if (!others.empty()) {
      fmt::print("Not in the default set: {}.\n`diptych run` with a name, a suite or `all` measures them.\n",
                 folded(others));
    }
  }

  bool all_valid() const {
    for (const json& cell : run_["cells"]) {
      if (cell["validity"]["agree"] != true) {
        return false;
      }
      for (const json& arm : cell["arms"]) {
        // One that isn't installed has said nothing of itself.
        const bool is_absent = arm.contains("external") && arm["external"]["framework"].is_null();
        if (arm.contains("failed") && !(options_.arms_may_be_absent && is_absent)) {
          return false;
        }
      }
    }
    return true;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  const RunOptions& options_;
  InterruptGuard guard_;  // before the folder is made: Ctrl-C never leaves one without its files
  workloads::RunPlan plan_;
  std::string name_;
  std::string folder_;
  json run_;
  StatusLine status_;
  std::size_t shown_cells_ = 0;
};

}  // namespace

int run(const RunOptions& options, json* result) {
  Run run(options);
  const int code = run.execute();
  if (result != nullptr) {
    *result = run.result();
  }
  return code;
}

}  // namespace diptych::cli
