#include "cli/app.h"

#include <cstdio>
#include <functional>
#include <new>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/completion.h"
#include "cli/explain_verbs.h"
#include "cli/help.h"
#include "cli/onnx_verbs.h"
#include "cli/output.h"
#include "cli/refusal.h"
#include "cli/run_flags.h"
#include "cli/self.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/core/parallel.h"
#include "reports/text/text.h"
#include "workloads/arms/shipped.h"
#include "workloads/harness/out_of_memory.h"

namespace diptych::cli {
namespace {

constexpr const char* kAbout =
    "Diptych measures, explains and guards the gap between eager and graph execution.\n"
    "The same program stands on both panels; the suite says what separates them and why.";

constexpr const char* kExamples =
    "Start with:\n"
    "  diptych doctor                        what this machine can measure\n"
    "  diptych run --quick                   the default set, in a minute\n"
    "  diptych run mlp/digits --standard     one workload, with a verdict\n"
    "  diptych why mlp/digits                why graph mode is faster or slower, on one screen\n"
    "  diptych ladder mlp/digits             what each cause of the gap is worth\n"
    "  diptych graph mlp/digits              its IR before and after each pass\n"
    "  diptych profile mlp/digits --arm eager  where a step's time goes\n"
    "  diptych help run                      the options of a verb, with examples\n"
    "\n";

class Program {
 public:
  Program() : app_(kAbout, "diptych") {
    app_.footer(kExamples + exit_codes());
    app_.require_subcommand(0, 1);
    app_.set_version_flag("--version", std::string("diptych ") + DIPTYCH_VERSION);
    app_.allow_extras();
    add_doctor();
    add_list();
    add_run();
    explain_.add_why(app_, action_);
    add_ladder();
    add_peers();
    explain_.add_profile(app_, action_);
    add_graph();
    add_report();
    add_reproduce();
    add_compare();
    add_gate();
    add_calibrate();
    onnx_.add(app_, action_);
    add_help();
    add_completion();
    add_worker();
  }

