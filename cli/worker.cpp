#include "workloads/harness/worker.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "cli/names.h"
#include "cli/own_arms.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "reports/text.h"
#include "workloads/harness/instructions.h"

namespace diptych::cli {
namespace {

/// {"graph=1200"} -> {graph: 1200}
std::map<std::string, std::int64_t> per_arm(const std::vector<std::string>& arguments) {
  std::map<std::string, std::int64_t> result;
  for (const std::string& argument : arguments) {
    const std::size_t separator = argument.rfind('=');
    std::int64_t count = 0;
    const char* const end = argument.data() + argument.size();
    if (separator == std::string::npos ||
        std::from_chars(argument.data() + separator + 1, end, count).ec != std::errc()) {
      throw Error(fmt::format("'{}' is not ARM=NUMBER", reports::printable(argument)));
    }
    result[argument.substr(0, separator)] = count;
  }
  return result;
}

/// 1 if nobody says one.
std::uint64_t layout_seed() {
  std::uint64_t seed = 1;
  if (const char* const text = std::getenv(workloads::kLayoutSeedVariable)) {
    std::from_chars(text, text + std::strlen(text), seed);
  }
  return seed;
}

}  // namespace

int worker(const WorkerOptions& options) {
  add_own_arms(options.own_arms);
  const std::vector<std::string> names = resolve_workloads(options.workloads);
  const std::vector<std::string> arms = resolve_arms(options.arms);
  if (options.count_instructions) {
    return workloads::run_counting_worker(names.front(), arms, options.seed, per_arm(options.extra_instructions));
  }
  workloads::WorkerPlan plan;
  plan.workloads = names;
  plan.arms = arms;
  plan.without = options.without;
  plan.seed = options.seed;
  plan.process_seed = options.process_seed;
  plan.layout_seed = layout_seed();
  plan.rounds = options.rounds;
  plan.block_seconds = options.block_seconds;
  plan.first_call_check = options.first_call_check;
  plan.pinned = options.pinned;
  plan.injection = {options.inject_time, 0, options.inject_arms};
  plan.takes_turns = !options.turns.empty();
  plan.is_first = options.turns == "first";
  plan.benchmark_options = options.benchmark_options;
  return workloads::run_worker(plan);
}

}  // namespace diptych::cli
