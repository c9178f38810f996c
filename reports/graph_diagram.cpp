#include "reports/graph_diagram.h"

#include <map>

#include <fmt/format.h>

#include "framework/ops/full.h"

namespace diptych::reports {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

std::string id_of(ValueId value) { return fmt::format("v{}", value); }

class Builder {
 public:
  Builder(const Graph& graph, const Graph* before) : graph_(graph) {
    if (before != nullptr) {
      for (const Node& node : before->nodes) {
        known_.emplace(node.output, &node);
      }
      compare_ = true;
    }
  }

  Diagram run() {
    diagram_.title = graph_.name;
    find_constants();
    find_references();
    for (const graph::Input& input : graph_.inputs) {
      if (written_out_.contains(input.value)) {
        continue;
      }
      DiagramNode node;
      node.id = id_of(input.value);
      node.label = {input.name, to_string(graph_.types[input.value])};
      node.node_class = NodeClass::input;
      node.tooltip = std::string(graph::name_of(input.kind));
      diagram_.nodes.push_back(std::move(node));
    }
    for (const Node& node : graph_.nodes) {
      if (!written_out_.contains(node.output)) {
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
  void find_constants() {
    for (const auto& [value, tensor] : graph_.constants) {
      written_out_[value] = tensor.numel() == 1 ? fmt::format("{:.6g}", tensor.item())
                                                : fmt::format("const {}", to_string(tensor.type()));
    }
    for (const Node& node : graph_.nodes) {
      if (node.op == &full_op()) {
        written_out_[node.output] = fmt::format("{:.6g}", node.attributes.as<FullAttributes>().value);
      }
    }
  }

  /// Long edges make a picture slow to lay out and hard to read: what is used far away is named there instead ("%46"),
  /// and an input that many nodes use is named in each.
  void find_references() {
    constexpr std::size_t kMostUsers = 3;
    defined_at_.assign(graph_.types.size(), 0);
    referred_to_.assign(graph_.types.size(), false);
    std::vector<std::size_t> users(graph_.types.size(), 0);
    std::size_t position = 0;
    for (const Node& node : graph_.nodes) {
      if (written_out_.contains(node.output)) {
        continue;
      }
      defined_at_[node.output] = position;
      for (ValueId input : node.inputs) {
        ++users[input];
        referred_to_[input] = referred_to_[input] || is_far(input, position);
      }
      ++position;
    }
    for (const graph::Input& input : graph_.inputs) {
      if (users[input.value] > kMostUsers) {
        written_out_[input.value] = input.name;
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
    box.id = id_of(node.output);
    std::string title = node.op->name;
    for (ValueId input : node.inputs) {
      const auto written = written_out_.find(input);
      if (written != written_out_.end()) {
        title += fmt::format(" {}", written->second);
      } else if (is_far(input, position_)) {
        title += fmt::format(" %{}", input);
      } else {
        diagram_.edges.push_back({id_of(input), box.id, to_string(graph_.types[input])});
      }
    }
    box.label = {referred_to_[node.output] ? fmt::format("%{} = {}", node.output, title) : title};
    ++position_;
    if (const std::string attributes = node.attributes.print(); !attributes.empty()) {
      box.label.push_back(attributes);
    }
    box.node_class = node_class_from(std::string(node.op->family_name()));
    std::string_view scope = node.provenance.scope;
    while (!scope.empty()) {
      const std::size_t dot = scope.find('.');
      box.scope.emplace_back(scope.substr(0, dot));
      scope = dot == std::string_view::npos ? std::string_view() : scope.substr(dot + 1);
    }
    box.tooltip = fmt::format("{}\n{} source ops, first at {}", graph::print_node(graph_, node),
                              node.provenance.source_ops.size(), to_string(node.provenance.where));
    if (compare_) {
      const auto same = known_.find(node.output);
      const bool unchanged = same != known_.end() && same->second->op == node.op &&
                             same->second->inputs == node.inputs && same->second->attributes == node.attributes;
      box.emphasis = unchanged ? (same->second->provenance.source_ops != node.provenance.source_ops ? Emphasis::fused
                                                                                                    : Emphasis::none)
                               : Emphasis::added;
    }
    diagram_.nodes.push_back(std::move(box));
  }

  void add_result(const std::string& name, ValueId value) {
    DiagramNode node;
    node.id = fmt::format("result {}", name);
    node.label = {name};
    node.node_class = NodeClass::output;
    const auto written = written_out_.find(value);
    if (written != written_out_.end()) {
      node.label.push_back(written->second);
    } else {
      diagram_.edges.push_back({id_of(value), node.id, to_string(graph_.types[value])});
    }
    diagram_.nodes.push_back(std::move(node));
  }

  const Graph& graph_;
  bool compare_ = false;
  std::map<ValueId, const Node*> known_;
  std::map<ValueId, std::string> written_out_;  ///< values that stand in their users' text: constants, busy inputs
  std::vector<std::size_t> defined_at_;         ///< by value: the position of its node; SIZE_MAX for inputs
  std::vector<bool> referred_to_;
  std::size_t position_ = 0;
  Diagram diagram_;
};

}  // namespace

Diagram graph_diagram(const Graph& graph, const Graph* before) { return Builder(graph, before).run(); }

}  // namespace diptych::reports
