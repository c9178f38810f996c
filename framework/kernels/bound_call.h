#pragma once

#include "framework/core/parallel.h"
#include "framework/dispatch/op.h"
#include "framework/kernels/elementwise.h"

/// The single place where the call of an elementwise op is bound: its loop chosen, its strides planned, its pointers
/// set. Direct eager does this at every call; graphs and launch queues do it once for many calls.
namespace diptych::kernels {

/// One loop over all elements: every input dense with the output's shape, or a single element.
struct LinearCall {
  LoopFn loop;
  std::int64_t count;                               ///< in elements
  void* data[kMaxElementwiseInputs + 1];            ///< inputs, then output; may be set later
  std::int64_t strides[kMaxElementwiseInputs + 1];  ///< in bytes

  void run(int operands, const void* attributes) const {
    if (count < diptych::detail::least_divided_elements) [[likely]] {
      loop(count, data, strides, attributes);
    } else {
      run_in_parts(operands, attributes);
    }
  }

 private:
  void run_in_parts(int operands, const void* attributes) const;
};

/// Arbitrary operands: a loop over an inner axis, and the axes around it.
struct StridedCall {
  LoopFn loop;
  ElementwisePlan plan;
  void* data[kMaxElementwiseInputs + 1];

  void run(int operands, const void* attributes) const;
};

namespace detail {

/// Sets the pointers and selects the loop by the types.
inline LoopFn bind_operands(const KernelCall& call, void** data) {
  const TensorType* types[kMaxElementwiseInputs];
  for (int i = 0; i < call.input_count; ++i) {
    types[i] = call.inputs[i].type;
    data[i] = call.inputs[i].data;
  }
  data[call.input_count] = call.output.data;
  return call.op->loop({types, static_cast<std::size_t>(call.input_count)}, *call.output.type);
}

}  // namespace detail

/// False if one loop can't do it. The output must be dense.
inline bool bind(const KernelCall& call, LinearCall& bound) {
  if (!linear_strides(call, bound.strides)) [[unlikely]] {
    return false;
  }
  bound.loop = detail::bind_operands(call, bound.data);
  bound.count = call.output.type->shape.product();
  return true;
}

inline void bind(const KernelCall& call, StridedCall& bound) {
  bound.loop = detail::bind_operands(call, bound.data);
  bound.plan = plan_elementwise(call);
}

/// Binds a call with one input to a loop that belongs to no op.
inline StridedCall bind_loop(LoopFn loop, const Operand& from, const Operand& to) {
  return {loop, plan_elementwise({nullptr, &from, 1, nullptr, to}), {from.data, to.data}};
}

}  // namespace diptych::kernels
