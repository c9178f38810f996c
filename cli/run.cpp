#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/artifacts.h"
#include "cli/names.h"
#include "cli/self.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/kernels/gemm.h"
#include "framework/kernels/isa.h"
#include "profiler/fingerprint.h"
#include "reports/analyse.h"
#include "reports/html.h"
#include "reports/markdown.h"
#include "reports/run_file.h"
#include "reports/schema.h"
#include "reports/table.h"
#include "reports/text.h"
#include "workloads/harness/runner.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// The names in which the regular expression is found. Throws Error if it is broken or matches nothing.
std::vector<std::string> filtered(std::vector<std::string> names, const std::string& filter) {
  try {
    const std::regex expression(filter);
    std::erase_if(names, [&](const std::string& name) { return !std::regex_search(name, expression); });
  } catch (const std::regex_error&) {
    throw Error(fmt::format("--filter: '{}' is no regular expression (ECMAScript)", reports::printable(filter)));
  }
  if (names.empty()) {
    throw Error(
        fmt::format("--filter: '{}' matches no workload; `diptych list` shows them", reports::printable(filter)));
  }
  return names;
}

/// Google Benchmark's flags, but for those that would change how much is measured.
std::vector<std::string> checked(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (!flag.starts_with("--benchmark_") || flag.starts_with("--benchmark_list_tests") ||
        reports::printable(flag) != flag) {
      throw Error(
          fmt::format("'{}' behind -- is no flag of Google Benchmark's that a run can take", reports::printable(flag)));
    }
    if (flag.starts_with("--benchmark_repetitions")) {
      throw Error("--benchmark_repetitions: how often is measured is fixed by --quick, --standard and --certify");
    }
  }
  return flags;
}

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {
    const bool all = options.workloads.empty() && !options.filter.empty();  // a filter alone chooses from all
    plan_.workloads =
        filtered(all ? workloads::names_of_suite("all") : resolve_workloads(options.workloads), options.filter);
    plan_.arms = resolve_arms(options.arms);
    plan_.seed = options.seed;
    plan_.benchmark_options = checked(options.benchmark_options);
    for (const workloads::RunSize& size : workloads::run_sizes()) {
      if (size.name == options.size) {
        plan_.size = size;
      }
    }
    name_ = options.workloads.size() == 1 ? options.workloads[0] : options.size;
    folder_ = make_output_folder(options.out, name_);  // before anything is measured: a full disk costs seconds
  }

  int execute() {
    start_run();
    const auto begin = std::chrono::steady_clock::now();
    workloads::RunHooks hooks;
    hooks.progress = [&](const workloads::RunProgress& progress) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      status_.show(fmt::format("process {}/{}  {} ({}/{})  {}  {:.0f} s", progress.process, progress.processes,
                               progress.workload, progress.cell, progress.cells, progress.what, seconds));
    };
    hooks.cell_done = [&](const json& cells) { save(cells, "partial"); };
    hooks.stop = &InterruptGuard::stop();
    const workloads::RunResult result = workloads::run_processes(plan_, {own_program(), "worker"}, hooks);
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
    run_["environment"]["benchmark"] = result.context;
    const bool complete = !result.interrupted && result.problems.empty();
    save(result.cells, complete ? "complete" : result.interrupted ? "interrupted" : "partial");
    if (!result.interrupted) {
      write_artifacts();
    }
    write_views();
    show(result);
    return result.interrupted ? kInterrupted : complete && all_valid() ? kSuccess : kFailure;
  }

 private:
  void start_run() {
    run_ = {{"schema", reports::schema_id},
            {"name", name_},
            {"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
            {"status", "partial"},
            {"command", options_.command},
            {"size", {{"name", plan_.size.name}, {"processes", plan_.size.processes}, {"rounds", plan_.size.rounds}}},
            {"seed", plan_.seed},
            {"threads", 1},
            {"numerics", "exact"},
            {"environment", profiler::environment_fingerprint()},
            {"cells", json::array()}};
    run_["environment"]["engine"] = {{"blas", kernels::blas_description()},
                                     {"isa", kIsaNames[static_cast<std::size_t>(active_isa())]}};
  }

  void save(const json& cells, const char* status) {
    run_["cells"] = cells;
    run_["status"] = status;
    for (json& cell : run_["cells"]) {
      std::string command = fmt::format("diptych run {} --{} --seed {}", cell["workload"].get<std::string>(),
                                        plan_.size.name, plan_.seed);
      if (!options_.arms.empty()) {
        command += fmt::format(" --arms {}", fmt::join(plan_.arms, ","));
      }
      cell["reproduce"] = command;
    }
    reports::analyse(run_);
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
    fmt::print("{}\n", reports::render_table(run_, {wants_colour(), terminal_width()}));
    for (const std::string& problem : result.problems) {
      fmt::print(stderr, "diptych: {}\n", reports::printable(problem));
    }
    if (result.interrupted) {
      fmt::print(stderr, "diptych: interrupted; what was measured until then is kept\n");
    }
    if (options_.workloads.empty() && options_.filter.empty()) {
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
};

}  // namespace

int run(const RunOptions& options) { return Run(options).execute(); }

}  // namespace diptych::cli
