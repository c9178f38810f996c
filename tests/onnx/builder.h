#pragma once

#include <set>

#include "framework/io/onnx/import.h"

namespace diptych::testing {

/// A model, node by node, without a file.
class Builder {
 public:
  explicit Builder(std::int64_t opset = 17) : opset_(opset) {}

  /// Lengths, or names of dynamic axes.
  using Length = std::variant<std::int64_t, std::string>;
  Builder& input(const std::string& name, DType dtype, std::vector<Length> shape) {
    graph_.inputs.push_back({name, dtype, "", true, std::move(shape)});
    return *this;
  }
  Builder& foreign_input(const std::string& name, const std::string& type) {
    graph_.inputs.push_back({name, std::nullopt, type, false, {}});
    return *this;
  }
  Builder& output(const std::string& name) {
    graph_.outputs.push_back({name, std::nullopt, "", false, {}});
    return *this;
  }
  Builder& constant(const std::string& name, Tensor tensor) {
    graph_.initializers[name] = {std::move(tensor), ""};
    return *this;
  }
  Builder& integers(const std::string& name, const std::vector<std::int64_t>& values) {
    return constant(name, Tensor::from(values, {static_cast<std::int64_t>(values.size())}));
  }
  Builder& node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                std::map<std::string, onnx::AttributeValue> attributes = {}, const std::string& domain = "") {
    graph_.nodes.push_back({op + "_" + std::to_string(graph_.nodes.size()), op, domain, std::move(inputs),
                            std::move(outputs), std::move(attributes)});
    if (!domain.empty()) {
      other_domains_.insert(domain);
    }
    return *this;
  }

  onnx::Graph graph() const { return graph_; }
  std::shared_ptr<const onnx::Graph> body() const { return std::make_shared<onnx::Graph>(graph_); }
  std::shared_ptr<const onnx::Model> model() const {
    onnx::Model model;
    model.opsets[""] = opset_;
    for (const std::string& domain : other_domains_) {
      model.opsets[domain] = 1;
    }
    model.graph = body();
    return std::make_shared<onnx::Model>(std::move(model));
  }
  onnx::ImportedModel imported(const onnx::ImportOptions& options = {}) const {
    return onnx::ImportedModel(model(), options);
  }

 private:
  std::int64_t opset_;
  std::set<std::string> other_domains_;
  onnx::Graph graph_;
};

}  // namespace diptych::testing
