// Products of one input with several weights, such as those that give q, k and v or the gates of an unrolled cell, as
// one, if they are so small that most of their time isn't spent on sums.
//
//   %4 = linear(%x, %wq, %bq)              %7 = merged_linear(%x, %wq, %wk, %bq, %bk)
//   %5 = linear(%x, %wk, %bk)       =>     %4 = slice(%7) {axis=1, start=0, stop=64, step=1}
//                                          %5 = slice(%7) {axis=1, start=64, stop=128, step=1}
//
// No bit changes: every element is the same sum in the same order, whatever columns stand beside it. The weights must
// stay the same from call to call, so that the graph packs them side by side once. No result may leave the graph, nor
// enter control flow, nor be read in a shape that columns of a wider matrix can't have without a copy.

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "framework/dispatch/op.h"
#include "framework/graph/rewriter.h"
#include "framework/kernels/gemm.h"
#include "framework/kernels/matrix_product.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/window_ops.h"
#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// Of one product, on one thread, and of its rows: longer ones gain nothing, and of more rows it costs more to read
/// columns of a wider result than is gained (docs/fusion.md).
constexpr double kMostNanoseconds = 2000;
constexpr std::int64_t kMostRows = 8;

/// Products that become one.
struct Group {
  std::vector<std::uint32_t> nodes;
  std::vector<ValueId> inputs;  ///< of the merged node
  std::vector<Node> views;      ///< of weights and biases, in order, which it needs before their products did
  graph::Provenance provenance;
  ValueId merged = 0;        ///< once the sweep has reached the first of the nodes
  std::int64_t columns = 0;  ///< of it, that those which the sweep has reached have
};

class ProductMerger {
 public:
  ProductMerger(Graph& graph, const PassContext& context)
      : forces_(context.least_fused_bytes == 0), users_(graph), producers_(graph), rewriter_(graph) {
    for (const graph::Input& input : graph.inputs) {
      if (input.kind != graph::InputKind::argument) {
        lasting_.insert(input.value);
      }
    }
    for (const auto& [value, tensor] : graph.constants) {
      lasting_.insert(value);
    }
    for (const graph::Update& update : graph.updates) {
      lasting_.erase(graph.inputs[update.input].value);
    }
    find(graph);
  }

  bool run() {
    if (places_.empty()) {
      return false;
    }
    std::uint32_t at = 0;
    return rewriter_.run([&](Node& node) {
      if (const auto found = places_.find(at++); found != places_.end()) {
        visit(node, groups_[found->second]);
      } else if (const auto early = early_.find(node.outputs.empty() ? kNone : node.output()); early != early_.end()) {
        rewriter_.replace(node, early->second);
        rewriter_.drop(node);
      }
    });
  }

 private:
  static constexpr ValueId kNone = UINT32_MAX;

  const TensorType& type(ValueId value) const { return rewriter_.type(value); }

