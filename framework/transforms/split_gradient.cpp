#include "framework/transforms/split_gradient.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/dispatch/op.h"
#include "framework/graph/rewriter.h"
#include "framework/passes/pass.h"

namespace diptych::graph {
namespace {

constexpr std::uint32_t kNone = graph::Producers::kNone;
/// An elementwise op with more operations an element takes longer than reading what it made.
constexpr double kCheapFlops = 4;

/// A minimum cut between a source and a sink (Dinic's algorithm).
class Network {
 public:
  explicit Network(std::size_t nodes) : edges_of_(nodes) {}

  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;

  void add(std::size_t from, std::size_t to, std::int64_t capacity) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
  }

  /// Which nodes are on the source's side.
  std::vector<bool> cut(std::size_t source, std::size_t sink) {
    while (find_levels(source)[sink] >= 0) {
      next_.assign(edges_of_.size(), 0);
      while (push(source, sink, kUnlimited) > 0) {
      }
    }
    std::vector<bool> reached;
    for (const int level : levels_) {
      reached.push_back(level >= 0);
    }
    return reached;
  }

 private:
  struct Edge {
    std::size_t to;
    std::int64_t capacity;  ///< that is left; the edge after an even one goes back
  };

  const std::vector<int>& find_levels(std::size_t source) {
    levels_.assign(edges_of_.size(), -1);
    levels_[source] = 0;
    std::queue<std::size_t> queue({source});
    while (!queue.empty()) {
      const std::size_t at = queue.front();
      queue.pop();
      for (const std::size_t e : edges_of_[at]) {
        if (edges_[e].capacity > 0 && levels_[edges_[e].to] < 0) {
          levels_[edges_[e].to] = levels_[at] + 1;
          queue.push(edges_[e].to);
        }
      }
    }
    return levels_;
  }

  std::int64_t push(std::size_t at, std::size_t sink, std::int64_t most) {
    if (at == sink) {
      return most;
    }
    for (std::size_t& i = next_[at]; i < edges_of_[at].size(); ++i) {
      const std::size_t e = edges_of_[at][i];
      if (edges_[e].capacity > 0 && levels_[edges_[e].to] == levels_[at] + 1) {
        const std::int64_t pushed = push(edges_[e].to, sink, std::min(most, edges_[e].capacity));
        if (pushed > 0) {
          edges_[e].capacity -= pushed;
          edges_[e ^ 1U].capacity += pushed;
          return pushed;
        }
      }
    }
    return 0;
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<std::size_t>> edges_of_;
  std::vector<int> levels_;
  std::vector<std::size_t> next_;
};

class Split {
 public:
  Split(const Graph& joint, std::size_t inputs, std::size_t results)
      : joint_(joint), inputs_(inputs), results_(results), producers_(joint) {}

  SplitGradient run() {
    find_backward();
    find_saved();
    SplitGradient split;
    split.forward = forward();
    split.backward = backward();
    for (const ValueId value : saved_) {
      split.saved_bytes += bytes_of(joint_.types[value]);
    }
    return split;
  }

 private:
  std::span<const ValueId> results() const { return std::span(joint_.outputs).first(results_); }
  std::span<const ValueId> gradients() const { return std::span(joint_.outputs).subspan(results_); }

