#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/aligned_profile.h"
#include "cli/names.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "reports/run/run.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "reports/views/explanation.h"
#include "reports/views/profile_record.h"
#include "reports/views/profile_views.h"

namespace diptych::cli {
namespace {

/// As many steps as fit in a few seconds, by the times of the ladder.
int steps_of(const reports::Cell& cell) {
  constexpr double kBudgetSeconds = 2;
  constexpr double kFewest = 4;
  constexpr double kMost = 60;
  double seconds = 0;
  for (const char* arm : {"eager", "graph"}) {
    seconds += reports::value_of(cell.arm(arm).seconds()).value_or(0);
  }
  return static_cast<int>(std::clamp(kBudgetSeconds / std::max(seconds, 1e-6), kFewest, kMost));
}

std::map<std::string, reports::OpParts> parts_of(const reports::Split& split) {
  std::map<std::string, reports::OpParts> parts;
  if (!split.reason().empty()) {
    return parts;
  }
  for (const reports::SplitKind kind : split.kinds()) {
    const auto seconds = [&](const char* part) { return kind.seconds(part).value_or(0); };
    if (const auto of_one = parts_of_one_op(kind.calls().value_or(1), seconds("dispatch_seconds"),
                                            seconds("inference_seconds"), seconds("allocation_seconds"))) {
      parts[kind.op()] = *of_one;
    }
  }
  return parts;
}

/// Adds the profile of eager beside graph to the run's cell; where it can't be taken, says why.
void add_profile(nlohmann::json& run, std::uint64_t seed) {
  nlohmann::json& entry = run["cells"][0];
  const reports::Cell cell(entry);
  if (!cell.validity().agree()) {
    return;  // the arms don't compute the same, so nothing is compared
  }
  try {
    StatusLine status;
    status.show(fmt::format("profile of eager beside graph: {}", reports::shorten(cell.workload(), 40)));
    const int steps = steps_of(cell);
    AlignedTraces traced(resolve_workload(cell.workload()),
                         {{&resolve_arm("eager"), &resolve_arm("graph")}, seed, steps});
    reports::ProfileInput input = traced.profile();
    input.parts = parts_of(cell.ladder().split());
    nlohmann::json profile = reports::profile_json(reports::align(input, reports::ProfileBy::op), steps);
    profile["flames"] = reports::flames_json(reports::flame_frames(reports::align(input, reports::ProfileBy::stack)));
    profile["memory"] = reports::memory_record_json(reports::memory_records(traced.watch_memory()));
    if (!traced.notes().empty()) {
      profile["notes"] = traced.notes();
    }
    entry["profile"] = std::move(profile);
  } catch (const Error& error) {
    complain("no profile: " + reports::printable(error.what()));
  }
}

}  // namespace

int why(const WhyOptions& options) {
  LadderOptions ladder_options = options.ladder;
  ladder_options.run.name = "why-" + resolve_workload(ladder_options.workload).name;
  ladder_options.run.complete = [&](nlohmann::json& run, const std::string& folder) {
    run["why"] = {{"calls", options.calls}};
    add_profile(run, options.ladder.run.seed);
    const reports::Run view(run);
    reports::write_atomically(folder + "/why.md",
                              reports::markdown_explanation(view, view.cells()[0], static_cast<double>(options.calls)));
  };
  ladder_options.run.show = [&](const nlohmann::json& run, const std::string& folder) {
    const reports::Run view(run);
    fmt::print("{}", reports::render_explanation(view, view.cells()[0], static_cast<double>(options.calls)));
    fmt::print("{}/: why.md, report.html, run.json\n", reports::printable(folder));
  };
  return ladder(ladder_options);
}

}  // namespace diptych::cli
