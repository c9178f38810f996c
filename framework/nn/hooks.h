#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/core/guarded.h"
#include "framework/core/tensor.h"

/// Functions that run around a module's forward and backward pass, registered with ModuleBase::register_*. They are
/// host functions on tensors: inside a captured function they are captured with the rest, and run again only when the
/// function is captured again (which registering or removing a hook causes).
namespace diptych::nn {

class ModuleBase;
using Inputs = std::span<const Tensor>;

/// May change the inputs.
using ForwardPreHook = std::function<void(ModuleBase& module, std::vector<Tensor>& inputs)>;
/// May change the output.
using ForwardHook = std::function<void(ModuleBase& module, Inputs inputs, Tensor& output)>;
/// Runs when the gradient with respect to the output is complete; may change it.
using BackwardPreHook = std::function<void(ModuleBase& module, Tensor& output_gradient)>;
/// Runs when the gradients with respect to the inputs are complete; may change them. They are undefined for inputs for
/// which no gradient is wanted; if there are no others, the hook runs when the gradient with respect to the output is
/// complete.
using BackwardHook =
    std::function<void(ModuleBase& module, std::vector<Tensor>& input_gradients, const Tensor& output_gradient)>;

namespace detail {

template <class Fn>
using HookList = std::vector<std::shared_ptr<const Fn>>;

/// The hooks of one module. Tapes hold weak references to it, because they may outlive the module.
struct Hooks {
  ModuleBase* module = nullptr;
  HookList<ForwardPreHook> forward_pre;
  HookList<ForwardHook> forward;
  HookList<BackwardPreHook> backward_pre;
  HookList<BackwardHook> backward;
  Guarded version{"hooks", 0};

  bool any() const { return !forward_pre.empty() || !forward.empty() || !backward_pre.empty() || !backward.empty(); }
};

/// Runs the module's forward pass `run` between its hooks.
Tensor call_with_hooks(const std::shared_ptr<Hooks>& hooks, Inputs inputs, const std::function<Tensor(Inputs)>& run,
                       Location where);

}  // namespace detail
}  // namespace diptych::nn
