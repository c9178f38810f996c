#pragma once

#include "framework/autograd/functional.h"

/// Functions with custom gradient rules, checkpointing, and gradients with respect to tensors that are already
/// computed.
namespace diptych {

namespace detail {

/// Both kinds of rule, on flat lists; see custom_vjp and custom_jvp.
using FlatRule = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

/// Makes `outputs` depend on `inputs` through a rule from cotangents to gradients. Throws Error if they depend on
/// anything else for which gradients are wanted.
void attach_vjp(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::uint64_t serial, FlatRule rule,
                Location where);
/// The same, through a rule from tangents to tangents.
void attach_jvp(std::span<const Tensor> inputs, std::span<Tensor> outputs, FlatRule rule, Location where);
/// The same, by recomputing them of `inputs` and `reads` with `again` when their gradient is wanted.
void attach_checkpoint(std::vector<autograd::SavedTensor> inputs, std::vector<Tensor>& outputs, std::uint64_t serial,
                       std::vector<VariableRead> reads, std::function<std::vector<Tensor>()> again, Location where);

/// What a rule keeps of an argument, whose tensors, if it is a tree of them, go to `saved`.
template <class Argument>
Argument kept(Argument argument, std::vector<autograd::SavedTensor>& saved) {
  if constexpr (is_tree<Argument>()) {
    for_each_tensor(argument, [&](Tensor& tensor) {
      if (tensor.defined()) {
        tensor = saved.emplace_back(tensor).tensor();
      }
    });
  }
  return argument;
}

inline bool any_watched(std::span<const Tensor> tensors) {
  return thread_context.grad_enabled &&
         std::any_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) { return tensor.requires_grad(); });
}

/// `tensors`, with the undefined ones replaced by zeros of the types in `like`.
std::vector<Tensor> with_zeros(std::span<const Tensor> tensors, std::span<const Tensor> like);

}  // namespace detail

/// A function with a custom reverse mode. `forward(arguments...)` returns (result, residuals); `backward(residuals,
/// cotangent)` returns the gradients of all arguments, as one tree of the arguments' structure (a tuple if there are
/// several). Everything that gradients flow to must be an argument. Forward mode and gradients of any order are
/// derived.
template <class Forward, class Backward>
auto custom_vjp(Forward forward, Backward backward, Location where = Location::current()) {
  return [forward, backward, where](const auto&... arguments) mutable {
    const auto tree = std::tuple(arguments...);
    const std::uint64_t serial = autograd::next_serial();
    auto [result, residuals] = forward(arguments...);
    const std::vector<Tensor> inputs = flatten_tree(tree);
    if (thread_context.grad_enabled) {
      std::vector<Tensor> outputs = flatten_tree(result);
      detail::attach_vjp(
          inputs, outputs, serial,
          [backward, result = result, residuals = residuals](std::span<const Tensor> cotangents) mutable {
            return flatten_tree(backward(residuals, rebuild_tree(result, cotangents)));
          },
          where);
      result = rebuild_tree(result, outputs);
    }
    return result;
  };
}

/// A function with a custom forward mode. `rule(primals, tangents)`, each either one argument or a tuple of all,
/// returns (result, tangent of the result), where the tangent is linear in the tangents. Reverse mode is derived by
/// transposing it.
template <class Fn, class Rule>
auto custom_jvp(Fn function, Rule rule, Location where = Location::current()) {
  return [function, rule, where](const auto&... arguments) mutable {
    const auto tree = std::tuple(arguments...);
    const std::vector<Tensor> inputs = flatten_tree(tree);
    if (!detail::any_watched(inputs)) {
      return function(arguments...);
    }
    auto result = [&] {
      const NoGrad guard;
      return function(arguments...);
    }();
    std::vector<Tensor> outputs = flatten_tree(result);
    detail::attach_jvp(
        inputs, outputs,
        [rule, tree](std::span<const Tensor> tangents) mutable {
          return flatten_tree(rule(detail::unwrap(tree), detail::unwrap(rebuild_tree(tree, tangents))).second);
        },
        where);
    return rebuild_tree(result, outputs);
  };
}

/// `function`, without saving what its gradient reads: the backward pass computes it again [Chen et al. 2016, "Training
/// deep nets with sublinear memory cost"]. For that, the variables that it used (random state included) are set to the
/// values that they had, and then restored.
template <class Fn>
auto checkpoint(Fn function, Location where = Location::current()) {
  return [function, where](const auto&... arguments) mutable {
    if (!thread_context.grad_enabled || thread_context.save_all) {
      return function(arguments...);
    }
    const std::uint64_t serial = autograd::next_serial();
    std::vector<autograd::SavedTensor> saved;
    std::tuple<std::decay_t<decltype(arguments)>...> tree{detail::kept(arguments, saved)...};
    std::vector<VariableRead> used;
    auto result = [&] {
      const VariableReads reads;
      auto value = function(arguments...);
      used = reads.reads();
      return value;
    }();
    std::vector<Tensor> outputs = flatten_tree(result);
    detail::attach_checkpoint(
        std::move(saved), outputs, serial, std::move(used),
        [function, tree = std::move(tree)]() mutable { return flatten_tree(std::apply(function, tree)); }, where);
    return rebuild_tree(result, outputs);
  };
}

/// A tensor with respect to which autograd::grad can compute gradients.
inline Tensor requires_grad(const Tensor& x, Location where = Location::current()) { return autograd::watch(x, where); }

namespace autograd {

struct GradArguments {
  std::vector<Tensor> cotangents = {};  ///< one per output; empty: ones, for scalars only
  bool retain_graph = false;            ///< keep the saved tensors, for another backward pass through them
  bool create_graph = false;            ///< record the backward pass, for gradients of the gradients
};
/// The gradients of `outputs` with respect to `inputs` (tensors of requires_grad(), or computed from them). Frees what
/// was saved unless told not to; a second pass through it then throws Error.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         const GradArguments& arguments = {}, Location where = Location::current());
inline std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs,
                                const GradArguments& arguments = {}, Location where = Location::current()) {
  return grad(std::span(&output, 1), std::span(inputs), arguments, where);
}

}  // namespace autograd
}  // namespace diptych
