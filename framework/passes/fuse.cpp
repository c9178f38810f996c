// Fusion: nodes that hand results of one shape, or of the same rows, to one another become one node with a region,
// which runs as one kernel (codegen/tile_program.h). Exact, because the same loops and kernels run on the same
// elements. A result that others read, too, is an output of the fused node; nothing is computed twice.
//
//   %2 = exp(%0)               %3 = fused(%0, %1) [
//   %3 = mul(%2, %1)     =>        %2 = exp(%0)
//                                  %3 = mul(%2, %1) ]
//
// A set of nodes can become one only if no way leads out of it and back in:
//
//   %2 = exp(%0)
//   %3 = matmul(%2, %1)        reads the set's result, and the set would read its
//   %4 = add(%2, %3)

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include <fmt/format.h>

#include "framework/codegen/tile_program.h"
#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "framework/graph/rewriter.h"
#include "framework/ops/shape_ops.h"
#include "framework/passes/node_sets.h"
#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr std::uint32_t kNone = UINT32_MAX;
/// A kernel has whole rows in the cache, several tensors of them.
constexpr std::size_t kMostRowBytes = std::size_t{64} << 10;
/// A kernel that a reduction, or an op of rows, is part of must save so many passes over its tensor (docs/fusion.md).
constexpr std::size_t kPassesOfReduction = 3;
constexpr std::size_t kPassesOfRows = 5;
/// And one more if the tensor is smaller, because the next op finds it in the second cache.
constexpr std::size_t kSecondCacheBytes = std::size_t{512} << 10;
/// Of a byte that is read or written in a cache behind the first.
constexpr double kNanosecondsOfByte = 0.0075;
/// How much more a step on a tile takes than an instruction of its own.
constexpr double kNanosecondsOfStep = 2;

/// The strides that each value will have at run time, where arguments are dense.
std::vector<Strides> likely_strides(const Graph& graph) {
  std::vector<Strides> strides(graph.types.size());
  for (ValueId value = 0; value < strides.size(); ++value) {
    strides[value] = contiguous_strides(graph.types[value].shape);
  }
  for (const Node& node : graph.nodes) {
    if (node.op->view != nullptr) {
      Layout layout;
      const ValueId input = node.inputs[0];
      if (node.op->view(graph.types[input], strides[input], graph.types[node.output()], node.attributes.get(),
                        layout)) {
        strides[node.output()] = layout.strides;
      }
    }
  }
  return strides;
}

/// Whether rows of the value are dense or one element: others would be gathered element by element for each tile.
bool has_rows(const Shape& shape, const Strides& strides) {
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1) {
      return strides[axis] == 1 || strides[axis] == 0;
    }
  }
  return true;
}

/// What the pass knows of a node.
struct Form {
  std::optional<Refusal> refusal;  ///< it can't be a part of anything
  bool is_view = false;
  bool is_small = false;  ///< nothing to gain, except among rows
  std::int64_t rows = 0;
  double lost = 0;  ///< if it doesn't pay: nanoseconds
};

