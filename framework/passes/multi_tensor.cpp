// The updates of many states by the same ops, such as an optimizer's of all parameters, as one fused node with a region
// for each: one kernel, whose work threads share, in place of one for each large parameter and one for each op on a
// small one. Exact, because each region has the same loops on the same elements. The node stands where the last of its
// updates stood, so none is joined that anything reads before, or that would wait for another kernel: its gradient
// would be kept meanwhile.
//
//   %5 = descend(%w, %1, %rate)         %5, %6 = fused(%w, %1, %rate, %b, %2, %rate) [
//   %6 = descend(%b, %2, %rate)    =>       descend(%w, %1, %rate) ], [
//   update %w <- %5                         descend(%b, %2, %rate) ]
//   update %b <- %6                     update %w <- %5
//                                       update %b <- %6

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "framework/codegen/tile_program.h"
#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "framework/graph/rewriter.h"
#include "framework/passes/fused_node.h"
#include "framework/passes/fusion_forms.h"
#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// To begin with a tensor of less takes longer than to dispatch its ops one by one (docs/fusion.md).
constexpr std::int64_t kLeastElements = 1024;

/// Elementwise ops that give new values to states, and what only they read.
struct StateUpdate {
  std::vector<std::uint32_t> nodes;  ///< in order
  std::string body;                  ///< equal for equal ops on tensors of any shape
};

class MultiTensor {
 public:
  MultiTensor(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), users_(graph), owner_(graph.nodes.size(), kNone) {}

  bool run() {
    if (graph_.updates.size() < 2) {
      return false;
    }
    find_updates();
    std::map<std::uint32_t, Node> joined;  // by the place of their last nodes
    std::vector<bool> is_joined(graph_.nodes.size(), false);
    for (const std::vector<std::uint32_t>& group : groups()) {
      const std::uint32_t last = end_of(group) - 1;
      joined.emplace(last, node_of(group));
      for (const std::uint32_t update : group) {
        for (const std::uint32_t node : updates_[update].nodes) {
          is_joined[node] = true;
        }
      }
    }
    if (joined.empty()) {
      return false;
    }
    std::vector<Node> nodes;
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (const auto found = joined.find(i); found != joined.end()) {
        nodes.push_back(std::move(found->second));
      } else if (!is_joined[i]) {
        nodes.push_back(std::move(graph_.nodes[i]));
      }
    }
    graph_.nodes = std::move(nodes);
    return true;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// What may not stand between updates that are joined, nor between the nodes of one.
  static bool divides(const Node& node) {
    return !node.op->elementwise() && node.op->view == nullptr && node.op != &graph::fused_op();
  }

  /// From the last node to the first: a node belongs to the update that reads its result, or begins one.
  void find_updates() {
    std::vector<bool> is_new_state(graph_.types.size(), false);
    for (const graph::Update& update : graph_.updates) {
      is_new_state[update.value] = true;
    }
    const std::vector<FusionForm> forms = forms_of(graph_, users_, FusedKind::tiles, context_);
    for (auto i = static_cast<std::uint32_t>(graph_.nodes.size()); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      if (divides(node)) {
        first_update_ = static_cast<std::uint32_t>(updates_.size());
      }
      if (forms[i].refusal || forms[i].repeats || !node.op->elementwise()) {
        continue;
      }
      const std::uint32_t reader = reader_of(node);
      if (is_new_state[node.output()] || (reader != kNone && !users_.is_result(node.output()))) {
        owner_[i] = reader;
        if (reader == kNone) {
          owner_[i] = static_cast<std::uint32_t>(updates_.size());
          updates_.emplace_back();
        }
        updates_[owner_[i]].nodes.push_back(i);
      }
    }
    for (StateUpdate& update : updates_) {
      std::reverse(update.nodes.begin(), update.nodes.end());
      update.body = body_of(update);
    }
  }

  /// The one update, of results of the same shape, that all readers of a node belong to; kNone: there are others.
  std::uint32_t reader_of(const Node& node) const {
    std::uint32_t reader = kNone;
    for (const std::uint32_t user : users_.of(node.output())) {
      const std::uint32_t update = owner_[user];
      if (update == kNone || update < first_update_ || (reader != kNone && reader != update) ||
          shape_of(user) != shape_of(node)) {
        return kNone;
      }
      reader = update;
    }
    return reader;
  }
  const Shape& shape_of(const Node& node) const { return graph_.types[node.output()].shape; }
  const Shape& shape_of(std::uint32_t node) const { return shape_of(graph_.nodes[node]); }

