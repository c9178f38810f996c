#include "cli/run_flags.h"

#include <charconv>

#include <fmt/format.h>

#include "framework/kernels/gemm.h"
#include "workloads/harness/plan.h"

namespace diptych::cli {
namespace {

/// Like CLI::Range, but without accepting NaN.
CLI::Validator number_from(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
        return good ? std::string() : fmt::format("'{}' is no number from {} to {}", text, low, high);
      },
      fmt::format("FLOAT in [{} - {}]", low, high));
}

}  // namespace

void add_sizes(CLI::App* verb, RunOptions& options, bool with_gate) {
  auto* sizes = verb->add_option_group("size");
  const auto add = [&](const char* size, const char* help) {
    sizes
        ->add_flag_callback(
            std::string("--") + size, [&options, size] { options.size = size; }, help)
        ->disable_flag_override();
  };
  add("quick", "3 processes x 6 rounds: indications, no verdict (default)");
  add("standard", "8 processes x 12 rounds: verdicts");
  if (with_gate) {
    add("gate", "12 processes x 10 rounds, short blocks: what `diptych gate` measures");
  }
  add("certify", "30 processes x 20 rounds: for publication");
  sizes->require_option(0, 1);
}

void add_instructions_timeout(CLI::App* verb, double& seconds) {
  constexpr double kDay = 86400;
  verb->add_option("--instructions-timeout", seconds,
                   "Seconds that valgrind may take for one workload before it is stopped; its count is then null")
      ->check(number_from(1, kDay))
      ->capture_default_str();
}

void add_measuring_flags(CLI::App* verb, RunOptions& options) {
  verb->add_option("--metric", options.metrics,
                   "time (with exact metrics), exact (no timing), instructions (valgrind's callgrind), separated by "
                   "commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(workloads::metric_names()))
      ->capture_default_str();
  add_instructions_timeout(verb, options.instructions_timeout);
  verb->add_option("--threads", options.threads,
                   options.ladder ? "The rung +threads: graph on so many threads, pinned to as many CPUs"
                                  : "On which a call computes, pinned to as many CPUs; results don't depend on it")
      ->capture_default_str();
  verb->add_option("--gemm", options.gemm,
                   "What multiplies matrices in eager and graph: tiles (Diptych's own, default) or openblas")
      ->check(CLI::IsMember(std::vector<std::string>(kernels::kGemmNames.begin(), kernels::kGemmNames.end())));
  verb->add_flag("--veto-losses", options.veto_losses,
                 "Compile without the fused kernels that, timed in the program, take longer than what they replace");
  verb->add_option("--pin", options.pin, "Bind measuring processes to these CPUs, like 1 or 0,2-3 (bare: the last)");
}

void add_against(CLI::App* verb, std::vector<std::string>& arms) {
  verb->add_option("--against", arms,
                   "Other frameworks to measure in the same rounds, separated by commas: ort, torch, or another of "
                   "their arms (docs/arms.md)")
      ->type_name("ARM")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_seed(CLI::App* verb, std::uint64_t& seed, const char* help) {
  verb->add_option("--seed", seed, help)->capture_default_str()->check([](const std::string& text) {
    // JSON readers represent whole numbers exactly up to 2^53.
    constexpr std::uint64_t kMost = (std::uint64_t{1} << 53U) - 1;
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool good = error == std::errc() && end == text.data() + text.size() && value <= kMost;
    return good ? std::string() : fmt::format("'{}' is no whole number from 0 to {}", text, kMost);
  });
}

void add_json(CLI::App* verb, RunOptions& options) {
  verb->add_option("--json", options.json,
                   "Also write run.json to this file; - for standard output: all else then goes to standard error");
}

void add_injection_flags(CLI::App* verb, RunOptions& options) {
  const auto fraction = number_from(0, 10);
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