class Fusion {
 public:
  Fusion(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        users_(graph),
        strides_(likely_strides(graph)),
        producer_(graph.types.size(), kNone) {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const ValueId output : graph_.nodes[i].outputs) {
        producer_[output] = i;
      }
      forms_.push_back(form_of(graph_.nodes[i]));
    }
  }

  bool run() {
    do {
      join_all();
    } while (context_.least_fused_bytes > 0 && refuse_rows_that_dont_pay());
    if (context_.refusals != nullptr) {
      note_refusals();
    }
    return rebuild();
  }

 private:
  void join_all() {
    sets_ = NodeSets(graph_);
    refused_.clear();
    rows_.clear();
    for (const Form& form : forms_) {
      rows_.push_back(form.rows);
    }
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const ValueId input : graph_.nodes[i].inputs) {
        if (const std::uint32_t before = producer_[input]; before != kNone && sets_.of(before) != sets_.of(i)) {
          const std::optional<Refusal> refusal = join(before, i);
          if (refusal && context_.refusals != nullptr) {
            refused_.insert_or_assign({before, i}, *refusal);
          }
        }
      }
    }
  }

  /// For every node that computes, whose results it reads from another kernel.
  void note_refusals() const {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      std::set<std::uint32_t> known;
      for (const ValueId input : node.inputs) {
        std::uint32_t producer = producer_[input];
        while (producer != kNone && graph_.nodes[producer].op->view != nullptr) {
          producer = producer_[graph_.nodes[producer].inputs[0]];
        }
        if (node.op->view == nullptr && producer != kNone && sets_.of(producer) != sets_.of(i) &&
            known.insert(producer).second) {
          const Refusal why = why_apart(producer, i, producer == producer_[input]);
          const double by = why == Refusal::unprofitable ? std::max(lost(producer), lost(i)) : 0;
          context_.refusals->push_back({graph_.nodes[producer].output(), node.outputs.empty() ? 0 : node.output(),
                                        graph_.nodes[producer].op, node.op, why, by});
        }
      }
    }
  }

  Refusal why_apart(std::uint32_t producer, std::uint32_t consumer, bool directly) const {
    for (const std::uint32_t node : {consumer, producer}) {
      if (forms_[node].refusal) {
        return *forms_[node].refusal;
      }
    }
    const auto found = refused_.find({producer, consumer});
    return found != refused_.end() ? found->second : directly ? Refusal::shape : Refusal::layout;
  }

  /// How much longer a node would take in a kernel with others, in nanoseconds, roughly.
  double lost(std::uint32_t node) const {
    return std::max(forms_[node].lost, forms_[node].is_small ? kNanosecondsOfStep : 0);
  }

  /// Sets with ops of rows whose results are mostly written anyway: kernels of rows cost more to call on a tile than on
  /// a tensor. Their ops of rows are taken out; true if there were any.
  bool refuse_rows_that_dont_pay() {
    bool changed = false;
    for (std::uint32_t set = 0; set < graph_.nodes.size(); ++set) {
      if (sets_.of(set) != set || rows_[set] == 0 || sets_.nodes(set).size() == 1) {
        continue;
      }
      if (const double lost = lost_bytes(sets_.nodes(set)); lost > 0) {
        for (const std::uint32_t node : sets_.nodes(set)) {
          if (forms_[node].rows > 0) {
            forms_[node].refusal = Refusal::unprofitable;
            forms_[node].lost = lost * kNanosecondsOfByte;
            forms_[node].rows = 0;
            changed = true;
          }
        }
      }
    }
    return changed;
  }

  /// What a kernel of the nodes would have to save, less what it saves; bytes that are read or written.
  double lost_bytes(std::span<const std::uint32_t> nodes) const {
    std::size_t saved = 0;
    std::size_t wanted = 0;
    std::map<ValueId, std::size_t> reads;  // of what comes from outside: from the second on they find it in the tile
    for (const std::uint32_t at : nodes) {
      const Node& node = graph_.nodes[at];
      if (forms_[at].is_view) {
        continue;
      }
      if (forms_[at].rows > 0) {
        const std::size_t largest = largest_of(node);
        const std::size_t passes = node.op->kind == OpKind::reduction ? kPassesOfReduction : kPassesOfRows;
        wanted += (passes + (largest < kSecondCacheBytes ? 1 : 0)) * largest;
      }
      for (const ValueId input : node.inputs) {
        if ((producer_[input] == kNone || sets_.of(producer_[input]) != sets_.of(at)) && reads[input]++ > 0) {
          saved += bytes_of(graph_.types[input]);
        }
      }
      const std::span<const std::uint32_t> users = users_.of(node.output());
      const auto inside = static_cast<std::size_t>(std::count_if(
          users.begin(), users.end(), [&](std::uint32_t user) { return sets_.of(user) == sets_.of(at); }));
      const bool is_written = users_.is_result(node.output()) || inside < users.size();
      saved += (inside + (is_written ? 0 : 1)) * bytes_of(graph_.types[node.output()]);
    }
    return static_cast<double>(wanted) - static_cast<double>(saved);
  }

  /// The bytes of a node's largest tensor.
  std::size_t largest_of(const Node& node) const {
    std::size_t largest = bytes_of(graph_.types[node.output()]);
    for (const ValueId input : node.inputs) {
      largest = std::max(largest, bytes_of(graph_.types[input]));
    }
    return largest;
  }

  Form form_of(const Node& node) const {
    Form form;
    if (node.outputs.size() != 1 || !node.regions.empty() ||
        (users_.count(node.output()) == 0 && !users_.is_result(node.output()))) {
      form.refusal = Refusal::kind;
      return form;
    }
    if (node.op->effect || node.op->can_fail) {
      form.refusal = Refusal::effect;
      return form;
    }
    form.is_view = node.op == &op::reshape || node.op == &op::expand;
    if (form.is_view) {
      return form;
    }
    const std::size_t largest = node.op->elementwise() ? bytes_of(graph_.types[node.output()]) : largest_of(node);
    if (node.op->elementwise()) {
      if (graph::why_not_in_region(graph_, node, 0, 0U) != nullptr) {
        form.refusal = Refusal::kind;
      } else if (!has_rows(node.inputs)) {
        form.refusal = Refusal::layout;
      }
    } else {
      form.rows = graph::rows_of(graph_, node).count;
      if (form.rows == 0 || graph::why_not_in_region(graph_, node, form.rows, 0U) != nullptr) {
        form.refusal = node.op->rows == nullptr ? Refusal::kind : Refusal::shape;
        form.rows = 0;
        return form;
      }
      if (!has_rows(node.inputs)) {
        form.refusal = Refusal::layout;
      } else if (largest / static_cast<std::size_t>(form.rows) > kMostRowBytes) {
        form.refusal = Refusal::larger_than_cache;
      } else if (largest < context_.least_fused_bytes) {
        form.refusal = Refusal::unprofitable;
      }
    }
    form.is_small = largest < context_.least_fused_bytes;
    return form;
  }

  bool has_rows(std::span<const ValueId> values) const {
    return std::all_of(values.begin(), values.end(),
                       [&](ValueId value) { return passes::has_rows(graph_.types[value].shape, strides_[value]); });
  }

  /// Makes one set of the two nodes' sets; says why if it doesn't.
  std::optional<Refusal> join(std::uint32_t producer, std::uint32_t consumer) {
    for (const std::uint32_t node : {consumer, producer}) {
      if (forms_[node].refusal) {
        return forms_[node].refusal;
      }
    }
    const std::uint32_t a = sets_.of(producer);
    const std::uint32_t b = sets_.of(consumer);
    const std::int64_t rows = std::max(rows_[a], rows_[b]);
    if (std::min(rows_[a], rows_[b]) > 0 && rows_[a] != rows_[b]) {
      return Refusal::shape;
    }
    std::vector<std::uint32_t> both(sets_.nodes(a).begin(), sets_.nodes(a).end());
    both.insert(both.end(), sets_.nodes(b).begin(), sets_.nodes(b).end());
    if (const std::optional<Refusal> refusal =
            rows == 0 ? why_not_elements(producer, consumer) : why_not_rows(both, rows)) {
      return refusal;
    }
    if (both.size() > codegen::TileProgram::kMostSteps || inputs_of(both).size() > codegen::TileProgram::kMostInputs) {
      return Refusal::operands;
    }
    if (!sets_.join(a, b)) {
      return Refusal::cycle;
    }
    rows_[a] = rows;
    return std::nullopt;
  }

  std::optional<Refusal> why_not_elements(std::uint32_t producer, std::uint32_t consumer) const {
    if (forms_[producer].is_view || forms_[consumer].is_view ||
        graph_.types[graph_.nodes[producer].output()].shape != graph_.types[graph_.nodes[consumer].output()].shape) {
      return Refusal::shape;
    }
    return forms_[producer].is_small || forms_[consumer].is_small ? std::optional(Refusal::unprofitable) : std::nullopt;
  }

  std::optional<Refusal> why_not_rows(std::span<const std::uint32_t> both, std::int64_t rows) const {
    const std::set<std::uint32_t> nodes(both.begin(), both.end());
    for (const std::uint32_t at : both) {
      if (graph::why_not_in_region(graph_, graph_.nodes[at], rows, [&](ValueId value) {
            return producer_[value] != kNone && nodes.contains(producer_[value]);
          }) != nullptr) {
        return Refusal::shape;
      }
    }
    return std::nullopt;
  }

  /// What the nodes read from outside, in the order of reading.
  std::vector<ValueId> inputs_of(std::span<const std::uint32_t> nodes) const {
    std::set<ValueId> known;
    for (const std::uint32_t node : nodes) {
      known.insert(graph_.nodes[node].output());
    }
    std::vector<ValueId> inputs;
    for (const std::uint32_t node : nodes) {
      for (const ValueId input : graph_.nodes[node].inputs) {
        if (known.insert(input).second) {
          inputs.push_back(input);
        }
      }
    }
    return inputs;
  }

  /// Appends the nodes of a set: as one, with copies of its views that others read, or as they are.
  void append(std::span<const std::uint32_t> nodes, std::vector<Node>& to) const {
    const auto computing = std::count_if(nodes.begin(), nodes.end(), [&](auto node) { return !forms_[node].is_view; });
    if (computing < 2) {
      for (const std::uint32_t node : nodes) {
        to.push_back(graph_.nodes[node]);
      }
      return;
    }
    // Who reads what, from the end: views stand where they are read.
    std::set<ValueId> inside;
    std::set<ValueId> outside;
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[nodes[i]];
      const ValueId output = node.output();
      const std::span<const std::uint32_t> users = users_.of(output);
      const bool leaves = users_.is_result(output) || std::any_of(users.begin(), users.end(), [&](std::uint32_t user) {
                            return sets_.of(user) != sets_.of(nodes[i]);
                          });
      const bool is_view = forms_[nodes[i]].is_view;
      if (leaves) {
        outside.insert(output);
      }
      if (is_view && outside.contains(output)) {
        outside.insert(node.inputs[0]);
      }
      if (!is_view || inside.contains(output)) {
        inside.insert(node.inputs.begin(), node.inputs.end());
      }
    }
    std::vector<std::uint32_t> members;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(members), [&](std::uint32_t node) {
      return !forms_[node].is_view || inside.contains(graph_.nodes[node].output());
    });
    to.push_back(fused(members, outside));
    for (const std::uint32_t node : nodes) {
      if (forms_[node].is_view && outside.contains(graph_.nodes[node].output())) {
        to.push_back(graph_.nodes[node]);
      }
    }
  }

  Node fused(std::span<const std::uint32_t> nodes, const std::set<ValueId>& outside) const {
    auto region = std::make_shared<Graph>();
    region->name = "fused";
    std::map<ValueId, ValueId> inside;
    Node result{&graph::fused_op(), {}, inputs_of(nodes), {}, graph_.nodes[nodes.front()].provenance};
    for (const ValueId input : result.inputs) {
      inside[input] = region->new_value(graph_.types[input]);
      region->inputs.push_back({inside[input], graph::InputKind::argument, fmt::format("%{}", input), {}, {}});
    }
    for (const std::uint32_t at : nodes) {
      Node node = graph_.nodes[at];
      const ValueId output = node.output();
      for (ValueId& input : node.inputs) {
        input = inside.at(input);
      }
      inside[output] = region->new_value(graph_.types[output]);
      node.outputs = {inside[output]};
      graph::merge_provenance(result.provenance, node.provenance);
      region->nodes.push_back(std::move(node));
      if (!forms_[at].is_view && outside.contains(output)) {
        region->outputs.push_back(inside[output]);
        result.outputs.push_back(output);
      }
    }
    result.regions.push_back(std::move(region));
    return result;
  }

  /// The sets in an order in which each comes after those that it depends on, otherwise by their last nodes.
  bool rebuild() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> after;
    std::map<std::uint32_t, std::size_t> waits_for;
    std::priority_queue<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::pair<std::uint32_t, std::uint32_t>>,
                        std::greater<>>
        ready;  // last node, set
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (sets_.of(i) != i) {
        continue;
      }
      const std::set<std::uint32_t> before = sets_.before(i);
      waits_for[i] = before.size();
      for (const std::uint32_t set : before) {
        after[set].push_back(i);
      }
      if (before.empty()) {
        ready.emplace(sets_.nodes(i).back(), i);
      }
    }
    if (waits_for.size() == graph_.nodes.size()) {
      return false;
    }
    std::vector<Node> nodes;
    while (!ready.empty()) {
      const std::uint32_t set = ready.top().second;
      ready.pop();
      const std::span<const std::uint32_t> members = sets_.nodes(set);
      append(members, nodes);
      for (const std::uint32_t next : after[set]) {
        if (--waits_for[next] == 0) {
          ready.emplace(sets_.nodes(next).back(), next);
        }
      }
    }
    graph_.nodes = std::move(nodes);
    return true;
  }

  Graph& graph_;
  const PassContext& context_;
  const graph::Users users_;
  NodeSets sets_;
  const std::vector<Strides> strides_;
  std::vector<std::uint32_t> producer_;  ///< by value
  std::vector<Form> forms_;
  std::vector<std::int64_t> rows_;                                      ///< of sets
  std::map<std::pair<std::uint32_t, std::uint32_t>, Refusal> refused_;  ///< by (producer, consumer)
};

}  // namespace

bool fuse(Graph& graph, const PassContext& context) { return Fusion(graph, context).run(); }

}  // namespace diptych::passes
