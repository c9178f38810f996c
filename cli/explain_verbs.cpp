#include "cli/explain_verbs.h"

#include "cli/run_flags.h"
#include "framework/core/error.h"

namespace diptych::cli {

void ExplainVerbs::add_profile(CLI::App& app, std::function<int()>& action) {
  CLI::App* verb = app.add_subcommand("profile", "Trace an arm, or several beside each other: traces, and an op table");
  verb->allow_extras();
  verb->callback([this, &action, verb] {
    if (verb->get_option("--by")->count() > 0 && profile_.arms.empty()) {
      throw Error("--by groups the profile of several arms: add --arms eager,graph");
    }
    action = [this] { return profile(profile_); };
  });
  verb->add_option("workload", profile_.workload, "What to trace")->required()->type_name("WORKLOAD");
  auto* arm = verb->add_option("--arm", profile_.arm, "How it runs: one arm, of `diptych list`")
                  ->type_name("ARM")
                  ->capture_default_str();
  verb->add_option("--arms", profile_.arms,
                   "Several arms in one profile, separated by commas, the base first: what each op takes in each, and "
                   "what became of it")
      ->type_name("ARM")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(arm);
  verb->add_option("--by", profile_.by, "With --arms, what makes a row: op, scope (a module's), shape, line")
      ->check(CLI::IsMember(std::vector<std::string>{"op", "scope", "shape", "line"}))
      ->capture_default_str();
  verb->add_option("--threads", profile_.threads, "On which it computes (default 1, or DIPTYCH_THREADS)");
  verb->add_option("--steps", profile_.steps, "Steady calls to trace, of each arm")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  add_seed(verb, profile_.seed, "Of inputs and models");
  verb->add_option("--out", profile_.out, "Where the folder is made")->capture_default_str();
  verb->footer(
      "Examples:\n"
      "  diptych profile mlp/digits                              where eager's time goes, op by op\n"
      "  diptych profile mlp/digits --arm graph                  the same of the compiled graph\n"
      "  diptych profile mlp/digits --arms eager,graph           where the two differ, op by op\n"
      "  diptych profile vit/tiny --arms eager,graph --by scope  the same, module by module\n"
      "  diptych profile vit/tiny --arms eager,graph,ort         and ONNX Runtime's own profile, matched op by op\n"
      "  diptych profile model.onnx:batch=8 --steps 100\n"
      "It traces steady calls, and writes trace.json (open it at ui.perfetto.dev), ops.json and ops.txt; with --arms\n"
      "also ops.csv, flame.svg, memory.svg, and a trace and collapsed stacks of each arm. Tracing takes time of its\n"
      "own: for how long a call takes, and which arm is faster, ask `diptych run`. How to read a profile of several\n"
      "arms: docs/profile.md.");
}

void ExplainVerbs::add_why(CLI::App& app, std::function<int()>& action) {
  CLI::App* verb = app.add_subcommand("why", "Why graph mode is faster or slower, on one screen; what to try next");
  verb->allow_extras();
  verb->callback([this, &action] { action = [this] { return why(why_); }; });
  verb->add_option("workload", why_.ladder.workload, "What to explain: a workload, or a model's file")
      ->required()
      ->type_name("WORKLOAD");
  verb->add_option("--calls", why_.calls, "For how many calls compiling is to pay")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}));
  add_against(verb, why_.ladder.against);
  add_sizes(verb, why_.ladder.run, false);
  add_seed(verb, why_.ladder.run.seed, "Of inputs, models and schedule");
  verb->add_option("--out", why_.ladder.run.out, "Where run folders are made")->capture_default_str();
  verb->footer(
      "It measures the ladder, profiles eager beside graph, and says: how much, why, which ops, what isn't fused, "
      "whether\n"
      "compiling pays for so many calls, how far the machine's limit is, and what to try next. Every sentence has the\n"
      "figure that it rests on; what an interval doesn't show is undecided.\n"
      "Examples:\n"
      "  diptych why mlp/digits\n"
      "  diptych why attention/written-out --calls 200\n"
      "  diptych why model.onnx:batch=8 --standard\n"
      "  diptych why vit/tiny --against ort,torch      and beside ONNX Runtime and PyTorch, where they are installed\n"
      "It writes why.md, report.html, which has flame graphs and the memory of both arms, too, and run.json. How to\n"
      "read it: docs/why.md.");
}

}  // namespace diptych::cli
