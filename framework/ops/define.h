#pragma once

#include "framework/kernels/elementwise.h"
#include "framework/kernels/scalar_math.h"
#include "framework/ops/apply.h"

/// What the files that define ops share.
namespace diptych::ops {

enum class Domain : std::uint8_t { floating, numeric, any };

/// The loops of a unary or binary function of equal types, over the types of `domain`.
template <class Fn, Domain domain, int inputs>
constexpr std::array<LoopSet, kDTypeCount> loops() {
  std::array<LoopSet, kDTypeCount> table{};
  const auto fill = [&]<class T>() {
    constexpr auto index = static_cast<std::size_t>(dtype_of<T>);
    if constexpr (inputs == 1) {
      table[index] = kernels::loop_set<Fn, void, T>();
    } else {
      table[index] = kernels::loop_set<Fn, void, T, T>();
    }
  };
  fill.template operator()<float>();
  fill.template operator()<double>();
  if constexpr (domain != Domain::floating) {
    fill.template operator()<std::int32_t>();
    fill.template operator()<std::int64_t>();
  }
  if constexpr (domain == Domain::any) {
    fill.template operator()<bool>();
  }
  return table;
}

/// Type inference of elementwise ops; the public functions have made the dtypes equal.
template <Domain domain>
void check_domain(const InferCall& call, DType dtype) {
  if (domain == Domain::floating && !is_floating(dtype)) [[unlikely]] {
    call.fail_dtype("needs floating-point elements", "cast the input to f32 first");
  }
  if (domain == Domain::numeric && dtype == DType::boolean) [[unlikely]] {
    call.fail_dtype("has no meaning for bool", "cast the input to i64 or f32 first");
  }
}

template <Domain domain>
void infer_unary(const InferCall& call, TensorType& output) {
  check_domain<domain>(call, call.input(0).dtype);
  output = call.input(0);
}

inline void infer_broadcast(const InferCall& call, int first, TensorType& output) {
  const Shape& a = call.shape(first);
  const Shape& b = call.shape(first + 1);
  if (call.input(first).dtype != call.input(first + 1).dtype) [[unlikely]] {
    call.fail_dtype("element types differ", "cast one of them");
  }
  if (a == b) [[likely]] {
    output.shape = a;
  } else if (!broadcast(a, b, output.shape)) {
    call.fail_shape("shapes don't broadcast",
                    "align the shapes from the right: lengths must be equal, or one of them 1");
  }
}

template <Domain domain>
void infer_binary(const InferCall& call, TensorType& output) {
  check_domain<domain>(call, call.input(0).dtype);
  output.dtype = call.input(0).dtype;
  infer_broadcast(call, 0, output);
}

inline void infer_comparison(const InferCall& call, TensorType& output) {
  output.dtype = DType::boolean;
  infer_broadcast(call, 0, output);
}

/// `Flops` per output element.
template <int Flops>
double flops_per_element(const InferCall& /*call*/, const TensorType& output) {
  return Flops * static_cast<double>(output.shape.product());
}

inline SampleInput sample(DType dtype, Shape shape, double low = -2, double high = 2) {
  return {{dtype, shape}, low, high, false};
}
inline SampleInput transposed(SampleInput input) {
  input.transposed = true;
  return input;
}

/// The shapes that every unary elementwise op is tried on: dense, strided, scalar, empty, odd length.
inline std::vector<Sample> unary_samples(std::initializer_list<DType> dtypes, double low, double high) {
  std::vector<Sample> samples;
  for (DType dtype : dtypes) {
    for (const Shape& shape : {Shape{}, Shape{3, 37}, Shape{2, 0, 3}, Shape{5}}) {
      samples.push_back({{sample(dtype, shape, low, high)}, {}});
    }
    samples.push_back({{transposed(sample(dtype, {7, 19}, low, high))}, {}});
  }
  return samples;
}

/// The pairs that every binary elementwise op is tried on: equal, broadcast both ways, scalar, strided, empty.
inline std::vector<Sample> binary_samples(std::initializer_list<DType> dtypes, double low, double high) {
  std::vector<Sample> samples;
  const auto pair = [&](SampleInput a, SampleInput b) { samples.push_back({{std::move(a), std::move(b)}, {}}); };
  for (DType dtype : dtypes) {
    const auto in = [&](const Shape& shape) { return sample(dtype, shape, low, high); };
    pair(in({4, 33}), in({4, 33}));
    pair(in({4, 33}), in({33}));
    pair(in({4, 1}), in({1, 5}));
    pair(in({}), in({2, 3}));
    pair(in({2, 3}), in({}));
    pair(transposed(in({9, 17})), in({9, 17}));
    pair(in({0, 3}), in({1, 3}));
  }
  return samples;
}

}  // namespace diptych::ops
