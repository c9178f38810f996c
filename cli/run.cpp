#include "reports/run/run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/artifacts.h"
#include "cli/folder_lock.h"
#include "cli/latest.h"
#include "cli/names.h"
#include "cli/output.h"
#include "cli/run_plan.h"
#include "cli/self.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/io/naming.h"
#include "framework/io/path_text.h"
#include "reports/analysis/analyse.h"
#include "reports/html/html.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "reports/views/ladder_table.h"
#include "reports/views/markdown.h"
#include "reports/views/summary.h"
#include "reports/views/table.h"
#include "workloads/harness/runner.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options), json_(options.json) {
    if (options.resume.empty()) {
      plan_ = plan_from(options);
      name_ = !options.name.empty()           ? options.name
              : options.workloads.size() == 1 ? io::text_of_path(options.workloads[0])
                                              : options.size;
      folder_ = make_output_folder(options.out, name_);  // before anything is measured: a full disk costs only seconds
      lock_folder();
      run_ = new_run(plan_, name_, options.command, present_environment());
    } else {
      const fs::path typed = options.resume;
      const fs::path given = fs::is_symlink(typed) ? typed.parent_path() / fs::read_symlink(typed) : typed;  // latest
      const fs::path file = fs::is_directory(given) ? given / "run.json" : given;
      folder_ = file.has_parent_path() ? file.parent_path().string() : ".";
      lock_folder();  // before it is read: what another process has measured until then is in it
      run_ = reports::load_run(file);
      plan_ = plan_to_resume(options, run_, file);
      json read = run_;  // what can't be analysed would be so after hours, too
      io::naming(file, [&] { reports::analyse(read); });
      name_ = run_["name"];
    }
  }

  const json& result() const { return run_; }

  int execute() {
    if (!options_.resume.empty()) {
      if (run_["status"] == "complete") {
        fmt::print("{}: complete, nothing to do\n", reports::printable(folder_));
        write_json();
        return kSuccess;
      }
      run_["resumed"] = run_.value("resumed", 0) + 1;
    }
    const auto begin = std::chrono::steady_clock::now();
    workloads::RunHooks hooks;
    hooks.progress = [&](const workloads::RunProgress& progress) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      const std::string left = left_text(progress.seconds_left);
      status_.show(fmt::format("process {}/{}  {} ({}/{})  {}  {:.0f} s{}{}", progress.process, progress.processes,
                               reports::shorten(progress.workload, 30), progress.cell, progress.cells, progress.what,
                               seconds, left.empty() ? "" : ", ", left));
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
        complain("interrupted before the first cell was measured");
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
    if (!result.interrupted && options_.complete) {
      options_.complete(run_, folder_);
      reports::write_atomically(path("run.json"), reports::to_text(run_));
    }
    write_views();
    write_json();  // before anything is printed, so that a full disk costs the table and not the figures
    show(result);
    return result.interrupted ? kInterrupted : complete && all_valid() ? kSuccess : kFailure;
  }

 private:
  void lock_folder() {
    lock_.emplace(folder_);
    if (lock_->is_taken()) {
      throw Error(
          fmt::format("another `diptych run` is measuring into '{}'; let it end, or end it with Ctrl-C, then --resume "
                      "what is missing",
                      reports::printable(folder_)));
    }
  }

  void save(const json& cells, const char* status) {
    set_cells(run_, plan_, cells, status);
    reports::write_atomically(path("run.json"), reports::to_text(run_));
    // A continued run may be in any folder: a link is made where new runs are made, or where there already is one.
    if (!is_linked_ && (options_.resume.empty() || fs::is_symlink(fs::path(folder_).parent_path() / "latest"))) {
      point_latest_at(folder_);
    }
    is_linked_ = true;
  }

  void write_json() {
    if (json_.is_wanted()) {
      json_.write(reports::to_text(run_));
    }
  }

  /// The command line that continues this run. The plan in run.json has most settings; the rest is repeated.
  std::string resuming_line() const {
    std::vector<std::string> words = {options_.program, "run", "--resume", folder_};
    for (const auto& [name, command] : plan_.external_arms) {
      words.insert(words.end(), {"--arm", name + "=" + command});
    }
    if (plan_.instructions_timeout != workloads::kInstructionsTimeout) {
      words.insert(words.end(), {"--instructions-timeout", fmt::format("{}", plan_.instructions_timeout)});
    }
    if (!options_.json.empty()) {
      words.insert(words.end(), {"--json", options_.json});
    }
    return shell_line(words);
  }

  /// A trace of each arm and a picture of each graph, for valid cells.
  void write_artifacts() {
    fs::create_directory(path("traces"));
    fs::create_directory(path("graphs"));
    for (const reports::Cell cell : reports::Run(run_).cells()) {
      if (!cell.validity().agree()) {
        continue;
      }
      if (InterruptGuard::stop()) {
        return;  // what was measured still gets its views
      }
      const workloads::Workload& workload = *workloads::find_workload(cell.workload());
      const std::string base = file_name(workload.name);
      status_.show(fmt::format("traces and pictures: {}", workload.name));
      for (const std::string& arm : plan_.arms) {
        if (arm.find('+') != std::string::npos || workloads::find_arm(arm)->is_external()) {
          continue;  // rungs between replay and graph, and other sets of passes, are traced by `diptych profile`
        }
        workloads::ArmInstance instance(workload, *workloads::find_arm(arm), plan_.seed);
        const Profile profile = trace_calls(instance, 1, 1);
        write_trace(profile.trace, path(fmt::format("traces/{}-{}.json", base, arm)), compiled_graph(instance));
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
    if (options_.show && !result.interrupted) {
      options_.show(run_, folder_);
    } else {
      fmt::print("{}\n",
                 plan_.verb == "ladder" ? reports::render_ladder(run_, view) : reports::render_table(run_, view));
    }
    for (const std::string& problem : result.problems) {
      complain(reports::printable(problem));
    }
    if (result.interrupted) {
      complain(fmt::format("interrupted; what was measured until then is kept. To measure the rest:\n  {}",
                           resuming_line()));
    }
    show_missing_counts();
    show_failed_arms();
    if (options_.workloads.empty() && options_.filter.empty() && options_.resume.empty()) {
      show_left_out();
    }
    if (options_.show && !result.interrupted) {
      return;
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

  /// Shows the first process's figures of a cell as soon as they are known, so that nobody has to wait for the last
  /// process.
  void show_first_figures() {
    const auto cells = reports::Run(run_).cells();
    for (; plan_.size.processes > 1 && shown_cells_ < cells.size(); ++shown_cells_) {
      const reports::Cell cell = cells[shown_cells_];
      if (cell.processes().size() == 1) {
        status_.say(fmt::format("{:<20}  {}  (1 of {} processes)", cell.workload(), reports::figures_line(cell),
                                plan_.size.processes));
      }
    }
  }

  /// Shows each reason once why there are no instruction counts although they were asked for.
  void show_missing_counts() const {
    std::set<std::string> reasons;
    for (const reports::Cell cell : reports::Run(run_).cells()) {
      for (const reports::Arm arm : cell.arms()) {
        if (const reports::Instructions counted = arm.instructions(); counted && !counted.value()) {
          reasons.insert(counted.reason());
        }
      }
    }
    for (const std::string& reason : reasons) {
      complain("instructions were not counted: " + reports::printable(reason));
    }
  }

  void show_failed_arms() const {
    for (const std::string& line : reports::failed_arms(run_)) {
      complain(reports::printable(line));
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
    for (const reports::Cell cell : reports::Run(run_).cells()) {
      if (!cell.validity().agree()) {
        return false;
      }
      for (const reports::Arm arm : cell.arms()) {
        // An arm that isn't installed has reported no framework.
        const bool is_absent = arm.is_external() && arm.framework().empty();
        if (arm.has_failed() && !(options_.arms_may_be_absent && is_absent)) {
          return false;
        }
      }
    }
    return true;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  const RunOptions& options_;
  DocumentOutput json_;
  InterruptGuard guard_;  // before the folder is made, so that Ctrl-C never leaves one without its files
  workloads::RunPlan plan_;
  std::string name_;
  std::string folder_;
  std::optional<FolderLock> lock_;
  json run_;
  StatusLine status_;
  std::size_t shown_cells_ = 0;
  bool is_linked_ = false;  ///< whether `latest` points here, if it can
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
