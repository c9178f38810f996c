#include "cli/run_flags.h"

#include "workloads/harness/plan.h"

namespace diptych::cli {

void add_sizes(CLI::App* verb, RunOptions& options) {
  auto* sizes = verb->add_option_group("size");
  const auto add = [&](const char* size, const char* help) {
    sizes
        ->add_flag_callback(
            std::string("--") + size, [&options, size] { options.size = size; }, help)
        ->disable_flag_override();
  };
  add("quick", "3 processes x 6 rounds: indications, no verdict (default)");
  add("standard", "8 processes x 12 rounds: verdicts");
  add("gate", "12 processes x 10 rounds, short blocks: what `diptych gate` measures");
  add("certify", "30 processes x 20 rounds: for publication");
  sizes->require_option(0, 1);
}

void add_measuring_flags(CLI::App* verb, RunOptions& options) {
  verb->add_option("--metric", options.metrics,
                   "time (with exact metrics), exact (no timing), instructions (valgrind's callgrind), separated by "
                   "commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(workloads::metric_names()))
      ->capture_default_str();
  verb->add_option("--threads", options.threads, "Threads that an op may use")->capture_default_str();
  verb->add_option("--pin", options.pin, "Bind measuring processes to these CPUs, like 1 or 0,2-3 (bare: the last)");
}

void add_injection_flags(CLI::App* verb, RunOptions& options) {
  const auto fraction = CLI::Range(0.0, 10.0);
  verb->add_option("--inject-time", options.inject_time)->check(fraction)->group("");
  verb->add_option("--inject-instructions", options.inject_instructions)->check(fraction)->group("");
  verb->add_option("--inject-arm", options.inject_arms)->delimiter(',')->allow_extra_args(false)->group("");
}

std::set<std::string> given_options(const CLI::App& verb) {
  std::set<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    if (option->count() > 0) {
      names.insert(option->get_single_name());
    }
  }
  for (const CLI::App* group : verb.get_subcommands([](const CLI::App* each) { return each->get_name().empty(); })) {
    if (group->count_all() > 0) {
      names.insert("size");
    }
  }
  return names;
}

void give_bare_pin_a_value(std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : "";
    const bool is_value = next == "auto" || (!next.empty() && next[0] >= '0' && next[0] <= '9');
    if (arguments[i] == "--pin" && !is_value) {
      arguments[i] = "--pin=auto";
    }
  }
}

}  // namespace diptych::cli
