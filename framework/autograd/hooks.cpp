#include "framework/autograd/hooks.h"

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"

namespace diptych {

RemovableHandle register_hook(const Tensor& tensor, autograd::GradientHook hook, Location where) {
  if (!tensor.requires_grad()) {
    if (thread_context.tracer() != nullptr) {
      return {};
    }
    throw Error(fmt::format("register_hook: no gradient is asked for by {}", to_string(tensor.type())), where,
                "register it inside the differentiated function, or on the result of requires_grad()");
  }
  autograd::TapeNode& node = *tensor.body()->tape;
  if (node.hooks == nullptr) {
    node.hooks = std::make_unique<std::vector<autograd::HookEntry>>();
  }
  auto shared = std::make_shared<autograd::Hook>(autograd::Hook{std::move(hook)});
  node.hooks->push_back({tensor.body()->tape_output, shared});
  // The handle must not keep the tape alive.
  return RemovableHandle([weak = std::weak_ptr(shared)] {
    if (const auto alive = weak.lock()) {
      alive->removed = true;
    }
  });
}

}  // namespace diptych