  int execute(int argc, char** argv) {
    workloads::add_shipped_arms(own_program());
    std::vector<std::string> arguments(argv + 1, argv + argc);
    run_.program = ladder_.run.program = peers_.run.program = argv[0];
    run_.command.emplace_back("diptych");
    run_.command.insert(run_.command.end(), arguments.begin(), arguments.end());
    ladder_.run.command = run_.command;
    peers_.run.command = run_.command;
    explain_.started_as(argv[0], run_.command);
    const auto separator = std::find(arguments.begin(), arguments.end(), "--");
    if (separator != arguments.end()) {
      run_.benchmark_options.assign(separator + 1, arguments.end());
      arguments.erase(separator, arguments.end());
    }
    for (const std::string& argument : arguments) {
      if (argument.starts_with("--") && argument.ends_with('=')) {
        throw Error(fmt::format("{} has no value", reports::printable(argument)));
      }
    }
    give_bare_pin_a_value(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them in reverse order
    try {
      app_.parse(arguments);
    } catch (const CLI::CallForHelp&) {
      refuse_unknown(app_);
      fmt::print("{}", help_of(chosen_verb()));
      return kSuccess;
    } catch (const CLI::CallForVersion& version) {
      fmt::print("{}\n", version.what());
      return kSuccess;
    } catch (const CLI::ParseError& error) {
      throw Error(fmt::format("{}; `{} --help` shows what there is", error.what(), full_name(chosen_verb())));
    }
    refuse_unknown(app_);
    if (!action_ && &chosen_verb() != &app_) {
      throw Error(fmt::format("a verb is missing; `{} --help` shows what there is", full_name(chosen_verb())));
    }
    if (!action_) {
      fmt::print("{}", help_of(app_));
      return arguments.empty() ? kSuccess : kFailure;
    }
    return action_();
  }

 private:
  CLI::App* add_verb(const char* name, const char* description, std::function<int()> action) {
    CLI::App* verb = app_.add_subcommand(name, description);
    verb->allow_extras();
    verb->callback([this, action = std::move(action)] { action_ = action; });
    return verb;
  }

  static void add_layout(CLI::App* verb, int& layout) {
    verb->add_option("--layout", layout, "Of the memory layouts that the seed gives, this one")
        ->capture_default_str()
        ->check(CLI::Range(0, 1000000));
  }

  void add_doctor() {
    CLI::App* verb = add_verb("doctor", "What this machine can measure, and what makes it noisy",
                              [this] { return doctor(doctor_); });
    verb->add_flag("--json", doctor_.json, "Print what the findings rest on, as JSON")->disable_flag_override();
    verb->footer(
        "Examples:\n"
        "  diptych doctor                        before the first run: a remedy stands beside each finding\n"
        "  diptych doctor --json >machine.json");
  }
  void add_list() {
    CLI::App* verb = add_verb("list", "Workloads and arms", [this] { return list(list_); });
    verb->add_option("--suite", list_.suite, "Only this suite")->type_name("SUITE");
    verb->add_flag("--passes", list_.passes, "The compiler's passes instead")->disable_flag_override();
    verb->add_flag("--json", list_.json, "Names, suites and arms as JSON")->disable_flag_override();
    auto* ops = verb->add_flag("--ops", list_.ops, "The engine's ops instead")->disable_flag_override();
    verb->add_flag("--markdown", list_.markdown, "With --ops: as docs/ops.md")->needs(ops);
    verb->footer(
        "Examples:\n"
        "  diptych list                          what `run`, `ladder`, `graph` and `profile` take\n"
        "  diptych list --suite vit\n"
        "  diptych list --passes                 in the compiler's order\n"
        "A * marks the default set, which `diptych run` measures without names.");
  }
  void add_run() {
    CLI::App* verb = add_verb("run", "Measure; writes run.json, report.html, summary.md, traces and pictures", [this] {
      run_.given = given_options(*app_.get_subcommand("run"));
      return run(run_);
    });
    verb->add_option("workload", run_.workloads,
                     "Workloads, suites, or all (the default set: starred in `diptych list`)")
        ->type_name("WORKLOAD");
    add_sizes(verb, run_);
    add_measuring_flags(verb, run_);
    add_injection_flags(verb, run_);
    verb->add_option("--arms", run_.arms, "Arms, separated by commas, or ladder for every rung (eager,replay,graph)")
        ->type_name("ARM")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--arm", run_.own_arms, "Another framework as an arm (docs/arms.md)")
        ->type_name("NAME=COMMAND")
        ->allow_extra_args(false);
    add_seed(verb, run_.seed, "Of inputs, models and schedule");
    add_layout(verb, run_.layout);
    verb->add_option("--filter", run_.filter,
                     "Only workloads that match this regular expression (without names: of all)");
    verb->add_option("--out", run_.out, "Where run folders are made")->capture_default_str();
    verb->add_option("--resume", run_.resume, "Continue an unfinished run in its folder: what is missing is measured");
    add_json(verb, run_);
    verb->footer(
        "Examples:\n"
        "  diptych run vit --standard --pin          one suite, bound to one CPU\n"
        "  diptych run mlp/digits --metric exact     nodes, dispatches, allocations, bytes: seconds, no timing\n"
        "  diptych run --resume diptych-out/latest   after Ctrl-C\n"
        "  diptych run mlp --json - | jq .cells      the figures for a program; all else goes to standard error\n"
        "What stands behind -- goes to Google Benchmark, which hosts the measuring processes. More: docs/harness.md.");
  }
  void add_ladder() {
    CLI::App* verb = add_verb("ladder", "From eager to the fastest graph, one cause a rung: what each saves",
                              [this] { return ladder(ladder_); });
    verb->add_option("workload", ladder_.workload, "What to measure")->required()->type_name("WORKLOAD");
    ladder_.run.ladder = true;
    add_sizes(verb, ladder_.run);
    add_measuring_flags(verb, ladder_.run);
    verb->add_flag("--shuffle-order", ladder_.run.shuffle_order,
                   "Add the passes in other orders too: how far a share depends on its place")
        ->disable_flag_override();
    add_against(verb, ladder_.against);
    add_seed(verb, ladder_.run.seed, "Of inputs, models and schedule");
    add_layout(verb, ladder_.run.layout);
    add_json(verb, ladder_.run);
    verb->add_option("--out", ladder_.run.out, "Where run folders are made")->capture_default_str();
    verb->footer(
        "All rungs are timed in the same rounds. The ladder is also a section of report.html.\n"
        "Examples:\n"
        "  diptych ladder mlp/digits\n"
        "  diptych ladder mlp/digits --standard --shuffle-order --json ladder.json\n"
        "How to read it: docs/ladder.md.");
  }
  void add_peers() {
    CLI::App* verb = add_verb("peers", "The suites beside PyTorch and ONNX Runtime, in the same rounds", [this] {
      peers_.run.given = given_options(*app_.get_subcommand("peers"));
      return peers(peers_);
    });
    verb->add_option("workload", peers_.run.workloads,
                     "Workloads (one of each kind of model); of those that train, the trained model")
        ->type_name("WORKLOAD");
    add_sizes(verb, peers_.run);
    verb->add_option("--arms", peers_.run.arms,
                     "Arms, separated by commas (eager,graph,torch-eager,torch-script,libtorch,ort)")
        ->type_name("ARM")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--arm", peers_.run.own_arms, "Another framework as an arm (docs/arms.md)")
        ->type_name("NAME=COMMAND")
        ->allow_extra_args(false);
    add_seed(verb, peers_.run.seed, "Of inputs, models and schedule");
    verb->add_option("--markdown", peers_.markdown,
                     "Write the tables to this file, as Markdown; - for standard output");
    verb->add_option("--out", peers_.run.out, "Where run folders are made")->capture_default_str();
    verb->footer(
        "Examples:\n"
        "  diptych peers mlp/digits --arms eager,graph,ort\n"
        "  diptych peers --standard --markdown peers.md\n"
        "An arm that isn't installed is named, with how to get it; the others are measured. How arms take part:\n"
        "docs/arms.md; what it gave on one machine: docs/peers.md.");
  }
  void add_graph() {
    CLI::App* verb =
        add_verb("graph", "The IR of a workload, as captured and after each pass", [this] { return graph(graph_); });
    verb->add_option("workload", graph_.workload, "What to compile")->required()->type_name("WORKLOAD");
    verb->add_option("--stage", graph_.stage, "captured, a pass, final, or all")
        ->type_name("STAGE")
        ->capture_default_str();
    verb->add_option("--format", graph_.formats, "txt, svg, dot, html, separated by commas")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"txt", "svg", "dot", "html"}))
        ->capture_default_str();
    verb->add_flag("--readiness", graph_.readiness,
                   "What would stop or hurt a capture, found in eager: host reads, branches, untracked state");
    verb->add_flag(
        "--check-passes", graph_.check_passes,
        "Run the graph after each pass, value by value: the first that changes a bit is named, and the value");
    verb->add_flag(
        "--time-fused", graph_.time_fused,
        "Time every fused kernel in the program, beside the kernels that it replaces; those that lose come first");
    verb->add_flag("--times", graph_.times,
                   "Trace eager beside graph: graph.html opens with both, what each op takes, and its share of the "
                   "machine's limit");
    add_seed(verb, graph_.seed, "Of inputs and models");
    verb->add_option("--out", graph_.out, "Where the folder is made")->capture_default_str();
    verb->footer(
        "Examples:\n"
        "  diptych graph mlp/digits                                 every stage, as text and picture\n"
        "  diptych graph vit/tiny --stage final --format svg\n"
        "  diptych graph model.onnx --check-passes                  does a pass change a bit?\n"
        "  diptych graph model.onnx --readiness                     can it be captured?\n"
        "  diptych graph gpt/mini --time-fused                      does each fused kernel pay?\n"
        "  diptych graph vit/tiny --times --format html             where is the time?\n"
        "  diptych graph model.onnx:batch=8 --stage captured --format txt,dot\n"
        "  diptych graph 00-captured.txt:special --check-passes     a graph's text is a workload too: on zeros, NaN "
        "...\n"
        "It prints what each pass did, and writes NN-<stage>.txt, .svg and .dot, where the text parses back to the "
        "same "
        "graph, and graph.html: all stages on one page, whose boxes open (docs/graph-explorer.md).");
  }
  void add_report() {
    CLI::App* verb =
        add_verb("report",
                 "Render report.html and summary.md again from a run.json; of two runs, compare.html; of a folder of "
                 "runs, index.html",
                 [this] { return report(report_); });
    verb->add_option("run", report_.run, "run.json, or its folder; or a folder that holds run folders")->required();
    verb->add_option("head", report_.head, "A second run, of what came after: both on one page");
    verb->add_option("--by", report_.by, "Of two runs: commit, arm or machine, as in `diptych compare`")
        ->check(CLI::IsMember({"commit", "arm", "machine"}))
        ->capture_default_str();
    verb->add_flag("--force-time", report_.force_time, "Of two runs: compare times even if the machines differ")
        ->disable_flag_override();
    verb->add_option("--out", report_.out,
                     "Folder for compare.html (the second run's), or for index.html (the folder of runs)");
    verb->add_option("--format", report_.format,
                     "html; of one run google-benchmark: benchmark.json; of a folder of runs json: history.json")
        ->check(CLI::IsMember({"html", "json", "google-benchmark"}))
        ->capture_default_str();
    verb->footer(
        "Examples:\n"
        "  diptych report diptych-out/latest                        after an update of Diptych: its views of old "
        "figures\n"
        "  diptych report diptych-out/<run> diptych-out/latest      compare.html: what changed, cell by cell\n"
        "  diptych report diptych-out                               index.html: every run below it, what changed when\n"
        "  diptych report run.json --format google-benchmark        for tools that read its JSON\n"
        "Nothing is measured. The files are written beside run.json, over those that are there; of a folder of runs,\n"
        "into that folder (docs/history.md). A folder with a run.json of its own is that one run.");
  }
  void add_reproduce() {
    CLI::App* verb = add_verb("reproduce", "The command, seed and build behind one number of a run; --run runs it",
                              [this] { return reproduce(reproduce_); });
    verb->add_option("run", reproduce_.run, "run.json, or its folder")->required();
    verb->add_option("cell", reproduce_.cell, "A workload of the run")->required()->type_name("WORKLOAD");
    verb->add_option("--arm", reproduce_.arm, "Only this arm, and eager (all of the run's)")->type_name("ARM");
    verb->add_flag("--run", reproduce_.execute, "Run it, and show both figures")->disable_flag_override();
    verb->add_option("--out", reproduce_.out, "Where the run folder is made")->capture_default_str();
    verb->footer(
        "Examples:\n"
        "  diptych reproduce diptych-out/latest mlp/digits\n"
        "  diptych reproduce diptych-out/<run> mlp/digits --arm graph --run\n"
        "Also says in what this build and this machine differ from those of the run. scripts/reproduce builds the\n"
        "run's own program again, from the revision that it names.");
  }
  void add_compare() {
    CLI::App* verb = add_verb("compare", "What changed between two runs, with intervals, and how the machines differ",
                              [this] { return compare(compare_); });
    verb->add_option("base", compare_.base, "run.json or its folder, or a JSON file of Google Benchmark")->required();
    verb->add_option("head", compare_.head, "The same, of what came after")->required();
    verb->add_option("--by", compare_.by,
                     "What the files are: commit (two builds on one machine), arm (how far each "
                     "arm leads over eager), machine (one build on two machines)")
        ->check(CLI::IsMember({"commit", "arm", "machine"}))
        ->capture_default_str();
    verb->add_flag("--force-time", compare_.force_time, "Compare times even if the machines differ")
        ->disable_flag_override();
    verb->add_option(
        "--json", compare_.json,
        "Also write the comparison to this file (diptych.compare/1); - for standard output: all else then goes to "
        "standard error");
    verb->add_option("--markdown", compare_.markdown, "Also write it to this file as Markdown; - as with --json");
    verb->footer(
        "Examples:\n"
        "  diptych compare diptych-out/<run> diptych-out/latest\n"
        "  diptych compare here.json there.json --by machine\n"
        "Exact metrics (nodes, dispatches, allocations, bytes) compare anywhere and allow no change, instructions 0.5 "
        "%,\n"
        "times 2 %. Times of different machines are INVALID. `diptych --help` has the exit codes.");
  }
  void add_gate() {
    CLI::App* verb =
        add_verb("gate", "Verdicts for CI: is head worse than base? Exit 0 pass, 2 regression, 3 cannot tell",
                 [this] { return gate(gate_); });
    verb->add_option("--base", gate_.base, "A run file or its folder, a diptych program, or a git ref (is built)");
    verb->add_option("--head", gate_.head, "The same (without it: this program)");
    verb->add_option("--config", gate_.config, "What is allowed (diptych.toml, if there is one)");
    verb->add_option("--metrics", gate_.metrics, "exact, instructions, time, separated by commas (exact,time)")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--workloads", gate_.workloads, "Workloads or suites, separated by commas (the default set)")
        ->type_name("WORKLOAD")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--arms", gate_.arms, "Arms, separated by commas (those of the ladder)")
        ->type_name("ARM")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--calibration", gate_.calibration, "A/A runs of this machine: without them times don't decide")
        ->capture_default_str();
    verb->add_option("--build-dir", gate_.build_dir,
                     "Keep the builds of git refs here, by revision (a temporary folder)");
    add_seed(verb, gate_.seed, "Of inputs, models and schedule");
    add_instructions_timeout(verb, gate_.instructions_timeout);
    verb->add_option("--out", gate_.out, "Where the folder is made")->capture_default_str();
    verb->add_flag("--annotations", gate_.annotations, "Print GitHub annotations (by itself where GITHUB_ACTIONS=true)")
        ->disable_flag_override();
    verb->add_flag("--self-test", gate_.self_test, "Prove that the gate can fail, in about two minutes")
        ->disable_flag_override();
    verb->footer(
        "Examples:\n"
        "  diptych gate --base main --head HEAD          both are built and measured interleaved\n"
        "  diptych gate --base old/diptych               this program against another\n"
        "  diptych gate --base baseline.json --metrics exact\n"
        "  diptych gate --self-test\n"
        "A regression is measured twice, the second time in fresh processes. `diptych --help` has the exit codes.");
  }
  void add_calibrate() {
    CLI::App* verb = add_verb("calibrate", "A/A: how often the gate is wrong on this machine, and what it detects",
                              [this] { return calibrate(calibrate_); });
    verb->add_option("--runs", calibrate_.runs, "Gate runs of this program against itself")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000));
    auto* out = verb->add_option("--out", calibrate_.out, "The file to write")->capture_default_str();
    verb->add_option("--append", calibrate_.append, "Add the runs to this file (is made if it isn't there)")
        ->excludes(out);
    verb->add_option("--workloads", calibrate_.workloads, "Workloads, separated by commas")
        ->type_name("WORKLOAD")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->capture_default_str();
    verb->add_option("--arms", calibrate_.arms, "Arms, separated by commas (those of the ladder)")
        ->type_name("ARM")
        ->delimiter(',')
        ->allow_extra_args(false);
    auto* slower = verb->add_option("--inject-time", calibrate_.inject_time,
                                    "Slow all arms but eager of one side by this fraction: how often is it caught?")
                       ->check(CLI::Range(0.001, 10.0));
    verb->add_option("--inject-instructions", calibrate_.inject_instructions, "The same with instructions (valgrind)")
        ->check(CLI::Range(0.001, 10.0))
        ->excludes(slower);
    add_seed(verb, calibrate_.seed, "Of the layouts and orders of all runs");
    verb->footer(
        "Examples:\n"
        "  diptych calibrate                                        once a machine, before `gate` judges times on it\n"
        "  diptych calibrate --runs 100 --append diptych-out/aa.json\n"
        "Every run is kept as it ends; 20 runs let times decide in `gate`, 299 without an alarm bound the rate at 1 "
        "%.");
  }
  void add_help() {
    CLI::App* verb = add_verb("help", "This, or the help of a verb", [this] {
      fmt::print("{}", help_of(verb_of(app_, help_words_)));
      return kSuccess;
    });
    verb->add_option("verb", help_words_, "Which, as it is typed")->type_name("VERB");
    verb->footer(
        "Examples:\n"
        "  diptych help run\n"
        "  diptych help onnx check");
  }
  void add_completion() {
    CLI::App* verb = add_verb("completion", "The script that completes verbs, options and names in a shell", [this] {
      fmt::print("{}", completion_script(app_, shell_));
      return kSuccess;
    });
    verb->add_option("shell", shell_, "Which")->required()->check(CLI::IsMember({"bash", "zsh"}));
    verb->footer(
        "Examples:\n"
        "  source <(diptych completion bash)                         for this shell\n"
        "  diptych completion zsh >~/.zfunc/_diptych                 where $fpath has ~/.zfunc\n"
        "`cmake --install` puts both where shells look.");
  }
  void add_worker() {
    CLI::App* verb =
        add_verb("worker", "One measuring process; started by `run`", [this] { return worker(worker_plan_); });
    verb->group("");  // internal: hidden from --help
    verb->add_option("--plan", worker_plan_)->required();
  }

  /// The verb that was typed (for "onnx check", the second word), or the program itself if there is none.
  const CLI::App& chosen_verb() const {
    const CLI::App* verb = &app_;
    for (auto chosen = app_.get_subcommands(); !chosen.empty(); chosen = verb->get_subcommands()) {
      verb = chosen.front();
    }
    return *verb;
  }

  CLI::App app_;
  std::function<int()> action_;
  DoctorOptions doctor_;
  ListOptions list_;
  RunOptions run_;
  LadderOptions ladder_;
  PeersOptions peers_;
  std::string worker_plan_;
  ExplainVerbs explain_;
  GraphOptions graph_;
  ReportOptions report_;
  ReproduceOptions reproduce_;
  CompareVerbOptions compare_;
  GateVerbOptions gate_;
  CalibrateOptions calibrate_;
  OnnxVerbs onnx_;
  std::vector<std::string> help_words_;
  std::string shell_;
};

}  // namespace

int run_app(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);  // so that a file-size limit becomes a failed write, with a message
  claim_standard_streams();
  int code = kFailure;
  std::string problem;
  try {
    expect_possible_thread_count();
    code = Program().execute(argc, argv);
  } catch (const std::bad_alloc& error) {
    std::fprintf(stderr, "diptych: %s\n", workloads::OutOfMemoryText(error).c_str());
  } catch (const std::exception& error) {
    problem = error.what();
  }
  // Also checked if the failed write ended the verb: what was lost says more than which call noticed it.
  if (const std::string lost = lost_output(); !lost.empty()) {
    code = kFailure;
    problem = lost;
  }
  if (!problem.empty()) {
    complain(reports::printable(problem));
  }
  return code;
}

}  // namespace diptych::cli
