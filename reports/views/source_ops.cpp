#include "reports/views/source_ops.h"

#include <algorithm>
#include <functional>
#include <set>

#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "framework/graph/work.h"
#include "framework/runtime/placed_parts.h"

namespace diptych::reports {
namespace {

using Ids = std::set<std::uint64_t>;
using Names = std::map<std::uint64_t, std::string>;

std::uint64_t id_of(std::uint32_t source_op) { return source_op + std::uint64_t{1}; }  // as in traces

/// `outer`: the fused node around it, or the node itself.
using Visit = std::function<void(const graph::Graph& graph, const graph::Node& node, const graph::Node& outer)>;

void visit_nodes(const graph::Graph& graph, const Visit& visit) {
  for (const graph::Node& node : graph.nodes) {
    if (node.op == &graph::fused_op()) {
      for (const auto& region : node.regions) {
        for (const graph::Node& inner : region->nodes) {
          visit(*region, inner, node);
        }
      }
      continue;
    }
    for (const auto& region : node.regions) {
      visit_nodes(*region, visit);
    }
    visit(graph, node, node);
  }
}

std::string base_name(const char* file) {
  const std::string path = file;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// The source ops that a node computes: the first one of its own kind; if there is none, because it is another op, all
/// of them.
std::vector<std::uint64_t> computed_by(const graph::Node& node, const Names& names) {
  std::vector<std::uint64_t> all;
  for (const std::uint32_t source : node.provenance.source_ops) {
    const std::uint64_t id = id_of(source);
    if (const auto name = names.find(id); name != names.end() && name->second == node.op->name) {
      return {id};
    }
    all.push_back(id);
  }
  return all;
}

OpFate in_a_fused_kernel(const graph::Graph& region, const graph::Node& node) {
  OpFate fate{Fate::fused};
  for (const graph::Node& other : region.nodes) {
    if (&other != &node && std::find(fate.with.begin(), fate.with.end(), other.op->name) == fate.with.end()) {
      fate.with.emplace_back(other.op->name);
    }
  }
  return fate;
}

OpFate computed_fate(const graph::Graph& graph, const graph::Node& node, const graph::Node& outer, bool is_same_op) {
  if (&outer != &node) {
    return in_a_fused_kernel(graph, node);
  }
  if (!is_same_op) {
    return {node.provenance.source_ops.size() > 1 ? Fate::joined : Fate::rewritten, {node.op->name}};
  }
  return {node.op->view != nullptr ? Fate::view : Fate::kernel};
}

/// Of one stage.
struct Standing {
  std::map<std::uint64_t, OpFate> fates;
  Ids computed;  ///< by a node of their own kind
  Ids behind;    ///< a node computes another op, or an equal one, for them
};

Standing standing_in(const graph::Graph& graph, const Names& names) {
  Standing standing;
  visit_nodes(graph, [&](const graph::Graph& around, const graph::Node& node, const graph::Node& outer) {
    const std::vector<std::uint64_t> computed = computed_by(node, names);
    for (const std::uint32_t source : node.provenance.source_ops) {
      const std::uint64_t id = id_of(source);
      const auto name = names.find(id);
      const bool is_same_op = name != names.end() && name->second == node.op->name;
      if (std::find(computed.begin(), computed.end(), id) != computed.end()) {
        const bool is_better = is_same_op || !standing.computed.contains(id);
        if (is_better) {
          standing.fates[id] = computed_fate(around, node, outer, is_same_op);
        }
        (is_same_op ? standing.computed : standing.behind).insert(id);
      } else if (!standing.fates.contains(id)) {
        standing.fates[id] = is_same_op ? OpFate{Fate::merged} : OpFate{Fate::removed};
        standing.behind.insert(id);
      }
    }
  });
  return standing;
}

std::optional<OpWork> known_work(const graph::Graph& graph, const graph::Node& node) {
  const std::optional<Cost> work = graph::work_of(graph, node);
  return work ? std::optional(OpWork{work->flops, work->bytes}) : std::nullopt;
}

/// Of all instructions, those of regions of control flow too.
void gather_work(const graph::Graph& graph, CompiledOps& result) {
  for (const graph::Node& node : graph.nodes) {
    const std::optional<OpWork> work = known_work(graph, node);
    if (!work) {
      for (const auto& region : node.regions) {
        gather_work(*region, result);
      }
    } else if (!node.provenance.source_ops.empty()) {
      result.work[{id_of(node.provenance.source_ops.front()), node.op->name}].push_back(*work);
    }
  }
}

}  // namespace

std::vector<SourceOp> source_ops_of(const graph::Graph& captured) {
  std::vector<SourceOp> ops;
  visit_nodes(captured, [&](const graph::Graph& graph, const graph::Node& node, const graph::Node&) {
    if (node.provenance.source_ops.empty()) {
      return;
    }
    const graph::Provenance& from = node.provenance;
    ops.push_back({id_of(from.source_ops.front()), node.op->name, from.scope,
                   from.where.line > 0 ? base_name(from.where.file) + ":" + std::to_string(from.where.line) : "",
                   node.outputs.empty() ? "" : to_string(graph.types[node.output()]), known_work(graph, node)});
  });
  std::sort(ops.begin(), ops.end(), [](const SourceOp& a, const SourceOp& b) { return a.id < b.id; });
  return ops;
}

bool has_control_flow(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) { return node.is_control(); });
}

