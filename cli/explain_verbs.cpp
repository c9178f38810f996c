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
      "  diptych profile model.onnx:batch=8 --steps 100\n"
      "It traces steady calls, and writes trace.json (open it at ui.perfetto.dev), ops.json and ops.txt; with --arms\n"
      "also ops.csv, and a trace of each arm. Tracing takes time of its own: for how long a call takes, and which arm\n"
      "is faster, ask `diptych run`. How to read a profile of several arms: docs/profile.md.");
}

void ExplainVerbs::add(CLI::App& app, std::function<int()>& action) { add_profile(app, action); }

}  // namespace diptych::cli
