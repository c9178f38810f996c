#pragma once

#include "framework/nn/module.h"

namespace diptych::nn {

/// Modules one after the other, named "0", "1", ...
class Sequential : public Module {
 public:
  explicit Sequential(std::vector<ModulePtr> modules);
  Tensor forward(const Tensor& x) override;
  std::size_t size() const { return modules_.size(); }
  Module& operator[](std::size_t i) const { return *modules_[i]; }

 private:
  std::vector<ModulePtr> modules_;
};

/// Modules of one kind, named "0", "1", ...; the module that owns them decides how they are used. Not callable.
template <class M = Module>
class ModuleList : public ModuleBase {
 public:
  ModuleList() = default;
  explicit ModuleList(std::vector<std::shared_ptr<M>> modules) {
    for (auto& module : modules) {
      append(std::move(module));
    }
  }
  void append(std::shared_ptr<M> module) { list_.push_back(add(std::to_string(list_.size()), std::move(module))); }
  std::size_t size() const { return list_.size(); }
  M& operator[](std::size_t i) const { return *list_[i]; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  Tensor run(Inputs /*inputs*/) final { throw Error("a ModuleList can't be called; call its modules"); }

  std::vector<std::shared_ptr<M>> list_;
};

}  // namespace diptych::nn