std::vector<std::uint64_t> CompiledOps::source_ops_of(std::uint64_t traced, const std::string& op) const {
  const auto found = kernels.find({traced, op});
  return found == kernels.end() ? std::vector<std::uint64_t>{} : found->second;
}

std::vector<OpWork> CompiledOps::work_of(std::uint64_t traced, const std::string& op) const {
  const auto found = work.find({traced, op});
  return found == work.end() ? std::vector<OpWork>{} : found->second;
}

CompiledOps compiled_ops(std::span<const StageGraph> stages) {
  CompiledOps result;
  Names names;
  for (const SourceOp& op : source_ops_of(*stages.front().graph)) {
    names[op.id] = op.op;
  }
  std::vector<Standing> standings;
  for (const StageGraph& stage : stages) {
    standings.push_back(standing_in(*stage.graph, names));
  }
  // The first pass after which another node stands for the op; if none does, after which it is gone.
  const auto pass_of = [&](std::uint64_t id) {
    const bool is_behind = standings.back().behind.contains(id);
    for (std::size_t i = 1; i < stages.size(); ++i) {
      if (is_behind ? standings[i].behind.contains(id) : !standings[i].fates.contains(id)) {
        return stages[i].pass;
      }
    }
    return std::string();
  };
  for (const auto& entry : names) {
    const std::uint64_t id = entry.first;
    const auto standing = standings.back().fates.find(id);
    OpFate fate = standing != standings.back().fates.end() ? standing->second : OpFate{Fate::removed};
    if (fate.fate != Fate::kernel && fate.fate != Fate::fused && fate.fate != Fate::view) {
      fate.pass = pass_of(id);
    }
    if (fate.fate == Fate::removed && fate.pass == "constant-folding") {
      fate.fate = Fate::folded;
    }
    result.fates[id] = std::move(fate);
  }
  gather_work(*stages.back().graph, result);
  visit_nodes(*stages.back().graph, [&](const graph::Graph&, const graph::Node& node, const graph::Node& outer) {
    if (outer.provenance.source_ops.empty()) {
      return;
    }
    // Within a kernel, views are steps of a pointer.
    if (&node != &outer && node.op->kind == OpKind::view) {
      return;
    }
    std::vector<std::uint64_t>& of_kernel =
        result.kernels[{id_of(outer.provenance.source_ops.front()), outer.op->name}];
    for (const std::uint64_t id : computed_by(node, names)) {
      if (std::find(of_kernel.begin(), of_kernel.end(), id) == of_kernel.end()) {
        of_kernel.push_back(id);
      }
    }
  });
  return result;
}

void note_placed_concats(const graph::Graph& graph, std::span<const graph::ValueId> computed, CompiledOps& ops) {
  for (const graph::Node* const node : runtime::placed_concats(graph, computed)) {
    for (const std::uint32_t source : node->provenance.source_ops) {
      const auto fate = ops.fates.find(id_of(source));
      if (fate != ops.fates.end() && fate->second.fate == Fate::kernel) {
        fate->second.fate = Fate::placed;
      }
    }
  }
}

}  // namespace diptych::reports
