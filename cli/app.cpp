#include "cli/app.h"

#include <charconv>
#include <cstdio>
#include <functional>
#include <new>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/onnx_verbs.h"
#include "cli/run_flags.h"
#include "cli/self.h"
#include "cli/suggest.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "reports/text.h"
#include "workloads/arms/shipped.h"

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
    "  diptych ladder mlp/digits             what each cause of the gap is worth\n"
    "  diptych graph mlp/digits              its IR before and after each pass\n"
    "  diptych profile mlp/digits --arm eager\n"
    "\n"
    "Exit codes: 0 done; 1 wrong usage, an error, or arms that disagree; 2 a regression (gate); 3 cannot tell (gate,\n"
    "compare); 130 interrupted (results so far are kept).";

class Program {
 public:
  Program() : app_(kAbout, "diptych") {
    app_.footer(kExamples);
    app_.require_subcommand(0, 1);
    app_.set_version_flag("--version", std::string("diptych ") + DIPTYCH_VERSION);
    app_.allow_extras();
    add_doctor();
    add_list();
    add_run();
    add_ladder();
    add_peers();
    add_profile();
    add_graph();
    add_report();
    add_reproduce();
    add_compare();
    add_gate();
    add_calibrate();
    onnx_.add(app_, action_);
    add_worker();
  }

