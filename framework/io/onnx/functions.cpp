#include "framework/io/onnx/functions.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "framework/core/attributes.h"

namespace diptych::onnx {
namespace {

/// A few functions that call each other twice are millions of nodes.
constexpr std::size_t kMostInlined = 500'000;
constexpr int kDeepestCall = 100;

/// One call of a function: what its names and attributes stand for.
struct Call {
  const Function* function = nullptr;            ///< null: the model's graph
  std::string prefix;                            ///< before the names of its own values
  std::map<std::string, std::string> names;      ///< its parameters, and what the caller calls them
  std::map<std::string, AttributeValue> values;  ///< of the calling node's attributes

  std::string name_of(const std::string& name) const {
    if (const auto parameter = names.find(name); parameter != names.end()) {
      return parameter->second;
    }
    return name.empty() ? name : prefix + name;
  }
};

class Inliner {
 public:
  explicit Inliner(const std::map<std::string, Function>& functions) : functions_(functions) {}

  Graph graph(const Graph& from, const Call& call) {
    Graph to;
    to.name = from.name;
    const auto renamed = [&](std::vector<ValueInfo> infos) {
      for (ValueInfo& info : infos) {
        info.name = call.name_of(info.name);
      }
      return infos;
    };
    to.inputs = renamed(from.inputs);
    to.outputs = renamed(from.outputs);
    for (const auto& [name, initializer] : from.initializers) {
      to.initializers.emplace(call.name_of(name), initializer);
    }
    for (const Node& node : from.nodes) {
      append(node, call, to.nodes);
    }
    return to;
  }

 private:
  /// The node as it stands in the caller's graph.
  Node placed(const Node& node, const Call& call) {
    Node to = node;
    for (std::vector<std::string>* names : {&to.inputs, &to.outputs}) {
      for (std::string& name : *names) {
        name = call.name_of(name);
      }
    }
    if (call.function != nullptr) {
      to.name = call.prefix + (node.name.empty() ? node.op : node.name);
      if (const auto own = call.function->opsets.find(node.domain);
          node.opset == 0 && own != call.function->opsets.end()) {
        to.opset = own->second;
      }
    }
    to.attributes.clear();
    for (const auto& [name, value] : node.attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) {
        to.attributes.emplace(name, std::shared_ptr<const Graph>(std::make_shared<Graph>(graph(**body, call))));
      } else if (const auto* reference = std::get_if<AttributeReference>(&value);
                 reference != nullptr && call.function != nullptr) {
        // One that the caller leaves out, and that has no default, is left out here, too.
        if (const auto given = call.values.find(reference->name); given != call.values.end()) {
          to.attributes.emplace(name, given->second);
        }
      } else {
        to.attributes.emplace(name, value);
      }
    }
    return to;
  }

  void append(const Node& node, const Call& call, std::vector<Node>& to) {
    if (++nodes_ > kMostInlined) {
      throw Unsupported(fmt::format("its functions, inlined, have more than {} nodes", kMostInlined));
    }
    Node here = placed(node, call);
    const auto function = functions_.find(here.domain + "::" + here.op);
    if (function != functions_.end()) {
      return append_call(here, function->second, to);
    }
    to.push_back(std::move(here));
  }

  void append_call(const Node& node, const Function& function, std::vector<Node>& to) {
    if (++depth_ > kDeepestCall) {
      throw Error(fmt::format("the model's function {} calls itself, or {} others within each other; export it again",
                              quote(function.name), kDeepestCall));
    }
    if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size()) {
      throw Error(fmt::format("node {} has {} inputs and {} outputs, its function {} has {} and {}; export it again",
                              quote(node.name), node.inputs.size(), node.outputs.size(), quote(function.name),
                              function.inputs.size(), function.outputs.size()));
    }
    Call call{&function, fmt::format("{}#{}/", node.name.empty() ? node.op : node.name, ++calls_), {}, node.attributes};
    call.values.insert(function.defaults.begin(), function.defaults.end());
    for (std::size_t i = 0; i < function.inputs.size(); ++i) {
      call.names[function.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : "";
    }
    std::vector<Node> copies;  // of inputs that are outputs, and of outputs that are given twice
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& mine = node.outputs[i];
      if (!mine.empty() && !call.names.emplace(function.outputs[i], mine).second) {
        constexpr std::int64_t kAnyOpset = 13;
        copies.push_back({mine, "Identity", "", {call.names[function.outputs[i]]}, {mine}, {}, kAnyOpset});
      }
    }
    for (const Node& each : function.nodes) {
      append(each, call, to);
    }
    std::move(copies.begin(), copies.end(), std::back_inserter(to));
    --depth_;
  }

  const std::map<std::string, Function>& functions_;
  std::size_t nodes_ = 0;
  std::size_t calls_ = 0;
  int depth_ = 0;
};

}  // namespace

Graph inlined(Graph graph, const std::map<std::string, Function>& functions) {
  return functions.empty() ? std::move(graph) : Inliner(functions).graph(graph, {});
}

}  // namespace diptych::onnx
