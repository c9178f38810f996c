#pragma once

#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"

/// Shared by the entries of activation functions.
namespace diptych::ops {

inline Tensor apply_backward(const OpDef& op, const void* attributes, const Tensor& a, const Tensor& b) {
  const std::array<const Tensor*, 2> inputs{&a, &b};
  return apply(op, inputs, attributes, Location::current());
}

/// The op that computes cotangent * f'(x). It is linear in the cotangent, so its gradient with respect to the cotangent
/// is the op itself. `Fn::curvature(v)` is f''(x) of input 1, in public ops; without it f'' is 0 wherever it exists.
template <class Fn, class Attributes = void>
OpDef derivative(const char* name, const char* doc, CostFn flops) {
  constexpr bool is_curved = requires(const VjpCall& v) { Fn::curvature(v); };
  OpDef op = elementwise_op<Fn, Domain::floating, 2, Attributes>(
      {.name = name,
       .doc = doc,
       .vjp = [](const VjpCall& v) -> Gradients {
         Gradients gradients;
         if (v.needs(0)) {
           gradients[0] = apply_backward(v.op, v.attributes, v.cotangent, v.input(1));
         }
         if constexpr (is_curved) {
           if (v.needs(1)) {
             gradients[1] = v.cotangent * v.input(0) * Fn::curvature(v);
           }
         }
         return gradients;
       },
       .saves = {.inputs = is_curved ? 3U : 2U},
       .flops = flops,
       .samples = [] { return binary_samples(kFloats, -2, 2); }});
  if constexpr (!std::is_void_v<Attributes>) {
    op.attributes = &attribute_type<Attributes>;
    op.samples = [] {
      std::vector<Sample> samples = binary_samples(kFloats, -2, 2);
      for (Sample& sample : samples) {
        sample = with(std::move(sample.inputs), Attributes::example());
      }
      return samples;
    };
    op.infer = [](const InferCall& c, TensorType& output) {
      c.as<Attributes>().check(c);
      infer_binary<Domain::floating>(c, output);
    };
  }
  return op;
}

/// The common part of the entries of activations.
template <class Fn, class Attributes = void, Domain domain = Domain::floating>
OpDef activation(const char* name, const char* doc, Vjp vjp, Saves saves, CostFn flops) {
  OpDef op = elementwise_op<Fn, domain, 1, Attributes>(
      {.name = name, .doc = doc, .vjp = vjp, .saves = saves, .flops = flops, .samples = [] {
         return unary_samples(domain == Domain::floating ? kFloats : kNumbers, -4, 4);
       }});
  if constexpr (!std::is_void_v<Attributes>) {
    op.attributes = &attribute_type<Attributes>;
    op.samples = [] {
      std::vector<Sample> samples = unary_samples(domain == Domain::floating ? kFloats : kNumbers, -4, 4);
      for (Sample& sample : samples) {
        sample = with(std::move(sample.inputs), Attributes::example());
      }
      return samples;
    };
    op.infer = [](const InferCall& c, TensorType& output) {
      c.as<Attributes>().check(c);
      infer_unary<domain>(c, output);
    };
  }
  return op;
}

/// clip(x / 6 + 1/2, 0, 1); NaN stays NaN.
template <class T>
DIPTYCH_INLINE T hard_step(T x) {
  const T shifted = x + T(3);
  const T low = shifted < T(0) ? T(0) : shifted;
  return (low > T(6) ? T(6) : low) / T(6);
}

}  // namespace diptych::ops
