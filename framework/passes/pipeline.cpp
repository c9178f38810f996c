#include <algorithm>
#include <chrono>
#include <iterator>

#include <fmt/format.h>

#include "framework/passes/pass.h"

namespace diptych::passes {

std::span<const Pass> pipeline() {
  static constexpr Pass passes[] = {
      {"constant-folding", "computes what depends on constants alone", fold_constants},
      {"simplify", "rewrites that don't change a bit", simplify},
      {"cse", "computes equal expressions once", eliminate_common_subexpressions},
      {"attention", "joins softmax(q k^T) v to one op", join_attention},
      {"dce", "drops what no result needs", eliminate_dead_code},
      {"merge-products", "computes small products of one input with several weights as one", merge_products},
      {"recompute", "computes cheap results again instead of keeping them for the backward pass", recompute},
      {"check-labels", "checks labels by an op of its own, so that a cross entropy can be fused", check_labels},
      {"split-sums", "takes the sum of a whole tensor as that of rows, which can be fused with what makes them",
       split_sums},
      {"epilogue", "joins products and the elementwise ops behind them to one kernel", fuse_epilogues},
      {"multi-tensor", "joins the updates of many states by the same ops to one kernel", join_updates},
      {"fuse", "joins elementwise ops and ops of rows to one kernel", fuse},
  };
  return passes;
}

namespace {

/// Runs the pass on the regions of control flow, innermost first, then on the graph itself.
bool run_pass(const Pass& pass, graph::Graph& graph, const PipelineOptions& options, PassRecord& record,
              bool in_region = false) {
  bool changed = false;
  for (graph::Node& node : graph.nodes) {
    if (!node.is_control()) {
      continue;
    }
    for (auto& region : node.regions) {
      auto copy = std::make_shared<graph::Graph>(*region);
      if (run_pass(pass, *copy, options, record, true)) {
        region = std::move(copy);
        changed = true;
      }
    }
  }
  PassContext context(graph, options.numerics);
  context.least_fused_bytes = options.least_fused_bytes;
  context.least_epilogue_bytes = options.least_fused_bytes == 0 ? 0 : options.least_epilogue_bytes;
  context.packs = !options.disabled.contains(kPacking);
  std::vector<FusionRefusal>& refusals = record.refusals;
  context.refusals = &refusals;
  if (!in_region) {
    context.fused = &record.fused;
    context.vetoed = options.vetoed;
  }
  const std::size_t known = refusals.size();
  changed = pass.run(graph, context) || changed;
  std::for_each(refusals.begin() + static_cast<std::ptrdiff_t>(known), refusals.end(),
                [&](FusionRefusal& refusal) { refusal.in_region = in_region; });
  return changed;
}

/// The refusals that an earlier pass noted, with a better reason.
void drop_known(std::span<const PassRecord> earlier, std::vector<FusionRefusal>& refusals) {
  std::erase_if(refusals, [&](const FusionRefusal& refusal) {
    return std::any_of(earlier.begin(), earlier.end(), [&](const PassRecord& record) {
      return std::any_of(record.refusals.begin(), record.refusals.end(), [&](const FusionRefusal& known) {
        return known.producer == refusal.producer && known.consumer == refusal.consumer &&
               known.in_region == refusal.in_region;
      });
    });
  });
}

}  // namespace

PipelineOptions PipelineOptions::none() {
  PipelineOptions options;
  for (const Pass& pass : pipeline()) {
    options.disabled.insert(pass.name);
  }
  options.disabled.insert(kLoweringSteps.begin(), kLoweringSteps.end());
  return options;
}

std::vector<PassRecord> run_pipeline(graph::Graph& graph, const PipelineOptions& options) {
  for (const std::string& name : options.disabled) {
    const auto known = pipeline();
    if (std::find(kLoweringSteps.begin(), kLoweringSteps.end(), name) == kLoweringSteps.end() &&
        std::none_of(known.begin(), known.end(), [&](const Pass& pass) { return name == pass.name; })) {
      throw Error(fmt::format("there is no pass '{}' to disable; `diptych list --passes` shows them", name));
    }
  }
  if (options.observe) {
    options.observe("captured", graph, true);
  }
  std::vector<Pass> chosen;
  std::copy_if(pipeline().begin(), pipeline().end(), std::back_inserter(chosen),
               [&](const Pass& pass) { return !options.disabled.contains(pass.name); });
  chosen.insert(chosen.end(), options.more.begin(), options.more.end());
  std::vector<PassRecord> records;
  for (const Pass& pass : chosen) {
    PassRecord record{pass.name, 0, graph::count_nodes(graph), 0, false};
    const auto start = std::chrono::steady_clock::now();
    record.changed = run_pass(pass, graph, options, record);
    record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    record.nodes_after = graph::count_nodes(graph);
    drop_known(records, record.refusals);
    records.push_back(record);
#ifndef NDEBUG
    graph::verify(graph);
#endif
    if (options.observe) {
      options.observe(pass.name, graph, record.changed);
    }
  }
  graph::verify(graph);
  return records;
}

}  // namespace diptych::passes
