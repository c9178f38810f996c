// The ladder: which arms exist, in which order, and what each adds.

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "workloads/arms/arm.h"

namespace diptych::workloads {

const std::vector<Rung>& pass_rungs() {
  static const std::vector<Rung> rungs = {
      {"+plan",
       "with planned memory: temporaries at fixed offsets of one arena, elementwise ops in place, cheap "
       "results computed again",
       "allocation",
       {passes::kMemoryPlan, passes::kInPlace, "recompute"}},
      {"+simplify",
       "with constant folding, exact simplification, CSE, attention as one op, small products of one input as one, "
       "DCE, and weights packed once",
       "redundant work",
       {"constant-folding", "simplify", "cse", "attention", "dce", "merge-products", passes::kPacking,
        passes::kSideBySide}},
      {"+fuse",
       "with elementwise ops that pass results to one another as one kernel, tile by tile, and the updates of all "
       "parameters as one",
       "memory traffic",
       {"check-labels", "split-sums", "multi-tensor", "fuse"}},
      {"+epilogue",
       "with the elementwise ops behind matrix products and convolutions in their kernels",
       "results in cache",
       {"epilogue"}},
  };
  return rungs;
}

namespace {

using Group = std::vector<bool>;  ///< by pass rung: whether its passes are enabled

/// Captured, with the passes of these rungs and no others.
passes::PipelineOptions pipeline_of(const Group& group) {
  passes::PipelineOptions options = passes::PipelineOptions::none();
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i]) {
      for (const char* step : pass_rungs()[i].steps) {
        options.disabled.erase(step);
      }
    }
  }
  return options;
}

std::vector<std::string> names_of(const Group& group) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i]) {
      names.emplace_back(pass_rungs()[i].name);
    }
  }
  return names;
}

bool is_exact(const Group& group) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i] && !pass_rungs()[i].exact) {
      return false;
    }
  }
  return true;
}

/// The number of rungs from the bottom, if the group consists of exactly these.
std::optional<std::size_t> height_of(const Group& group) {
  const auto end = std::find(group.begin(), group.end(), false);
  const bool has_gap = std::find(end, group.end(), true) != group.end();
  return has_gap ? std::nullopt : std::optional<std::size_t>(end - group.begin());
}

/// Eager in all but what multiplies matrices.
Arm by_openblas() {
  Arm arm{"eager-openblas",         "eager, matrices multiplied by OpenBLAS (only if named)",
          "another matrix product", std::nullopt,
          Dispatch::direct,         /*in_ladder=*/false};
  arm.exact = false;
  arm.gemm = kernels::Gemm::openblas;
  return arm;
}

std::vector<Arm> make_arms() {
  std::vector<Arm> arms = {
      {"eager", "op by op, with a tape where gradients are asked for", "", std::nullopt},
      {"eager-pipelined", "eager, the kernels on a thread of their own behind the program (only if named)",
       "kernels beside dispatch", std::nullopt, Dispatch::pipelined, /*in_ladder=*/false},
      by_openblas(),
      {"replay", "the captured graph as it is: the same kernels, no pass", "dispatch and tape",
       pipeline_of(Group(pass_rungs().size()))}};
  const auto& rungs = pass_rungs();
  Group group(rungs.size());
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    group[i] = true;
    const bool is_last_exact = rungs[i].exact && (i + 1 == rungs.size() || !rungs[i + 1].exact);
    Arm arm{rungs[i].name, rungs[i].title, rungs[i].cause, pipeline_of(group)};
    if (is_last_exact) {
      arm.name = "graph";
      arm.rung = rungs[i].name;
      arm.description = "the captured graph after all passes, with planned memory";
    }
    arm.groups = names_of(group);
    arm.exact = is_exact(group);
    arms.push_back(std::move(arm));
  }
  Arm threads{"+threads", "graph, on the threads that --threads gives; the arms beside it on one", "more threads",
              pipeline_of(group)};
  threads.groups = names_of(group);
  threads.exact = is_exact(group);
  threads.on_threads = true;
  arms.push_back(std::move(threads));
  return arms;
}

/// "replay+simplify" -> the rungs; null if it isn't such a name.
std::optional<Group> parse_group(std::string_view name) {
  constexpr std::string_view kPrefix = "replay";
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  const auto& rungs = pass_rungs();
  Group group(rungs.size());
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    const std::string_view rung = rungs[i].name;
    if (name.starts_with(rung) && (name.size() == rung.size() || name[rung.size()] == '+')) {
      group[i] = true;
      name.remove_prefix(rung.size());
    }
  }
  return name.empty() ? std::optional(group) : std::nullopt;
}

