#pragma once

#include "framework/autograd/tape.h"

namespace diptych {

/// Takes a hook away again. Copies share it; it may outlive what it was registered on.
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

/// Calls `hook` with the complete gradient by `tensor` in every backward pass that goes through it; what it returns
/// (undefined: no change) takes the gradient's place. Hooks run in the order of registration. Inside a captured
/// function the hook becomes part of the graph. Throws Error if no gradient is asked for by `tensor` in eager; inside a
/// captured function that is no error, because the same code is captured again for its gradient.
RemovableHandle register_hook(const Tensor& tensor, autograd::GradientHook hook, Location where = Location::current());

}  // namespace diptych
