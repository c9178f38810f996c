#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/rng.h"
#include "framework/core/variable.h"

namespace diptych::graph {
class JitFunction;
}

namespace diptych::nn {

/// A part of a model: parameters, sub-modules and a forward function.
///   struct Classifier : nn::Module {
///     explicit Classifier(Rng& rng) { hidden_ = add("hidden", std::make_shared<nn::Linear>(64, 10, rng)); }
///     Tensor forward(const Tensor& x) override { return (*hidden_)(x); }
///   };
class Module {
 public:
  Module();
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Runs forward(); in graph mode as a graph of its own, unless a graph is captured around it.
  Tensor operator()(const Tensor& x, Location where = Location::current());

  /// Of this module and all below, each once, named "0.weight".
  Variables parameters() const;

 protected:
  virtual Tensor forward(const Tensor& x) = 0;

  Variable parameter(std::string name, const Tensor& initial);
  template <class M>
  std::shared_ptr<M> add(std::string name, std::shared_ptr<M> module) {
    module->set_path(name);
    modules_.emplace_back(std::move(name), module);
    return module;
  }

 private:
  /// Prefixes the names of the parameters below.
  void set_path(const std::string& path);
  void collect(Variables& all) const;

  std::vector<Variable> parameters_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;
  std::string name_;  ///< in the parent; the scope of its ops
  std::unique_ptr<graph::JitFunction> graph_;
};

using ModulePtr = std::shared_ptr<Module>;

/// y = x W + b; x: [N, inputs], W: [inputs, outputs], b: [outputs], both drawn from U(-1/sqrt(inputs), 1/sqrt(inputs)).
class Linear : public Module {
 public:
  Linear(std::int64_t inputs, std::int64_t outputs, Rng& rng);
  Tensor forward(const Tensor& x) override;

  Variable weight;
  Variable bias;
};

class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class GELU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

/// Modules one after the other, named "0", "1", ...
class Sequential : public Module {
 public:
  explicit Sequential(std::vector<ModulePtr> modules);
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<ModulePtr> modules_;
};

}  // namespace diptych::nn
