// Backward hooks are recorded on the tape as identities around the module: one on its output, one on its inputs.

#include "framework/nn/hooks.h"

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/tape.h"

namespace diptych::nn::detail {
namespace {

/// Shared by the two identities of one call.
struct BackwardCall {
  std::weak_ptr<Hooks> hooks;
  std::vector<bool> watched;  ///< one per input
  Tensor output_gradient;
};

std::vector<Tensor> run_backward_hooks(BackwardCall& call, std::span<const Tensor> watched_gradients) {
  std::vector<Tensor> gradients(watched_gradients.begin(), watched_gradients.end());
  const std::shared_ptr<Hooks> hooks = call.hooks.lock();
  if (hooks == nullptr) {
    return gradients;
  }
  std::vector<Tensor> by_input(call.watched.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < by_input.size(); ++i) {
    by_input[i] = call.watched[i] ? gradients[next++] : Tensor();
  }
  const Tensor output_gradient = std::exchange(call.output_gradient, {});
  for (const auto& hook : HookList<BackwardHook>(hooks->backward)) {  // a copy: a hook may remove itself
    (*hook)(*hooks->module, by_input, output_gradient);
  }
  next = 0;
  for (std::size_t i = 0; i < by_input.size(); ++i) {
    if (call.watched[i]) {
      gradients[next++] = by_input[i];
    }
  }
  return gradients;
}

class InputRule final : public autograd::CustomRule {
 public:
  explicit InputRule(std::shared_ptr<BackwardCall> call) : call_(std::move(call)) {}
  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    return run_backward_hooks(*call_, cotangents);
  }
  std::optional<std::vector<Tensor>> jvp(std::span<const Tensor> tangents) override {
    return std::vector<Tensor>(tangents.begin(), tangents.end());
  }

 private:
  std::shared_ptr<BackwardCall> call_;
};

class OutputRule final : public autograd::CustomRule {
 public:
  explicit OutputRule(std::shared_ptr<BackwardCall> call) : call_(std::move(call)) {}
  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    Tensor gradient = cotangents[0];
    if (const std::shared_ptr<Hooks> hooks = call_->hooks.lock()) {
      for (const auto& hook : HookList<BackwardPreHook>(hooks->backward_pre)) {
        (*hook)(*hooks->module, gradient);
      }
      call_->output_gradient = gradient;
      if (std::find(call_->watched.begin(), call_->watched.end(), true) == call_->watched.end()) {
        run_backward_hooks(*call_, {});
      }
    }
    return {gradient};
  }
  std::optional<std::vector<Tensor>> jvp(std::span<const Tensor> tangents) override {
    return std::vector<Tensor>(tangents.begin(), tangents.end());
  }

 private:
  std::shared_ptr<BackwardCall> call_;
};

std::shared_ptr<BackwardCall> attach_to_inputs(const std::shared_ptr<Hooks>& hooks, std::vector<Tensor>& inputs,
                                               Location where) {
  auto call = std::make_shared<BackwardCall>(BackwardCall{hooks, {}, {}});
  std::vector<Tensor> watched;
  std::vector<Tensor> identities;
  for (const Tensor& input : inputs) {
    call->watched.push_back(input.defined() && input.requires_grad());
    if (call->watched.back()) {
      watched.push_back(input);
      identities.push_back(detached_alias(input));
    }
  }
  if (!watched.empty()) {
    autograd::record_custom(std::make_unique<InputRule>(call), watched, identities, where);
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (call->watched[i]) {
        inputs[i] = identities[next++];
      }
    }
  }
  return call;
}

}  // namespace

Tensor call_with_hooks(const std::shared_ptr<Hooks>& hooks, Inputs inputs, const std::function<Tensor(Inputs)>& run,
                       Location where) {
  std::vector<Tensor> changed(inputs.begin(), inputs.end());
  for (const auto& hook : HookList<ForwardPreHook>(hooks->forward_pre)) {
    (*hook)(*hooks->module, changed);
  }
  const bool backward = thread_context.grad_enabled && (!hooks->backward.empty() || !hooks->backward_pre.empty());
  const std::shared_ptr<BackwardCall> call = backward ? attach_to_inputs(hooks, changed, where) : nullptr;
  Tensor output = run(changed);
  for (const auto& hook : HookList<ForwardHook>(hooks->forward)) {
    (*hook)(*hooks->module, changed, output);
  }
  if (backward && output.requires_grad()) {
    Tensor identity = detached_alias(output);
    autograd::record_custom(std::make_unique<OutputRule>(call), std::span(&output, 1), std::span(&identity, 1), where);
    return identity;
  }
  return output;
}

}  // namespace diptych::nn::detail
