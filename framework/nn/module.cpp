#include "framework/nn/module.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/dispatch/element_error.h"
#include "framework/transforms/jit.h"

namespace diptych::nn {
namespace {

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

Variables without_names(const NamedVariables& named) {
  Variables all;
  for (const auto& [name, variable] : named) {
    all.push_back(variable);
  }
  return all;
}

constinit thread_local Location called_from{};

/// While this lives, the forward pass that runs is called from there.
class CallSite {
 public:
  explicit CallSite(Location where) : previous_(std::exchange(called_from, where)) {}
  ~CallSite() { called_from = previous_; }
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

 private:
  Location previous_;
};

}  // namespace

Location ModuleBase::caller() { return called_from; }

ModuleBase::ModuleBase() : hooks_(std::make_shared<detail::Hooks>()) { hooks_->module = this; }
ModuleBase::~ModuleBase() = default;

Tensor ModuleBase::call(Inputs inputs, Location where) {
  const CallSite site(where);
  if (wants_graph()) {
    return call_as_graph(inputs, where);
  }
  std::optional<graph::ModuleScope> scope;
  if (!name_.empty()) {
    scope.emplace(name_);
  }
  try {
    if (hooks_->version.get() == 0 || !hooks_->any()) {
      return run(inputs);
    }
    return detail::call_with_hooks(
        hooks_, inputs, [this](Inputs changed) { return run(changed); }, where);
  } catch (ElementError& error) {
    error.add_module(name_);
    throw;
  }
}

// One function for each set of defined inputs, because graphs have no undefined tensors.
Tensor ModuleBase::call_as_graph(Inputs inputs, Location where) {
  std::uint64_t defined = 0;
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) {
      defined |= std::uint64_t{1} << i;
      arguments.push_back(inputs[i]);
    }
  }
  std::unique_ptr<graph::JitFunction>& function = graphs_[defined];
  if (function == nullptr) {
    graph::JitOptions options;
    options.name = name_.empty() ? "module" : name_;
    function = std::make_unique<graph::JitFunction>(
        [this, defined, count = inputs.size()](std::span<const Tensor> given, std::shared_ptr<void>& /*structure*/) {
          std::vector<Tensor> all(count);
          std::size_t next = 0;
          for (std::size_t i = 0; i < count; ++i) {
            if (((defined >> i) & 1U) != 0) {
              all[i] = given[next++];
            }
          }
          return std::vector<Tensor>{call(all, caller())};
        },
        std::move(options));
  }
  last_graph_ = function.get();
  return function->call(arguments, where).outputs[0];
}

const std::vector<graph::Compilation>* ModuleBase::ledger() const {
  return last_graph_ == nullptr ? nullptr : &last_graph_->ledger();
}

void ModuleBase::check_name(const std::string& name) const {
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  };
  if (name.empty() || name.find('.') != std::string::npos) {
    throw Error(fmt::format("module: '{}' is no name; names are not empty and have no dots", name));
  }
  if (taken(modules_) || taken(parameters_) || taken(buffers_)) {
    throw Error(fmt::format("module: the name '{}' is taken; choose another", name));
  }
}

Variable ModuleBase::parameter(const std::string& name, const Tensor& initial) {
  check_name(name);
  return parameters_.emplace_back(name, Variable(initial, name)).second;
}

Variable ModuleBase::buffer(const std::string& name, const Tensor& initial) {
  check_name(name);
  return buffers_.emplace_back(name, Variable(initial, name)).second;
}

// A shared module keeps the first of its paths; the last parent to add it sees the whole tree and names it.
void ModuleBase::add_module(std::string name, const std::shared_ptr<ModuleBase>& module) {
  check_name(name);
  if (module == nullptr) {
    throw Error(fmt::format("module: '{}' is null; pass std::make_shared of a module", name));
  }
  if (module->name_.empty()) {
    module->name_ = name;
  }
  modules_.emplace_back(std::move(name), module);
  for (const NamedVariables& all : {named_parameters(), named_buffers()}) {
    for (auto [path, variable] : all) {
      variable.rename(path);
    }
  }
  for (const auto& [path, part] : named_modules()) {
    part->training_.rename(fmt::format("training of '{}'", path));
    part->hooks_->version.rename(fmt::format("hooks of '{}'", path));
  }
}

template <class M>
void ModuleBase::collect(const std::string& path, M& module, std::vector<std::pair<std::string, M*>>& all) {
  if (std::any_of(all.begin(), all.end(), [&](const auto& entry) { return entry.second == &module; })) {
    return;
  }
  all.emplace_back(path, &module);
  for (const auto& [name, part] : module.modules_) {
    collect<M>(join(path, name), *part, all);
  }
}

std::vector<std::pair<std::string, ModuleBase*>> ModuleBase::named_modules() {
  std::vector<std::pair<std::string, ModuleBase*>> all;
  collect("", *this, all);
  return all;
}

NamedVariables ModuleBase::named_variables(NamedVariables ModuleBase::*own) const {
  std::vector<std::pair<std::string, const ModuleBase*>> modules;
  collect("", *this, modules);
  NamedVariables all;
  for (const auto& [path, module] : modules) {
    for (const auto& [name, variable] : module->*own) {
      const auto same = [&, &wanted = variable](const auto& entry) { return entry.second == wanted; };
      if (std::none_of(all.begin(), all.end(), same)) {
        all.emplace_back(join(path, name), variable);
      }
    }
  }
  return all;
}

NamedVariables ModuleBase::named_parameters() const { return named_variables(&ModuleBase::parameters_); }
NamedVariables ModuleBase::named_buffers() const { return named_variables(&ModuleBase::buffers_); }
Variables ModuleBase::parameters() const { return without_names(named_parameters()); }
Variables ModuleBase::buffers() const { return without_names(named_buffers()); }

Variables ModuleBase::state() const {
  Variables all = parameters();
  const Variables more = buffers();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void ModuleBase::train(bool on) {
  for (const auto& [path, module] : named_modules()) {
    module->training_.set(on ? 1 : 0);
  }
}

template <class Fn>
RemovableHandle ModuleBase::add_hook(detail::HookList<Fn> detail::Hooks::*list, Fn hook) {
  auto shared = std::make_shared<const Fn>(std::move(hook));
  ((*hooks_).*list).push_back(shared);
  // Not get(), because a change is not a read. Hooks may come and go while a graph is captured.
  static std::atomic<std::int64_t> next_version = 0;
  hooks_->version.set(++next_version);
  return RemovableHandle([weak = std::weak_ptr(hooks_), list, shared] {
    if (const auto hooks = weak.lock()) {
      std::erase((*hooks).*list, shared);
      hooks->version.set(hooks->any() ? ++next_version : 0);
    }
  });
}

RemovableHandle ModuleBase::register_forward_pre_hook(ForwardPreHook hook) {
  return add_hook(&detail::Hooks::forward_pre, std::move(hook));
}
RemovableHandle ModuleBase::register_forward_hook(ForwardHook hook) {
  return add_hook(&detail::Hooks::forward, std::move(hook));
}
RemovableHandle ModuleBase::register_full_backward_pre_hook(BackwardPreHook hook) {
  return add_hook(&detail::Hooks::backward_pre, std::move(hook));
}
RemovableHandle ModuleBase::register_full_backward_hook(BackwardHook hook) {
  return add_hook(&detail::Hooks::backward, std::move(hook));
}

}  // namespace diptych::nn
