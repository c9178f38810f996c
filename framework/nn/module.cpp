#include "framework/nn/module.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/graph/jit.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/matmul.h"

namespace diptych::nn {

Module::Module() = default;
Module::~Module() = default;

Tensor Module::operator()(const Tensor& x, Location where) {
  if (wants_graph()) {
    if (graph_ == nullptr) {
      graph::JitOptions options;
      options.name = name_.empty() ? "module" : name_;
      graph_ = std::make_unique<graph::JitFunction>(
          [this](std::span<const Tensor> arguments, std::shared_ptr<void>& /*structure*/) {
            return std::vector<Tensor>{(*this)(arguments[0])};
          },
          std::move(options));
    }
    return graph_->call(std::span(&x, 1), where).outputs[0];
  }
  if (name_.empty()) {
    return forward(x);
  }
  const graph::ModuleScope scope(name_);
  return forward(x);
}

Variable Module::parameter(std::string name, const Tensor& initial) {
  return parameters_.emplace_back(initial, std::move(name));
}

void Module::set_path(const std::string& path) {
  if (name_.empty()) {
    name_ = path;
  }
  for (Variable& variable : parameters_) {
    variable.rename(fmt::format("{}.{}", path, variable.name()));
  }
  for (auto& [name, module] : modules_) {
    module->set_path(path);
  }
}

void Module::collect(Variables& all) const {
  for (const Variable& variable : parameters_) {
    if (std::find(all.begin(), all.end(), variable) == all.end()) {
      all.push_back(variable);
    }
  }
  for (const auto& [name, module] : modules_) {
    module->collect(all);
  }
}

Variables Module::parameters() const {
  Variables all;
  collect(all);
  return all;
}

Linear::Linear(std::int64_t inputs, std::int64_t outputs, Rng& rng) {
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  weight = parameter("weight", rng.uniform({inputs, outputs}, -bound, bound));
  bias = parameter("bias", rng.uniform({outputs}, -bound, bound));
}
Tensor Linear::forward(const Tensor& x) { return matmul(x, weight) + bias; }

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor GELU::forward(const Tensor& x) { return gelu(x); }

Sequential::Sequential(std::vector<ModulePtr> modules) : modules_(std::move(modules)) {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    add(std::to_string(i), modules_[i]);
  }
}
Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const ModulePtr& module : modules_) {
    y = (*module)(y);
  }
  return y;
}

}  // namespace diptych::nn