  /// The nodes that need a cotangent, of those that gradients need; and what they read of the others.
  void find_backward() {
    std::vector<bool> after(joint_.types.size(), false);
    std::size_t argument = 0;
    for (const Input& input : joint_.inputs) {
      after[input.value] = input.kind == InputKind::argument && argument++ >= inputs_;
    }
    for (const Node& node : joint_.nodes) {
      const bool is_after =
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return bool(after[input]); });
      for (const ValueId output : node.outputs) {
        after[output] = is_after;
      }
    }
    std::vector<bool> needed(joint_.types.size(), false);
    const auto need = [&](ValueId value) {
      needed[value] = true;
      if (!after[value] && producers_[value] != kNone) {
        frontier_.insert(value);
      }
    };
    for (const ValueId gradient : gradients()) {
      need(gradient);
    }
    in_backward_.assign(joint_.nodes.size(), false);
    has_forward_effect_.assign(joint_.nodes.size(), false);
    for (std::size_t i = joint_.nodes.size(); i-- > 0;) {
      const Node& node = joint_.nodes[i];
      const bool is_after =
          std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) { return bool(after[output]); });
      const bool is_needed =
          std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) { return bool(needed[output]); });
      has_forward_effect_[i] = has_effect(node) && !is_after;
      if (is_after && (is_needed || has_effect(node))) {
        in_backward_[i] = true;
        std::for_each(node.inputs.begin(), node.inputs.end(), need);
      }
    }
  }

  bool is_cheap(const Node& node) const {
    if (node.outputs.size() != 1 || node.op->can_fail || node.op->effect || !node.regions.empty()) {
      return false;
    }
    if (node.op->view != nullptr) {
      return true;
    }
    const TensorType& type = joint_.types[node.output()];
    const double flops = cost_of(*node.op, joint_.input_types(node), node.attributes.get(), type).flops;
    return node.op->elementwise() && flops <= kCheapFlops * static_cast<double>(type.shape.product());
  }

  void find_saved() {
    // Of each value an edge that costs its bytes: what it is made of by cheap ops leads to it, what else it is made of
    // is the source.
    std::vector<ValueId> values(frontier_.begin(), frontier_.end());
    std::map<ValueId, std::size_t> place;
    for (std::size_t i = 0; i < values.size(); ++i) {
      place.emplace(values[i], i);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Node& node = joint_.nodes[producers_[values[i]]];
      for (const ValueId input : node.inputs) {
        if (is_cheap(node) && producers_[input] != kNone && place.emplace(input, values.size()).second) {
          values.push_back(input);
        }
      }
    }
    const std::size_t source = 2 * values.size();
    const std::size_t sink = source + 1;
    Network network(sink + 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      network.add(2 * i, 2 * i + 1, static_cast<std::int64_t>(bytes_of(joint_.types[values[i]])) + 1);
      const Node& node = joint_.nodes[producers_[values[i]]];
      if (!is_cheap(node)) {
        network.add(source, 2 * i, Network::kUnlimited);
        continue;
      }
      for (const ValueId input : node.inputs) {
        if (producers_[input] != kNone) {
          network.add(2 * place.at(input) + 1, 2 * i, Network::kUnlimited);
        }
      }
    }
    for (const ValueId value : frontier_) {
      network.add(2 * place.at(value) + 1, sink, Network::kUnlimited);
    }
    const std::vector<bool> reached = network.cut(source, sink);
    std::set<ValueId> saved;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (reached[2 * i] && !reached[2 * i + 1]) {
        saved.insert(values[i]);
      }
    }
    saved_.assign(saved.begin(), saved.end());
    // What lies between them and where they are needed is computed again.
    std::vector<ValueId> open(frontier_.begin(), frontier_.end());
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const std::uint32_t node = producers_[value];
      if (node != kNone && !saved.contains(value) && !in_backward_[node]) {
        in_backward_[node] = true;
        open.insert(open.end(), joint_.nodes[node].inputs.begin(), joint_.nodes[node].inputs.end());
      }
    }
  }

  /// Nodes that satisfy `keep`, with what they and the outputs read besides `arguments`.
  template <class Keep>
  Graph part(const char* suffix, std::vector<Input> arguments, std::vector<ValueId> outputs, const Keep& keep) const {
    Graph graph;
    graph.name = joint_.name + suffix;
    graph.types = joint_.types;
    graph.outputs = std::move(outputs);
    std::set<ValueId> read(graph.outputs.begin(), graph.outputs.end());
    for (std::uint32_t i = 0; i < joint_.nodes.size(); ++i) {
      if (keep(i)) {
        graph.nodes.push_back(joint_.nodes[i]);
        read.insert(joint_.nodes[i].inputs.begin(), joint_.nodes[i].inputs.end());
      }
    }
    graph.inputs = std::move(arguments);
    for (const Input& input : joint_.inputs) {
      if (input.kind != InputKind::argument && read.contains(input.value)) {
        graph.inputs.push_back(input);
      }
    }
    for (const auto& constant : joint_.constants) {
      if (read.contains(constant.first)) {
        graph.constants.push_back(constant);
      }
    }
    return graph;
  }

  /// The arguments of the joint graph from `first` to `end`.
  std::vector<Input> arguments(std::size_t first, std::size_t end) const {
    std::vector<Input> chosen;
    std::size_t argument = 0;
    for (const Input& input : joint_.inputs) {
      if (input.kind == InputKind::argument) {
        if (argument >= first && argument < end) {
          chosen.push_back(input);
        }
        ++argument;
      }
    }
    return chosen;
  }

  Graph forward() const {
    std::vector<ValueId> outputs(results().begin(), results().end());
    outputs.insert(outputs.end(), saved_.begin(), saved_.end());
    std::vector<bool> needed(joint_.nodes.size(), false);
    std::vector<ValueId> open = outputs;
    for (std::uint32_t i = 0; i < joint_.nodes.size(); ++i) {
      if (has_forward_effect_[i]) {
        open.insert(open.end(), joint_.nodes[i].outputs.begin(), joint_.nodes[i].outputs.end());
      }
    }
    while (!open.empty()) {
      const std::uint32_t node = producers_[open.back()];
      open.pop_back();
      if (node != kNone && !needed[node]) {
        needed[node] = true;
        open.insert(open.end(), joint_.nodes[node].inputs.begin(), joint_.nodes[node].inputs.end());
      }
    }
    return part("", arguments(0, inputs_), std::move(outputs), [&](std::uint32_t node) { return bool(needed[node]); });
  }

  Graph backward() const {
    std::vector<Input> given = arguments(0, inputs_);
    for (const ValueId value : saved_) {
      given.push_back({value, InputKind::argument, fmt::format("saved{}", value), {}, {}});
    }
    for (const Input& cotangent : arguments(inputs_, SIZE_MAX)) {
      given.push_back(cotangent);
    }
    return part(".backward", std::move(given), {gradients().begin(), gradients().end()},
                [&](std::uint32_t node) { return bool(in_backward_[node]); });
  }

  const Graph& joint_;
  const std::size_t inputs_;
  const std::size_t results_;
  graph::Producers producers_;
  std::vector<bool> in_backward_;  ///< by node
  std::vector<bool> has_forward_effect_;
  std::set<ValueId> frontier_;  ///< what the backward part reads of the forward part
  std::vector<ValueId> saved_;
};

}  // namespace

Graph part_of_backward(const Graph& backward, std::size_t first, std::size_t count, std::size_t cotangents,
                       const std::vector<bool>& given) {
  Graph part = backward;
  const auto outputs = std::span(backward.outputs).subspan(first, count);
  part.outputs.assign(outputs.begin(), outputs.end());
  std::size_t argument = 0;
  std::erase_if(part.inputs, [&](const Input& input) {
    const std::size_t place = input.kind == InputKind::argument ? argument++ : 0;
    return place >= cotangents && !given[place - cotangents];
  });
  passes::eliminate_dead_code(part, passes::PassContext(part));
  return part;
}

SplitGradient split_gradient(const Graph& joint, std::size_t inputs, std::size_t results) {
  internal_check(joint.updates.empty(), "a graph that is cut updates nothing");
  return Split(joint, inputs, results).run();
}

}  // namespace diptych::graph
