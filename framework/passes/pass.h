#pragma once

#include <array>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/core/isa.h"
#include "framework/graph/ir.h"
#include "framework/graph/layouts.h"
#include "framework/passes/refusal.h"

/// Passes over the graph, one per file; pipeline.cpp lists them in order.
namespace diptych::passes {

/// What passes may do to results.
enum class Numerics : unsigned char {
  exact  ///< not a bit changes (docs/numerics.md)
};

/// Results below this size aren't worth fusing: unfused ops find them in the L1 cache, too (docs/fusion.md).
inline constexpr std::size_t kLeastFusedBytes = std::size_t{32} << 10;

/// Smaller results of products are found in the second cache by what reads them next (docs/fusion.md).
inline constexpr std::size_t kLeastEpilogueBytes = std::size_t{1} << 20;

/// A kernel that one of kFusingPasses has made of several.
struct FusedKernel {
  graph::ValueId output;                ///< the first that its node makes
  std::vector<graph::ValueId> members;  ///< what the nodes that it replaces make; the first names it in `vetoed`
  std::vector<const OpDef*> ops;        ///< of these nodes
};

/// What a pass may know besides the graph: what it must keep, and where the graph will run.
class PassContext {
 public:
  explicit PassContext(const graph::Graph& graph, Numerics asked_for = Numerics::exact)
      : numerics(asked_for), graph_(graph) {}

  Numerics numerics;
  Isa isa = active_isa();
  std::size_t least_fused_bytes = kLeastFusedBytes;
  std::size_t least_epilogue_bytes = kLeastEpilogueBytes;
  bool packs = true;                               ///< whether the step kPacking follows
  std::vector<FusionRefusal>* refusals = nullptr;  ///< where passes note what they didn't fuse
  std::vector<FusedKernel>* fused = nullptr;       ///< and what they did; not in regions
  std::set<graph::ValueId> vetoed = {};            ///< kernels that aren't to be made

  /// Of the graph at hand, as it is now: computed for the pass that asks, before it changes anything.
  graph::FixedLayouts fixed_layouts() const { return graph::FixedLayouts(graph_); }

 private:
  const graph::Graph& graph_;
};

struct Pass {
  const char* name;  ///< disables it: PipelineOptions::disabled
  const char* doc;
  /// True if the graph changed.
  bool (*run)(graph::Graph& graph, const PassContext& context);
};

/// All passes of the compiler, in order.
std::span<const Pass> pipeline();

/// Names besides those of the passes that PipelineOptions::disabled accepts: steps of the lowering.
inline constexpr const char* kInPlace = "in-place";
inline constexpr const char* kMemoryPlan = "memory-plan";
inline constexpr const char* kPacking = "packing";
inline constexpr const char* kSideBySide = "side-by-side";
/// All of them.
inline constexpr std::array kLoweringSteps = {kInPlace, kMemoryPlan, kPacking, kSideBySide};

/// The passes that make fused nodes: the last of the pipeline. They make no new values.
inline constexpr std::array kFusingPasses = {"epilogue", "multi-tensor", "fuse"};

struct PipelineOptions {
  std::set<std::string> disabled;
  /// Called with the graph as captured ("captured") and after each pass; `changed` is false if a pass did nothing.
  std::function<void(const std::string& stage, const graph::Graph& graph, bool changed)> observe;
  Numerics numerics = Numerics::exact;
  std::size_t least_fused_bytes = kLeastFusedBytes;  ///< for tests: 0 fuses whatever can be
  std::size_t least_epilogue_bytes = kLeastEpilogueBytes;
  /// Kernels that kFusingPasses don't make, because they were measured and lose: FusedKernel::members.front().
  std::set<graph::ValueId> vetoed = {};
  std::vector<Pass> more = {};  ///< of one's own, behind the others; for tests, a wrong one

  /// Disables every pass and step: the captured graph as it is.
  static PipelineOptions none();
};

struct PassRecord {
  std::string name;
  double seconds = 0;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
  bool changed = false;
  std::vector<FusionRefusal> refusals = {};  ///< of `attention`, `epilogue` and `fuse`, each edge in one of them
  std::vector<FusedKernel> fused = {};       ///< by them, outside of regions
};

/// Runs the pipeline. Verifies the graph after each pass in debug builds, and always at the end. Throws Error if
/// `disabled` has a name that isn't a pass.
std::vector<PassRecord> run_pipeline(graph::Graph& graph, const PipelineOptions& options);

bool fold_constants(graph::Graph& graph, const PassContext& context);
bool simplify(graph::Graph& graph, const PassContext& context);
bool eliminate_common_subexpressions(graph::Graph& graph, const PassContext& context);
bool join_attention(graph::Graph& graph, const PassContext& context);
bool merge_products(graph::Graph& graph, const PassContext& context);
bool check_labels(graph::Graph& graph, const PassContext& context);
bool split_sums(graph::Graph& graph, const PassContext& context);
bool fuse_epilogues(graph::Graph& graph, const PassContext& context);
bool join_updates(graph::Graph& graph, const PassContext& context);
bool fuse(graph::Graph& graph, const PassContext& context);
bool recompute(graph::Graph& graph, const PassContext& context);
bool eliminate_dead_code(graph::Graph& graph, const PassContext& context);

}  // namespace diptych::passes
