#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/interleaved.h"
#include "reports/gate/gate.h"

/// The work of a gate without its arguments and files: two sides are screened, confirmed and judged.
namespace diptych::cli {

/// A side of the gate: a run that was measured earlier, or a program to be measured now.
struct GateSide {
  std::string name;  ///< as given
  nlohmann::json run;
  std::optional<Measurable> program;

  const nlohmann::json& environment() const;
};

/// `text` is a run file or its folder, a program, or a git ref, which is built into `build_cache`. Throws Error.
GateSide resolve_side(const std::string& text, const std::string& build_cache,
                      const std::function<void(const std::string&)>& progress);

struct GateJob {
  GateSide base, head;
  workloads::RunPlan plan;         ///< size, seed; workloads and arms, empty for the programs' defaults
  workloads::Injection injection;  ///< into the head, for the self-test
  reports::GateConfig config;
  reports::GateSetup setup;
  std::set<reports::Tier> tiers;
  bool skip_unchanged = true;
  std::function<void(const std::string&)> progress;
  /// Saves a run as it grows ("base", "head", "base-again", "head-again"); may be empty.
  std::function<void(const std::string& name, const nlohmann::json& run)> save;
  const std::atomic<bool>* stop = nullptr;
};

struct GateOutcome {
  nlohmann::json gate;                    ///< null after a problem
  nlohmann::json base, head;              ///< the screened runs
  nlohmann::json base_again, head_again;  ///< null if nothing was measured again
  bool interrupted = false;
  std::string problem;  ///< why a measuring process failed: no verdict, only what was measured; empty if none did
};
/// Throws Error for names that neither side knows.
GateOutcome run_gate(GateJob job);
/// The same, for callers that accept only a verdict or an interruption: throws Error for a problem.
GateOutcome run_whole_gate(GateJob job);

}  // namespace diptych::cli
