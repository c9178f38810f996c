#include "reports/diagrams/graph_diagram.h"

#include <map>

#include <fmt/format.h>

#include "framework/core/text.h"
#include "framework/ops/creation_ops.h"

namespace diptych::reports {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// The nodes of a region form a separate cluster; the control-flow node is connected to what the region reads.
class Builder {
 public:
  Builder(const Graph& graph, const Graph* before, std::string prefix = "", std::vector<std::string> scope = {})
      : graph_(graph), prefix_(std::move(prefix)), scope_(std::move(scope)) {
    for (const Node& node : graph_.nodes) {
      for (ValueId output : node.outputs) {
        first_output_.emplace(output, node.output());
      }
    }
    if (before != nullptr) {
      for (const Node& node : before->nodes) {
        known_.emplace(node.output(), &node);
      }
      compare_ = true;
    }
  }

  Diagram run() {
    diagram_.title = graph_.name;
    written_out_ = constant_texts(graph_);
    find_references();
    for (const graph::Input& input : graph_.inputs) {
      if (written_out_.contains(input.value)) {
        continue;
      }
      DiagramNode node;
      node.id = id_of(input.value);
      node.label = {input.name, to_string(graph_.types[input.value])};
      node.node_class = NodeClass::input;
      node.scope = scope_;
      node.tooltip = describe(input);
      diagram_.nodes.push_back(std::move(node));
    }
    for (const Node& node : graph_.nodes) {
      if (!written_out_.contains(node.output())) {
        add(node);
      }
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      add_result(fmt::format("output {}", i), graph_.outputs[i]);
    }
    for (const graph::Update& update : graph_.updates) {
      add_result(fmt::format("update {}", graph_.inputs[update.input].name), update.value);
    }
    return std::move(diagram_);
  }

 private:
  /// A label is cut if a name is long.
  std::string describe(const graph::Input& input) const {
    return fmt::format("{} {}: {}", graph::name_of(input.kind), quote(input.name),
                       to_string(graph_.types[input.value]));
  }
  std::string id_of(ValueId value) const {
    const auto further = first_output_.find(value);
    return fmt::format("{}v{}", prefix_, further != first_output_.end() ? further->second : value);
  }
  void add_regions(const Node& node, const DiagramNode& box, const Node* before) {
    for (std::size_t i = 0; i < node.regions.size(); ++i) {
      const Graph& region = *node.regions[i];
      std::vector<std::string> scope = box.scope;
      scope.push_back(fmt::format("{} %{}", region.name, node.output()));
      const bool known = before != nullptr && i < before->regions.size();
      const std::string prefix = fmt::format("{}.{}.", box.id, i);
      Diagram inner = Builder(region, known ? before->regions[i].get() : nullptr, prefix, std::move(scope)).run();
      for (const DiagramNode& inner_node : inner.nodes) {
        if (inner_node.node_class == NodeClass::input) {
          diagram_.edges.push_back({box.id, inner_node.id, ""});
        }
      }
      diagram_.numbers = diagram_.numbers || inner.numbers;
      diagram_.nodes.insert(diagram_.nodes.end(), inner.nodes.begin(), inner.nodes.end());
      diagram_.edges.insert(diagram_.edges.end(), inner.edges.begin(), inner.edges.end());
    }
  }

  /// Long edges make a picture slow to lay out and hard to read. A value used far from its definition is therefore
  /// named there ("%46"), and an input with many users is named in each of them.
  void find_references() {
    constexpr std::size_t kMostUsers = 3;
    defined_at_.assign(graph_.types.size(), 0);
    referred_to_.assign(graph_.types.size(), false);
    std::vector<std::size_t> users(graph_.types.size(), 0);
    std::size_t position = 0;
    for (const Node& node : graph_.nodes) {
      if (written_out_.contains(node.output())) {
        continue;
      }
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        defined_at_[node.outputs[i]] = position;
      }
      for (ValueId input : node.inputs) {
        ++users[input];
        referred_to_[input] = referred_to_[input] || is_far(input, position);
      }
      ++position;
    }
    for (const graph::Input& input : graph_.inputs) {
      if (users[input.value] > kMostUsers) {
        constexpr int kMostColumns = 18;  // a node's line has more words than these
        written_out_[input.value] = shorten_middle(input.name, kMostColumns);
        busy_inputs_[input.value] = describe(input);
      }
      defined_at_[input.value] = SIZE_MAX;
      referred_to_[input.value] = false;
    }
  }
  bool is_far(ValueId value, std::size_t user) const {
    constexpr std::size_t kFar = 16;
    return defined_at_[value] != SIZE_MAX && user > defined_at_[value] + kFar;
  }

