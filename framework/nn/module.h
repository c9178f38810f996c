#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/hooks.h"
#include "framework/core/rng.h"
#include "framework/core/variable.h"
#include "framework/nn/hooks.h"

namespace diptych::graph {
class JitFunction;
struct Compilation;
}  // namespace diptych::graph

namespace diptych::nn {

using NamedVariables = std::vector<std::pair<std::string, Variable>>;

/// A part of a model: parameters, buffers, submodules. User code derives from Module (one input) or ModuleOf<n>.
class ModuleBase {
 public:
  ModuleBase();
  virtual ~ModuleBase();
  ModuleBase(const ModuleBase&) = delete;
  ModuleBase& operator=(const ModuleBase&) = delete;

  /// The parameters of this module and all modules below, each once, in order of registration, named by path:
  /// "0.weight".
  Variables parameters() const;
  /// State that isn't trained, such as running statistics.
  Variables buffers() const;
  /// Parameters, then buffers: the contents of a checkpoint.
  Variables state() const;
  NamedVariables named_parameters() const;
  NamedVariables named_buffers() const;
  /// This module as "", then all modules below, each once.
  std::vector<std::pair<std::string, ModuleBase*>> named_modules();

  /// Switches this module and all modules below. A graph captured in one mode stays cached in the other.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_.get() != 0; }

  /// Hooks run in order of registration; the handle removes them. See framework/nn/hooks.h.
  RemovableHandle register_forward_pre_hook(ForwardPreHook hook);
  RemovableHandle register_forward_hook(ForwardHook hook);
  RemovableHandle register_full_backward_pre_hook(BackwardPreHook hook);
  RemovableHandle register_full_backward_hook(BackwardHook hook);

  /// Every compilation of this module as a graph of its own, in graph mode; null before the first.
  const std::vector<graph::Compilation>* ledger() const;

 protected:
  /// Runs the forward pass; in graph mode as a graph of its own, except inside another capture.
  Tensor call(Inputs inputs, Location where);
  /// The forward pass.
  virtual Tensor run(Inputs inputs) = 0;
  /// The line that called the module whose forward pass this thread is in. Ops of a forward pass that take it,
  /// `linear(x, weight, bias, caller())`, say in messages and in graphs which call of the module they belong to.
  static Location caller();

  /// A name is one step of a path: not empty, without dots, and unique in its module. Throws Error.
  Variable parameter(const std::string& name, const Tensor& initial);
  Variable buffer(const std::string& name, const Tensor& initial);
  template <class M>
  std::shared_ptr<M> add(const std::string& name, std::shared_ptr<M> module) {
    add_module(name, module);
    return module;
  }

 private:
  template <class M>
  static void collect(const std::string& path, M& module, std::vector<std::pair<std::string, M*>>& all);
  NamedVariables named_variables(NamedVariables ModuleBase::*own) const;
  void check_name(const std::string& name) const;
  void add_module(std::string name, const std::shared_ptr<ModuleBase>& module);
  Tensor call_as_graph(Inputs inputs, Location where);
  template <class Fn>
  RemovableHandle add_hook(detail::HookList<Fn> detail::Hooks::*list, Fn hook);

  NamedVariables parameters_;  ///< keyed by their own names; those of the variables are paths
  NamedVariables buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<ModuleBase>>> modules_;
  std::string name_;  ///< in the first parent; the scope of its ops
  Guarded training_{"training", 1};
  std::shared_ptr<detail::Hooks> hooks_;
  std::map<std::uint64_t, std::unique_ptr<graph::JitFunction>> graphs_;  ///< keyed by the defined inputs
  graph::JitFunction* last_graph_ = nullptr;
};

/// A module with one input.
///   struct Classifier : nn::Module {
///     explicit Classifier(Rng& rng) { hidden_ = add("hidden", std::make_shared<nn::Linear>(64, 10, rng)); }
///     Tensor forward(const Tensor& x) override { return (*hidden_)(x); }
///     std::shared_ptr<nn::Linear> hidden_;
///   };
class Module : public ModuleBase {
 public:
  Tensor operator()(const Tensor& x, Location where = Location::current()) { return call(Inputs(&x, 1), where); }

 protected:
  virtual Tensor forward(const Tensor& x) = 0;

 private:
  Tensor run(Inputs inputs) final { return forward(inputs[0]); }
};

namespace detail {
template <std::size_t>
using Input = const Tensor&;
template <class Indices>
class ModuleOfInputs;
}  // namespace detail

/// A module with several inputs; omitted optional ones are undefined.
///   struct Attend : nn::ModuleOf<2> {
///     Tensor forward(const Tensor& query, const Tensor& memory) override { ... }
///   };
template <std::size_t inputs>
using ModuleOf = detail::ModuleOfInputs<std::make_index_sequence<inputs>>;

namespace detail {
template <std::size_t... I>
class ModuleOfInputs<std::index_sequence<I...>> : public ModuleBase {
 public:
  Tensor operator()(Input<I>... inputs, Location where = Location::current()) {
    const Tensor all[] = {inputs...};
    return call(all, where);
  }

 protected:
  virtual Tensor forward(Input<I>... inputs) = 0;

 private:
  Tensor run(Inputs inputs) final { return forward(inputs[I]...); }
};
}  // namespace detail

using ModulePtr = std::shared_ptr<Module>;

}  // namespace diptych::nn