std::string joined_name(const Group& group) {
  std::string name = "replay";
  for (const std::string& rung : names_of(group)) {
    name += rung;
  }
  return name;
}

const Arm& arm_of(const Group& group) {
  if (const auto height = height_of(group)) {
    const auto& arms = all_arms();
    const auto replay = std::find_if(arms.begin(), arms.end(), [](const Arm& arm) { return arm.name == "replay"; });
    return *(replay + static_cast<std::ptrdiff_t>(*height));
  }
  static std::mutex mutex;
  static std::map<Group, std::unique_ptr<Arm>> made;  // arms don't move: instances point to them
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Arm>& arm = made[group];
  if (arm == nullptr) {
    const std::string name = joined_name(group);
    arm = std::make_unique<Arm>(Arm{name, "the captured graph with the passes in its name alone",
                                    "another set of passes", pipeline_of(group), Dispatch::direct,
                                    /*in_ladder=*/false});
    arm->groups = names_of(group);
    arm->exact = is_exact(group);
  }
  return *arm;
}

/// The arms that were added; they don't move.
std::deque<Arm>& added_arms() {
  static std::deque<Arm> arms;
  return arms;
}

}  // namespace

const Arm& add_external_arm(const std::string& name, const std::vector<std::string>& command,
                            const std::string& description, const std::string& needs) {
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!is_name || command.empty()) {
    throw Error(fmt::format("{} is no arm: say NAME=COMMAND, the name of small letters, digits and '-'", quote(name)));
  }
  if (const Arm* known = find_arm(name)) {
    if (known->command != command) {
      throw Error(fmt::format("there is an arm {} already: choose another name", quote(name)));
    }
    return *known;
  }
  Arm arm{name, description, "another framework", std::nullopt, Dispatch::direct, /*in_ladder=*/false};
  arm.exact = false;
  arm.command = command;
  arm.needs = needs;
  return added_arms().emplace_back(std::move(arm));
}

std::vector<const Arm*> external_arms() {
  std::vector<const Arm*> arms;
  for (const Arm& arm : added_arms()) {
    arms.push_back(&arm);
  }
  return arms;
}

const std::vector<Arm>& all_arms() {
  static const std::vector<Arm> arms = make_arms();
  return arms;
}

const Arm* find_arm(std::string_view name) {
  const auto& arms = all_arms();
  const auto found = std::find_if(arms.begin(), arms.end(), [&](const Arm& arm) {
    return arm.name == name || (!arm.rung.empty() && arm.rung == name);
  });
  if (found != arms.end()) {
    return &*found;
  }
  for (const Arm& arm : added_arms()) {
    if (arm.name == name) {
      return &arm;
    }
  }
  const auto group = parse_group(name);
  return group ? &arm_of(*group) : nullptr;
}

std::vector<std::string> ladder_arms(int threads) {
  std::vector<std::string> names;
  for (const Arm& arm : all_arms()) {
    if (arm.in_ladder && (threads > 1 || !arm.on_threads)) {
      names.push_back(arm.name);
    }
  }
  return names;
}

int threads_of_other_arms(std::span<const std::string> arms, int threads) {
  const bool compares = std::any_of(arms.begin(), arms.end(), [](const std::string& name) {
    const Arm* arm = find_arm(name);
    return arm != nullptr && arm->on_threads;
  });
  return compares ? 1 : threads;
}

std::vector<std::vector<bool>> shuffled_groups(std::size_t rungs, std::uint64_t seed) {
  constexpr std::size_t kAllOrdersUpTo = 3;  // rungs: 3! = 6 orders
  constexpr int kRandomOrders = 6;
  std::set<Group> known;
  std::vector<Group> groups;
  std::vector<std::size_t> order(rungs);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto add_order = [&] {
    Group group(rungs);
    for (const std::size_t rung : order) {
      group[rung] = true;
      if (!height_of(group) && known.insert(group).second) {
        groups.push_back(group);
      }
    }
  };
  if (rungs <= kAllOrdersUpTo) {
    do {
      add_order();
    } while (std::next_permutation(order.begin(), order.end()));
    return groups;
  }
  Rng rng(seed);
  for (int i = 0; i < kRandomOrders; ++i) {
    for (std::size_t k = order.size(); k > 1; --k) {
      std::swap(order[k - 1], order[rng.below(k)]);
    }
    add_order();
  }
  return groups;
}

std::vector<std::string> shuffled_arms(std::size_t count, std::uint64_t seed) {
  std::vector<std::string> names;
  for (Group group : shuffled_groups(std::min(count, pass_rungs().size()), seed)) {
    group.resize(pass_rungs().size());
    names.push_back(arm_of(group).name);
  }
  return names;
}

}  // namespace diptych::workloads
