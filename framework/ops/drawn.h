#pragma once

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/kernels/random.h"
#include "framework/ops/created.h"
#include "framework/ops/define.h"
#include "framework/ops/random.h"

/// Shared by the files that define random ops. Such an op is a pure function of a generator's state, its first input,
/// so graphs may keep, merge and move it like any other. Draws differ because each advances the state.
namespace diptych::ops {

using kernels::RandomState;

inline RandomState state_in(const Operand& operand) {
  const kernels::Dense dense(operand);
  const auto* words = static_cast<const std::uint64_t*>(dense.data());
  return {words[0], words[1]};
}
inline RandomState state_of(const KernelCall& call) { return state_in(call.inputs[0]); }
/// Of what dropout keeps. With p = 1 nothing is kept, so it doesn't matter; it only has to be a number.
inline double factor_of_dropout(double p) { return p < 1 ? 1 / (1 - p) : 1; }

inline void infer_drawn(const InferCall& call, const Shape& shape, DType dtype, TensorType& output) {
  if (call.input(0) != TensorType{DType::int64, {2}}) [[unlikely]] {
    call.fail_shape("the first input is not the state of a generator, i64[2]", "pass Generator::draw()");
  }
  infer_created(call, shape, dtype, output);
}
[[noreturn]] inline void fail_parameter(const InferCall& call, const char* what) {
  throw Error(fmt::format("{}: {}", call.op.name, what), call.where, "");
}
inline void check_floating(const InferCall& call, DType dtype) {
  if (!is_floating(dtype)) {
    throw DTypeError(fmt::format("{}: gives floating-point numbers, not {}", call.op.name, name_of(dtype)), call.where,
                     "draw f32, then cast");
  }
}

inline SampleInput state_sample() { return sample(DType::int64, {2}, 0, 1000); }
template <class Attributes>
std::vector<Sample> drawn_samples(std::initializer_list<Attributes> list) {
  std::vector<Sample> samples;
  for (const Attributes& attributes : list) {
    samples.push_back(with({state_sample()}, attributes));
  }
  return samples;
}

/// Fills the output with Draw<T>, with the same parameters for all elements.
template <template <class> class Draw, class T, class Parameters>
void draw_into(const KernelCall& call, const Parameters& parameters) {
  kernels::PerIsaRandom<Draw<T>, Parameters, T>::active()(state_of(call), call.output.type->shape.product(),
                                                          static_cast<T*>(call.output.data), parameters);
}

template <class Fn>
void visit_floating(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::bfloat16:
      return fn.template operator()<bfloat16>();
    case DType::float32:
      return fn.template operator()<float>();
    default:
      return fn.template operator()<double>();
  }
}

/// 52 bits as a double in [0, 2^52), made by setting the exponent bits, because AVX2 can't convert 64-bit integers.
DIPTYCH_INLINE double whole(std::uint64_t bits) {
  return std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFULL) | 0x4330000000000000ULL) - 0x1p52;
}
DIPTYCH_INLINE float whole(std::uint32_t bits) { return static_cast<float>(static_cast<std::int32_t>(bits)); }

template <class Attributes>
Tensor drawn(const Op& op, const Attributes& attributes, const Generator& generator, Location where) {
  return apply_op(op, &attributes, where, generator.draw(where));
}

}  // namespace diptych::ops