  void add(const Node& node) {
    DiagramNode box;
    box.id = id_of(node.output());
    std::string title = node.op->name;
    std::vector<std::string> inputs_written_out;
    for (ValueId input : node.inputs) {
      const auto written = written_out_.find(input);
      if (written != written_out_.end()) {
        title += fmt::format(" {}", written->second);
        if (const auto named = busy_inputs_.find(input); named != busy_inputs_.end()) {
          inputs_written_out.push_back(named->second);
        }
      } else if (is_far(input, position_)) {
        title += fmt::format(" %{}", input);
      } else {
        diagram_.edges.push_back({id_of(input), box.id, to_string(graph_.types[input])});
      }
    }
    diagram_.numbers = diagram_.numbers || referred_to_[node.output()];
    box.label = {referred_to_[node.output()] ? fmt::format("%{} = {}", node.output(), title) : title};
    ++position_;
    if (const std::string attributes = node.attributes.print(); !attributes.empty()) {
      box.label.push_back(attributes);
    }
    box.node_class = node_class_from(std::string(node.op->family_name()));
    box.scope = scope_;
    box.place = {node.op->name, node.provenance.scope};
    std::string_view scope = node.provenance.scope;
    while (!scope.empty()) {
      const std::size_t dot = scope.find('.');
      box.scope.emplace_back(scope.substr(0, dot));
      scope = dot == std::string_view::npos ? std::string_view() : scope.substr(dot + 1);
    }
    const std::size_t sources = node.provenance.source_ops.size();
    box.tooltip = fmt::format("{}\n{} source op{} {}", graph::print_node(graph_, node), sources,
                              sources == 1 ? ", at" : "s, first at", to_string(node.provenance.where));
    for (const std::string& name : inputs_written_out) {
      box.tooltip += fmt::format("\nreads {}", name);
    }
    const Node* before = nullptr;
    if (compare_) {
      const auto same = known_.find(node.output());
      const bool unchanged = same != known_.end() && same->second->op == node.op &&
                             same->second->inputs == node.inputs && same->second->attributes == node.attributes;
      before = unchanged ? same->second : nullptr;
      box.emphasis = unchanged ? (same->second->provenance.source_ops != node.provenance.source_ops ? Emphasis::fused
                                                                                                    : Emphasis::none)
                               : Emphasis::added;
    }
    diagram_.nodes.push_back(box);
    add_regions(node, box, before);
  }

  void add_result(const std::string& name, ValueId value) {
    DiagramNode node;
    node.id = fmt::format("{}result {}", prefix_, name);
    node.label = {name};
    node.node_class = NodeClass::output;
    node.scope = scope_;
    const auto written = written_out_.find(value);
    if (written != written_out_.end()) {
      node.label.push_back(written->second);
    } else {
      diagram_.edges.push_back({id_of(value), node.id, to_string(graph_.types[value])});
    }
    diagram_.nodes.push_back(std::move(node));
  }

  const Graph& graph_;
  std::string prefix_;                       ///< prefix of the ids
  std::vector<std::string> scope_;           ///< scope around all nodes
  std::map<ValueId, ValueId> first_output_;  ///< of values that are further outputs of a node
  bool compare_ = false;
  std::map<ValueId, const Node*> known_;
  std::map<ValueId, std::string> written_out_;  ///< values written in their users' text: constants, busy inputs
  std::map<ValueId, std::string> busy_inputs_;  ///< the inputs among them, in full
  std::vector<std::size_t> defined_at_;         ///< by value: the position of its node; SIZE_MAX for inputs
  std::vector<bool> referred_to_;
  std::size_t position_ = 0;
  Diagram diagram_;
};

}  // namespace

std::map<ValueId, std::string> constant_texts(const Graph& graph) {
  std::map<ValueId, std::string> texts;
  for (const auto& [value, tensor] : graph.constants) {
    texts[value] =
        tensor.numel() == 1 ? fmt::format("{:.6g}", tensor.item()) : fmt::format("const {}", to_string(tensor.type()));
  }
  for (const Node& node : graph.nodes) {
    if (node.op == &op::full) {
      texts[node.output()] = fmt::format("{:.6g}", node.attributes.as<ops::FullAttributes>().value);
    }
  }
  return texts;
}

Diagram graph_diagram(const Graph& graph, const Graph* before) { return Builder(graph, before).run(); }

}  // namespace diptych::reports
