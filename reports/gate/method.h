#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/gate/compare.h"
#include "reports/run/run.h"

/// How figures were measured, as far as a commit doesn't decide it: two figures by different methods differ for another
/// reason than the program's change.
namespace diptych::reports {

struct MethodField {
  std::string name;         ///< "threads"
  std::string value;        ///< "2"; not escaped: escape it for the medium
  Tier from;                ///< the most exact metrics that it bears on, and with them the less exact ones
  bool of_machine = false;  ///< differs between machines by itself, and then says nothing more

  bool operator==(const MethodField&) const = default;
};
using Method = std::vector<MethodField>;

/// Of a whole run: numerics, threads, CPUs, provider of matrix products, vetoes, block lengths, Google Benchmark's
/// options, compiler, build type, sanitizers, environment variables, instruction set, governor. Seeds, layouts of
/// memory, the size, the selection of workloads and arms, and what a commit changes (compile flags, sources) don't
/// count.
Method method_of(const Run& run);
/// Of an arm in its cell, besides: what a call is, the arm's threads if not the run's, another framework's version,
/// whether rounds were spread over layouts of the heap.
Method method_of(const Run& run, const Cell& cell, const Arm& arm);

/// Of a file of Google Benchmark, by its `context`: how the library was built, and whether the CPU's frequency scales.
Method method_of_benchmarks(const nlohmann::json& context);

struct MethodChange {
  std::string name, base, head;
  Tier from;
};
/// Fields that both have and that differ.
std::vector<MethodChange> method_changes(const Method& base, const Method& head, bool same_machine);

/// Those that bear on metrics of that tier: "threads 1 -> 2, pinned no -> CPUs 0, 1". Empty if there is none.
std::string changes_text(const std::vector<MethodChange>& changes, Tier tier);

}  // namespace diptych::reports