  int execute(int argc, char** argv) {
    workloads::add_shipped_arms(own_program());
    std::vector<std::string> arguments(argv + 1, argv + argc);
    run_.command.emplace_back("diptych");
    run_.command.insert(run_.command.end(), arguments.begin(), arguments.end());
    ladder_.run.command = run_.command;
    peers_.run.command = run_.command;
    const auto separator = std::find(arguments.begin(), arguments.end(), "--");
    if (separator != arguments.end()) {
      run_.benchmark_options.assign(separator + 1, arguments.end());
      worker_.benchmark_options = run_.benchmark_options;
      arguments.erase(separator, arguments.end());
    }
    for (const std::string& argument : arguments) {
      if (argument.starts_with("--") && argument.ends_with('=')) {
        throw Error(fmt::format("{} has no value", reports::printable(argument)));
      }
    }
    give_bare_pin_a_value(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    try {
      app_.parse(arguments);
    } catch (const CLI::CallForHelp&) {
      const CLI::App* const verb = chosen_verb();
      fmt::print("{}", verb == nullptr ? app_.help() : verb->help());
      return kSuccess;
    } catch (const CLI::CallForVersion& version) {
      fmt::print("{}\n", version.what());
      return kSuccess;
    } catch (const CLI::ParseError& error) {
      throw Error(fmt::format("{}; `diptych{} --help` shows what there is", error.what(), verb_name()));
    }
    refuse_extras();
    if (!action_ && chosen_verb() != nullptr) {
      throw Error(fmt::format("a verb is missing; `diptych{} --help` shows what there is", verb_name()));
    }
    if (!action_) {
      fmt::print("{}", app_.help());
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

  static void add_seed(CLI::App* verb, std::uint64_t& seed, const char* help) {
    verb->add_option("--seed", seed, help)->capture_default_str()->check([](const std::string& text) {
      // JSON readers keep whole numbers up to 2^53.
      constexpr std::uint64_t kMost = (std::uint64_t{1} << 53U) - 1;
      std::uint64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      const bool good = error == std::errc() && end == text.data() + text.size() && value <= kMost;
      return good ? std::string() : fmt::format("'{}' is no whole number from 0 to {}", text, kMost);
    });
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
  }
  void add_list() {
    CLI::App* verb = add_verb("list", "Workloads and arms", [this] { return list(list_); });
    verb->add_option("--suite", list_.suite, "Only this suite");
    verb->add_flag("--passes", list_.passes, "The compiler's passes instead")->disable_flag_override();
    verb->add_flag("--json", list_.json, "Names, suites and arms as JSON")->disable_flag_override();
    auto* ops = verb->add_flag("--ops", list_.ops, "The engine's ops instead")->disable_flag_override();
    verb->add_flag("--markdown", list_.markdown, "With --ops: as docs/ops.md")->needs(ops);
  }
  void add_run() {
    CLI::App* verb = add_verb("run", "Measure; writes run.json, report.html, summary.md, traces and pictures", [this] {
      run_.given = given_options(*app_.get_subcommand("run"));
      return run(run_);
    });
    verb->add_option("workload", run_.workloads,
                     "Workloads, suites, or all (the default set: starred in `diptych list`)");
    add_sizes(verb, run_);
    add_measuring_flags(verb, run_);
    add_injection_flags(verb, run_);
    verb->add_option("--arms", run_.arms, "Arms, separated by commas, or ladder for every rung (eager,replay,graph)")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--arm", run_.own_arms, "Another framework as an arm, NAME=COMMAND (docs/arms.md)")
        ->allow_extra_args(false);
    add_seed(verb, run_.seed, "Of inputs, models and schedule");
    add_layout(verb, run_.layout);
    verb->add_option("--filter", run_.filter,
                     "Only workloads that match this regular expression (without names: of all)");
    verb->add_option("--out", run_.out, "Where run folders are made")->capture_default_str();
    verb->add_option("--resume", run_.resume, "Continue an unfinished run in its folder: what is missing is measured");
    verb->footer(
        "Examples:\n"
        "  diptych run vit --standard --pin          one suite, bound to one CPU\n"
        "  diptych run mlp/digits --metric exact     nodes, dispatches, allocations, bytes: seconds, no timing\n"
        "  diptych run --resume diptych-out/<run>    after Ctrl-C\n"
        "What stands behind -- goes to Google Benchmark, which hosts the measuring processes. More: docs/harness.md.");
  }
  void add_ladder() {
    CLI::App* verb = add_verb("ladder", "From eager to the fastest graph, one cause a rung: what each saves",
                              [this] { return ladder(ladder_); });
    verb->add_option("workload", ladder_.workload, "What to measure")->required();
    add_sizes(verb, ladder_.run);
    add_measuring_flags(verb, ladder_.run);
    verb->add_flag("--shuffle-order", ladder_.run.shuffle_order,
                   "Add the passes in other orders too: how far a share depends on its place")
        ->disable_flag_override();
    add_seed(verb, ladder_.run.seed, "Of inputs, models and schedule");
    add_layout(verb, ladder_.run.layout);
    verb->add_option("--json", ladder_.run.json, "Also write run.json to this file");
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
                     "Workloads (one of each kind of model); of those that train, the trained model");
    add_sizes(verb, peers_.run);
    verb->add_option("--arms", peers_.run.arms,
                     "Arms, separated by commas (eager,graph,torch-eager,torch-script,libtorch,ort)")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--arm", peers_.run.own_arms, "Another framework as an arm, NAME=COMMAND (docs/arms.md)")
        ->allow_extra_args(false);
    add_seed(verb, peers_.run.seed, "Of inputs, models and schedule");
    verb->add_option("--markdown", peers_.markdown, "Write the tables to this file");
    verb->add_option("--out", peers_.run.out, "Where run folders are made")->capture_default_str();
    verb->footer(
        "An arm that isn't installed is named, with how to get it; the others are measured. How arms take part:\n"
        "docs/arms.md; what it gave on one machine: docs/peers.md.");
  }
  void add_profile() {
    CLI::App* verb = add_verb("profile", "Trace an arm: trace.json for Perfetto, and an op table",
                              [this] { return profile(profile_); });
    verb->add_option("workload", profile_.workload, "What to trace")->required();
    verb->add_option("--arm", profile_.arm, "How it runs")->capture_default_str();
    verb->add_option("--steps", profile_.steps, "Steady calls to trace")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000));
    add_seed(verb, profile_.seed, "Of inputs and models");
    verb->add_option("--out", profile_.out, "Where the folder is made")->capture_default_str();
  }
  void add_graph() {
    CLI::App* verb =
        add_verb("graph", "The IR of a workload, as captured and after each pass", [this] { return graph(graph_); });
    verb->add_option("workload", graph_.workload, "What to compile")->required();
    verb->add_option("--stage", graph_.stage, "captured, a pass, final, or all")->capture_default_str();
    verb->add_option("--format", graph_.formats, "txt, svg, dot, separated by commas")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"txt", "svg", "dot"}))
        ->capture_default_str();
    add_seed(verb, graph_.seed, "Of inputs and models");
    verb->add_option("--out", graph_.out, "Where the folder is made")->capture_default_str();
  }
  void add_report() {
    CLI::App* verb = add_verb("report", "Render report.html and summary.md again from a run.json",
                              [this] { return report(report_); });
    verb->add_option("run", report_.run, "run.json, or its folder")->required();
    verb->add_option("--format", report_.format, "html (with summary.md), or google-benchmark: benchmark.json")
        ->check(CLI::IsMember({"html", "google-benchmark"}))
        ->capture_default_str();
  }
  void add_reproduce() {
    CLI::App* verb = add_verb("reproduce", "The command, seed and build behind one number of a run; --run runs it",
                              [this] { return reproduce(reproduce_); });
    verb->add_option("run", reproduce_.run, "run.json, or its folder")->required();
    verb->add_option("cell", reproduce_.cell, "A workload of the run")->required();
    verb->add_option("--arm", reproduce_.arm, "Only this arm, and eager (all of the run's)");
    verb->add_flag("--run", reproduce_.execute, "Run it, and show both figures")->disable_flag_override();
    verb->add_option("--out", reproduce_.out, "Where the run folder is made")->capture_default_str();
    verb->footer(
        "Also says in what this build and this machine differ from those of the run. scripts/reproduce builds the\n"
        "run's own program again, from the revision that it names.\n"
        "Example:\n"
        "  diptych reproduce diptych-out/<run> mlp/digits --arm graph --run");
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
    verb->add_option("--json", compare_.json, "Also write the comparison to this file (diptych.compare/1)");
    verb->add_option("--markdown", compare_.markdown, "Also write it to this file as Markdown");
    verb->footer(
        "Exact metrics (nodes, dispatches, allocations, bytes) compare anywhere and allow no change, instructions 0.5 "
        "%,\n"
        "times 2 %. Times of different machines are INVALID. Exit codes: 0 compared, 3 nothing could be compared, 1 "
        "error.");
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
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--arms", gate_.arms, "Arms, separated by commas (those of the ladder)")
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
        "A regression is measured twice, the second time in fresh processes. Exit codes: 0 pass, 2 regression, 3 "
        "cannot\n"
        "tell (INVALID, CONTAMINATED, vanished, nothing measured), 1 error.");
  }
  void add_calibrate() {
    CLI::App* verb = add_verb("calibrate", "A/A: how often the gate is wrong on this machine, and what it can detect",
                              [this] { return calibrate(calibrate_); });
    verb->add_option("--runs", calibrate_.runs, "Gate runs of this program against itself")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000));
    auto* out = verb->add_option("--out", calibrate_.out, "The file to write")->capture_default_str();
    verb->add_option("--append", calibrate_.append, "Add the runs to this file (is made if it isn't there)")
        ->excludes(out);
    verb->add_option("--workloads", calibrate_.workloads, "Workloads, separated by commas")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->capture_default_str();
    verb->add_option("--arms", calibrate_.arms, "Arms, separated by commas (those of the ladder)")
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
        "Every run is kept as it ends; 20 runs let times decide in `gate`, 299 without an alarm bound the rate at 1 "
        "%.");
  }
  void add_worker() {
    CLI::App* verb = add_verb("worker", "One measuring process; started by `run`", [this] { return worker(worker_); });
    verb->group("");  // not for people: hidden from --help
    // One at a time: a model's name may have commas.
    verb->add_option("--workloads", worker_.workloads)->allow_extra_args(false);
    verb->add_option("--arms", worker_.arms)->delimiter(',');
    verb->add_option("--seed", worker_.seed);
    verb->add_option("--process-seed", worker_.process_seed);
    verb->add_option("--rounds", worker_.rounds);
    verb->add_option("--block-seconds", worker_.block_seconds);
    verb->add_option("--first-call-check", worker_.first_call_check)->allow_extra_args(false);
    verb->add_option("--without", worker_.without)->allow_extra_args(false);
    verb->add_option("--pin", worker_.pinned)->delimiter(',');
    verb->add_option("--inject-time", worker_.inject_time);
    verb->add_option("--inject-arm", worker_.inject_arms)->delimiter(',');
    verb->add_option("--arm", worker_.own_arms)->allow_extra_args(false);
    verb->add_option("--turns", worker_.turns)->check(CLI::IsMember({"first", "second"}));
    verb->add_flag("--count-instructions", worker_.count_instructions);
    verb->add_option("--extra-instructions", worker_.extra_instructions)->allow_extra_args(false);
  }

  /// The verb that was typed, of "onnx check" the second; null if there is none.
  const CLI::App* chosen_verb() const {
    const CLI::App* verb = nullptr;
    for (auto chosen = app_.get_subcommands(); !chosen.empty(); chosen = verb->get_subcommands()) {
      verb = chosen.front();
    }
    return verb;
  }

  std::string verb_name() const {
    std::string name;
    for (const CLI::App* verb = chosen_verb(); verb != nullptr && verb != &app_; verb = verb->get_parent()) {
      name = " " + verb->get_name() + name;
    }
    return name;
  }

  /// CLI11 would only say that something was not expected: name the nearest thing that is.
  void refuse_extras() const {
    const CLI::App* const verb = chosen_verb();
    const CLI::App* const scope = verb == nullptr ? &app_ : verb;
    const std::vector<std::string> extras = scope->remaining();
    if (extras.empty()) {
      return;
    }
    const std::string& extra = extras.front();
    std::vector<std::string> candidates;
    if (!extra.starts_with('-')) {
      for (const CLI::App* one : scope->get_subcommands(
               [](const CLI::App* v) { return !v->get_name().empty() && !v->get_group().empty(); })) {
        candidates.push_back(one->get_name());
      }
      if (candidates.empty()) {
        throw Error(fmt::format("'{}' is one argument too many; `diptych{} --help` shows what there is",
                                reports::printable(extra), verb_name()));
      }
      throw Error(unknown("verb", extra, candidates));
    }
    const auto collect = [&](const CLI::App* app) {
      for (const CLI::Option* option : app->get_options()) {
        for (const std::string& name : option->get_lnames()) {
          candidates.push_back("--" + name);
        }
      }
    };
    collect(scope);
    for (const CLI::App* group : scope->get_subcommands([](const CLI::App*) { return true; })) {
      if (group->get_name().empty()) {
        collect(group);
      }
    }
    if (extra.starts_with("--dim") || extra.starts_with("--inputs")) {
      throw Error(
          fmt::format("{} is an option of `onnx run`; here a model's lengths and inputs stand behind its path: "
                      "model.onnx:batch=8,inputs=x.npy",
                      extra.substr(0, extra.find('='))));
    }
    throw Error(unknown("option", extra.substr(0, extra.find('=')), candidates));
  }

  CLI::App app_;
  std::function<int()> action_;
  DoctorOptions doctor_;
  ListOptions list_;
  RunOptions run_;
  LadderOptions ladder_;
  PeersOptions peers_;
  WorkerOptions worker_;
  ProfileOptions profile_;
  GraphOptions graph_;
  ReportOptions report_;
  ReproduceOptions reproduce_;
  CompareVerbOptions compare_;
  GateVerbOptions gate_;
  CalibrateOptions calibrate_;
  OnnxVerbs onnx_;
};

}  // namespace

int run_app(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then a failed write, with a message
  try {
    return Program().execute(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "diptych: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "diptych: {}\n", reports::printable(error.what()));
  }
  return kFailure;
}

}  // namespace diptych::cli
