#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/verbs.h"

/// Options shared by several verbs that measure.
namespace diptych::cli {

/// --quick, --standard, --gate, --certify; `with_gate` false: without --gate, which is for gates.
void add_sizes(CLI::App* verb, RunOptions& options, bool with_gate = true);
/// --instructions-timeout.
void add_instructions_timeout(CLI::App* verb, double& seconds);
/// --metric, --instructions-timeout, --threads, --pin.
void add_measuring_flags(CLI::App* verb, RunOptions& options);
/// --against, of a ladder.
void add_against(CLI::App* verb, std::vector<std::string>& arms);
/// --seed; `help`: of what.
void add_seed(CLI::App* verb, std::uint64_t& seed, const char* help);
/// --json.
void add_json(CLI::App* verb, RunOptions& options);
/// --inject-time, --inject-instructions, --inject-arm: for the self-test of a gate; hidden from --help.
void add_injection_flags(CLI::App* verb, RunOptions& options);

/// The options of the verb that were typed, without "--"; "size" for any of the sizes.
std::set<std::string> given_options(const CLI::App& verb);

/// `--pin` without CPUs means --pin=auto; CLI11 would otherwise take the workload after it for its value.
void give_bare_pin_a_value(std::vector<std::string>& arguments);

}  // namespace diptych::cli