  void find(const Graph& graph) {
    std::map<std::tuple<ValueId, bool>, std::vector<std::uint32_t>> sharing;  // by their input, and whether with biases
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (is_small_product(node) && is_read_as_columns(graph, node)) {
        sharing[{node.inputs[0], node.inputs.size() == 3}].push_back(i);
      }
    }
    for (const auto& [key, nodes] : sharing) {
      const bool has_bias = std::get<bool>(key);
      const std::size_t most = (kMaxInputs - 1) / (has_bias ? 2 : 1);
      Group group;
      for (const std::uint32_t node : nodes) {
        if (group.nodes.size() == most) {
          add(graph, std::exchange(group, {}));
        }
        if (has_lasting_weights(graph, graph.nodes[node])) {
          group.nodes.push_back(node);
        }
      }
      add(graph, std::move(group));
    }
  }

  bool is_small_product(const Node& node) const {
    if (node.op != &op::linear && node.op != &op::matmul) {
      return false;
    }
    const TensorType& result = type(node.output());
    const TensorType& weight = type(node.inputs[1]);
    if ((result.dtype != DType::float32 && result.dtype != DType::float64) || weight.shape.rank() != 2 ||
        result.shape.contains(0) || weight.shape.contains(0)) {
      return false;
    }
    const std::int64_t columns = weight.shape.back();
    const std::int64_t rows = result.shape.product() / columns;
    const double time = result.dtype == DType::float32
                            ? kernels::nanoseconds_of_product<float>(rows, columns, weight.shape[0])
                            : kernels::nanoseconds_of_product<double>(rows, columns, weight.shape[0]);
    return forces_ || (rows <= kMostRows && time <= kMostNanoseconds);
  }

  /// Whether all readers take columns of a wider matrix as they lie.
  bool is_read_as_columns(const Graph& graph, const Node& product) const {
    Shape wider = type(product.output()).shape;
    wider[wider.rank() - 1] += 1;
    return is_read_as_it_lies(graph, product.output(), contiguous_strides(wider));
  }
  bool is_read_as_it_lies(const Graph& graph, ValueId value, const Strides& strides) const {
    const auto users = users_.of(value);
    return !users_.is_result(value) && std::all_of(users.begin(), users.end(), [&](std::uint32_t user) {
      const Node& node = graph.nodes[user];
      if (node.op->view == nullptr) {
        return !node.is_control();
      }
      Layout layout;
      return node.op->view(type(value), strides, type(node.output()), node.attributes.get(), layout) &&
             is_read_as_it_lies(graph, node.output(), layout.strides);
    });
  }

  /// Whether weight and bias are the same in each call, or views of what is.
  bool has_lasting_weights(const Graph& graph, const Node& product) const {
    return std::all_of(product.inputs.begin() + 1, product.inputs.end(), [&](ValueId value) {
      while (const Node* const view = view_of(graph, value)) {
        value = view->inputs[0];
      }
      return lasting_.contains(value);
    });
  }
  /// The node that makes the value, if it's a view whatever the layout: a reshape may have to copy.
  const Node* view_of(const Graph& graph, ValueId value) const {
    const Node* const node = producers_.node(graph, value);
    return node != nullptr && node->op->view != nullptr && node->op != &op::reshape ? node : nullptr;
  }

  void add(const Graph& graph, Group&& group) {
    if (group.nodes.size() < 2) {
      return;
    }
    const Node& first = graph.nodes[group.nodes.front()];
    group.inputs.push_back(first.inputs[0]);
    group.provenance = first.provenance;
    for (std::size_t i = 1; i < first.inputs.size(); ++i) {
      for (const std::uint32_t node : group.nodes) {
        const ValueId input = graph.nodes[node].inputs[i];
        group.inputs.push_back(input);
        add_late_views(graph, input, group);
      }
    }
    for (const std::uint32_t node : group.nodes) {
      places_.emplace(node, groups_.size());
      if (node != group.nodes.front()) {
        graph::merge_provenance(group.provenance, graph.nodes[node].provenance);
      }
    }
    groups_.push_back(std::move(group));
  }

  /// Those that make the value behind the first of the products.
  void add_late_views(const Graph& graph, ValueId value, Group& group) const {
    const bool is_late = producers_[value] != graph::Producers::kNone && producers_[value] > group.nodes.front();
    const bool is_known =
        std::any_of(group.views.begin(), group.views.end(), [&](const Node& view) { return view.output() == value; });
    if (is_late && !is_known) {
      const Node& view = *view_of(graph, value);
      add_late_views(graph, view.inputs[0], group);
      group.views.push_back(view);
    }
  }

  void visit(Node& node, Group& group) {
    if (group.columns == 0) {
      Node all = node;
      all.provenance = group.provenance;
      for (const Node& view : group.views) {
        early_[view.output()] = rewriter_.insert(*view.op, {early(view.inputs[0])}, view.attributes, view);
      }
      for (ValueId& input : group.inputs) {
        input = early(input);
      }
      group.merged = rewriter_.insert(op::merged_linear, group.inputs, {}, all);
    }
    const Shape& shape = type(node.output()).shape;
    const ops::SliceAttributes part{shape.rank() - 1, group.columns, group.columns + shape.back(), 1};
    group.columns = part.stop;
    rewriter_.become(node, op::slice, {group.merged}, {&attribute_type<ops::SliceAttributes>, &part});
  }

  ValueId early(ValueId value) const {
    const auto found = early_.find(value);
    return found == early_.end() ? value : found->second;
  }

  bool forces_;
  const graph::Users users_;
  const graph::Producers producers_;
  graph::Rewriter rewriter_;
  std::unordered_set<ValueId> lasting_;
  std::vector<Group> groups_;
  std::unordered_map<std::uint32_t, std::size_t> places_;  ///< groups by their nodes
  std::unordered_map<ValueId, ValueId> early_;             ///< views that stand before a merged product now
};

}  // namespace

bool merge_products(Graph& graph, const PassContext& context) {
  // Weights that would be put side by side in each call are a loss.
  const bool pays = context.packs || context.least_fused_bytes == 0;
  return pays && kernels::active_gemm() == kernels::Gemm::tiles && ProductMerger(graph, context).run();
}

}  // namespace diptych::passes