  std::string body_of(const StateUpdate& update) const {
    const std::vector<ValueId> inputs = inputs_of(graph_, update.nodes);
    std::map<ValueId, std::size_t> numbers;
    std::string text;
    for (const ValueId input : inputs) {
      numbers.emplace(input, numbers.size());
      text += fmt::format("{} {}; ", diptych::name_of(graph_.types[input].dtype),
                          graph_.types[input].shape == shape_of(update.nodes.back()) ? "whole" : "broadcast");
    }
    for (const std::uint32_t at : update.nodes) {
      const Node& node = graph_.nodes[at];
      text += fmt::format("{}{{{}}}", node.op->name, node.attributes.print());
      for (const ValueId input : node.inputs) {
        text += fmt::format(" {}", numbers.at(input));
      }
      numbers.emplace(node.output(), numbers.size());
      text += fmt::format(": {}{}; ", diptych::name_of(graph_.types[node.output()].dtype), is_kept(at) ? " kept" : "");
    }
    return text;
  }
  /// Whether others than its update read the node's result.
  bool is_kept(std::uint32_t at) const {
    return users_.is_result(graph_.nodes[at].output()) || first_reader(at) != kNone;
  }
  std::uint32_t first_reader(std::uint32_t at) const {
    const auto users = users_.of(graph_.nodes[at].output());
    const auto other =
        std::find_if(users.begin(), users.end(), [&](std::uint32_t user) { return owner_[user] != owner_[at]; });
    return other == users.end() ? kNone : *other;
  }

  std::uint32_t end_of(std::span<const std::uint32_t> group) const {
    std::uint32_t end = 0;
    for (const std::uint32_t update : group) {
      end = std::max(end, updates_[update].nodes.back() + 1);
    }
    return end;
  }

  /// Sets of updates by the same ops, one after the other, in order.
  std::vector<std::vector<std::uint32_t>> groups() const {
    std::map<std::string, std::vector<std::uint32_t>> open;
    std::vector<std::vector<std::uint32_t>> closed;
    const auto close = [&] {
      for (auto& entry : open) {
        add_group(std::move(entry.second), closed);
      }
      open.clear();
    };
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (const std::uint32_t update = owner_[i]; update != kNone && updates_[update].nodes.back() == i) {
        if (fits(update)) {
          open[updates_[update].body].push_back(update);
        }
      } else if (divides(node)) {
        close();
      }
    }
    close();
    return closed;
  }
  bool fits(std::uint32_t update) const {
    const std::vector<std::uint32_t>& nodes = updates_[update].nodes;
    const bool is_one_scalar = nodes.size() == 1 && shape_of(nodes.front()).product() == 1;
    const bool is_tiny = context_.least_fused_bytes > 0 && shape_of(nodes.front()).product() < kLeastElements;
    return !is_one_scalar && !is_tiny && nodes.size() <= codegen::TileProgram::kMostSteps &&
           inputs_of(graph_, nodes).size() <= codegen::TileProgram::kMostInputs;
  }

  void add_group(std::vector<std::uint32_t>&& group, std::vector<std::vector<std::uint32_t>>& groups) const {
    const std::uint32_t end = end_of(group);
    std::erase_if(group, [&](std::uint32_t update) {
      const std::vector<std::uint32_t>& nodes = updates_[update].nodes;
      return std::any_of(nodes.begin(), nodes.end(), [&](std::uint32_t at) { return first_reader(at) < end; });
    });
    if (group.size() > 1 && !context_.vetoed.contains(name_of(group))) {
      groups.push_back(std::move(group));
    }
  }
  /// For vetoes: no kernel of `fuse` begins with it.
  ValueId name_of(std::span<const std::uint32_t> group) const {
    return graph_.nodes[updates_[group.back()].nodes.back()].output();
  }

  Node node_of(const std::vector<std::uint32_t>& group) const {
    Node all;
    FusedKernel kernel{0, {name_of(group)}, {graph_.nodes[updates_[group.back()].nodes.back()].op}};
    for (const std::uint32_t update : group) {
      std::set<ValueId> kept;
      for (const std::uint32_t at : updates_[update].nodes) {
        const ValueId output = graph_.nodes[at].output();
        if (is_kept(at)) {
          kept.insert(output);
        }
        if (output != kernel.members.front()) {
          kernel.members.push_back(output);
          kernel.ops.push_back(graph_.nodes[at].op);
        }
      }
      Node one = fused_node(graph_, updates_[update].nodes, kept);
      if (update == group.front()) {
        all = std::move(one);
        continue;
      }
      all.inputs.insert(all.inputs.end(), one.inputs.begin(), one.inputs.end());
      all.outputs.insert(all.outputs.end(), one.outputs.begin(), one.outputs.end());
      all.regions.push_back(std::move(one.regions.front()));
      graph::merge_provenance(all.provenance, one.provenance);
    }
    if (context_.fused != nullptr) {
      kernel.output = all.output();
      context_.fused->push_back(std::move(kernel));
    }
    return all;
  }

  Graph& graph_;
  const PassContext& context_;
  const graph::Users users_;
  std::vector<StateUpdate> updates_;
  std::vector<std::uint32_t> owner_;  ///< updates, by node
  std::uint32_t first_update_ = 0;    ///< behind the kernel that the sweep met last
};

}  // namespace

bool join_updates(Graph& graph, const PassContext& context) { return MultiTensor(graph, context).run(); }

}  // namespace diptych::passes
