#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/graph/ir.h"
#include "framework/passes/refusal.h"
#include "reports/analysis/aligned_profile.h"

/// The graph explorer: one page on which a program's graph can be read at any size, stage beside stage
/// (docs/graph-explorer.md).
namespace diptych::reports {

struct ExplorerStage {
  std::string name;  ///< "captured", or the pass that produced it
  const graph::Graph* graph;
  bool changed;
  double seconds;  ///< that the capture or the pass took
};

/// Measured times of arms, by source op.
struct ExplorerTimes {
  std::vector<std::string> arms;                       ///< eager first, then graph; none: nothing was measured
  std::vector<double> total_seconds;                   ///< of a call
  std::map<std::uint64_t, std::vector<ArmOfRow>> ops;  ///< by SourceOp::id
  std::vector<AlignedRow> rest = {};                   ///< what a call takes beside them
};

struct ExplorerInput {
  std::string workload;
  std::vector<ExplorerStage> stages;  ///< as captured first; at least one
  std::vector<passes::FusionRefusal> refusals;
  ExplorerTimes times = {};
  /// Called while pictures are laid out, which may take minutes.
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

/// What the page's script reads, and the pictures that it places, each laid out.
struct ExplorerData {
  nlohmann::json json;
  std::vector<std::string> pictures;
  int first_picture = 0;  ///< the top of the last stage
};
ExplorerData explorer_data(const ExplorerInput& input);

/// graph.html: one file, no network; without script it shows the top of the last stage and a table of the stages.
std::string render_explorer(const ExplorerInput& input);

}  // namespace diptych::reports
