#pragma once

#include <set>

#include <nlohmann/json.hpp>

#include "framework/passes/pass.h"
#include "workloads/workload.h"

/// Fused kernels, timed where they run: in the program, beside the kernels that each replaces in the same program
/// without fusion. Both graphs run in turn, and every instruction reads the clock, which adds the same to each.
namespace diptych::workloads {

/// A fused kernel and what it replaced, in one round after the other.
struct KernelTiming {
  std::string pass;
  passes::FusedKernel kernel;
  double fused_seconds = 0;  ///< medians over rounds
  double apart_seconds = 0;
  // The ratio of the first to the second: the median over rounds, with its 95 % interval by order statistics.
  double ratio = 1, low = 1, high = 1;

  /// Surely slower than what it replaced, by a hundredth at least.
  bool is_loss() const { return low > 1.01; }
  /// As PipelineOptions::vetoed knows it.
  graph::ValueId name() const { return kernel.members.front(); }
  /// "linear, gelu, add"
  std::string ops() const;
};

/// Of the graph with this pipeline, in `budget_seconds` or at least five rounds; the slowest loss comes first. Empty in
/// builds without trace points.
std::vector<KernelTiming> time_fused_kernels(const Workload& workload, const passes::PipelineOptions& pipeline,
                                             std::uint64_t seed, double budget_seconds);

/// The member `fused` of an arm in run.json.
nlohmann::json to_json(std::span<const KernelTiming> timings, const std::set<graph::ValueId>& vetoed);

}  // namespace diptych::workloads
