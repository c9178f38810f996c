#include <algorithm>
#include <chrono>
#include <numeric>

#include <fmt/format.h>

#include "framework/passes/pass.h"

namespace diptych::passes {

std::span<const Pass> pipeline() {
  static constexpr Pass passes[] = {
      {"constant-folding", "computes what depends on constants alone", fold_constants},
      {"simplify", "rewrites that don't change a bit", simplify},
      {"cse", "computes equal expressions once", eliminate_common_subexpressions},
      {"dce", "drops what no result needs", eliminate_dead_code},
  };
  return passes;
}

namespace {

/// The pass over the regions of control flow, innermost first, then over the graph itself.
bool run_pass(const Pass& pass, graph::Graph& graph) {
  bool changed = false;
  for (graph::Node& node : graph.nodes) {
    for (auto& region : node.regions) {
      auto copy = std::make_shared<graph::Graph>(*region);
      if (run_pass(pass, *copy)) {
        region = std::move(copy);
        changed = true;
      }
    }
  }
  return pass.run(graph) || changed;
}

}  // namespace

PipelineOptions PipelineOptions::none() {
  PipelineOptions options;
  for (const Pass& pass : pipeline()) {
    options.disabled.insert(pass.name);
  }
  options.disabled.insert(kInPlace);
  options.disabled.insert(kMemoryPlan);
  return options;
}

std::vector<PassRecord> run_pipeline(graph::Graph& graph, const PipelineOptions& options) {
  for (const std::string& name : options.disabled) {
    const auto known = pipeline();
    if (name != kInPlace && name != kMemoryPlan &&
        std::none_of(known.begin(), known.end(), [&](const Pass& pass) { return name == pass.name; })) {
      throw Error(fmt::format("there is no pass '{}' to disable; `diptych list --passes` shows them", name));
    }
  }
  if (options.observe) {
    options.observe("captured", graph, true);
  }
  std::vector<PassRecord> records;
  for (const Pass& pass : pipeline()) {
    if (options.disabled.contains(pass.name)) {
      continue;
    }
    PassRecord record{pass.name, 0, graph::count_nodes(graph), 0, false};
    const auto start = std::chrono::steady_clock::now();
    record.changed = run_pass(pass, graph);
    record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    record.nodes_after = graph::count_nodes(graph);
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

std::vector<graph::ValueId> identity_replacement(const graph::Graph& graph) {
  std::vector<graph::ValueId> replacement(graph.types.size());
  std::iota(replacement.begin(), replacement.end(), 0U);
  return replacement;
}

void replace_uses(graph::Graph& graph, std::vector<graph::ValueId>& replacement) {
  const auto resolve = [&](graph::ValueId& value) {
    while (replacement[value] != value) {
      value = replacement[value];
    }
  };
  for (graph::Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), resolve);
  }
  std::for_each(graph.outputs.begin(), graph.outputs.end(), resolve);
  for (graph::Update& update : graph.updates) {
    resolve(update.value);
  }
  std::erase_if(graph.updates,
                [&](const graph::Update& update) { return update.value == graph.inputs[update.input].value; });
}

void merge_provenance(graph::Provenance& to, const graph::Provenance& from) {
  std::vector<std::uint32_t> merged;
  std::set_union(to.source_ops.begin(), to.source_ops.end(), from.source_ops.begin(), from.source_ops.end(),
                 std::back_inserter(merged));
  to.source_ops = std::move(merged);
}

}  // namespace diptych::passes
