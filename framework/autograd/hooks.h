#pragma once

#include "framework/dispatch/tape.h"

namespace diptych {

/// Removes a hook. Copies share it; it may outlive the tensor on which the hook was registered.
class RemovableHandle {
 public:
  RemovableHandle() = default;
  explicit RemovableHandle(std::function<void()> remove)
      : remove_(std::make_shared<std::function<void()>>(std::move(remove))) {}
  /// A second call does nothing.
  void remove() {
    if (remove_ != nullptr && *remove_) {
      (*remove_)();
      *remove_ = nullptr;
    }
  }

 private:
  std::shared_ptr<std::function<void()>> remove_;
};

/// Calls `hook` with the complete gradient with respect to `tensor` in every backward pass through it; the result
/// (undefined: no change) replaces the gradient. Hooks run in order of registration. Inside a captured function the
/// hook becomes part of the graph. In eager, throws Error if no gradient with respect to `tensor` is wanted; inside a
/// captured function that is no error, because the same code is captured again for its gradient.
RemovableHandle register_hook(const Tensor& tensor, autograd::GradientHook hook, Location where = Location::current());

}  // namespace diptych
