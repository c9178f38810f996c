#pragma once

#include <algorithm>

#include "framework/dispatch/apply.h"
#include "framework/kernels/elementwise.h"
#include "framework/math/scalar_math.h"
#include "framework/ops/lengths.h"

/// Shared by the files that define ops.
namespace diptych::ops {

/// What a unary op saves for its gradient.
inline constexpr Saves kInput{.inputs = 1};
inline constexpr Saves kOutput{.output = true};

enum class Domain : std::uint8_t { floating, numeric, any };

inline constexpr std::initializer_list<DType> kFloats = {DType::float32, DType::float64, DType::bfloat16};
inline constexpr std::initializer_list<DType> kNumbers = {DType::float32, DType::float64, DType::bfloat16,
                                                          DType::int32,   DType::int64,   DType::uint8};
inline constexpr std::initializer_list<DType> kAll = {DType::float32, DType::float64, DType::bfloat16, DType::int32,
                                                      DType::int64,   DType::uint8,   DType::boolean};

/// With the types for storage, for ops that move elements.
inline constexpr std::initializer_list<DType> kEvery = {
    DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int32,  DType::int64,  DType::uint8,
    DType::int8,    DType::uint16,  DType::int16,    DType::uint32,  DType::uint64, DType::boolean};

/// Calls `fn.template operator()<T>()` for every element type of `domain`.
template <class Fn>
constexpr void for_each_type(Domain domain, const Fn& fn) {
  fn.template operator()<float>();
  fn.template operator()<double>();
  fn.template operator()<bfloat16>();
  if (domain != Domain::floating) {
    fn.template operator()<std::uint8_t>();
    fn.template operator()<std::int32_t>();
    fn.template operator()<std::int64_t>();
  }
  if (domain == Domain::any) {
    fn.template operator()<bool>();
  }
}

/// The loops of a function of 1 to 3 inputs of one type, over the types of `domain`; without attributes if `Attributes`
/// is void.
template <class Fn, Domain domain, int inputs, class Attributes = void>
constexpr std::array<LoopSet, kDTypeCount> loops() {
  std::array<LoopSet, kDTypeCount> table{};
  const auto fill = [&]<class T>() {
    // The types outside the domain must not even compile.
    if constexpr (domain == Domain::any || (domain == Domain::numeric && !std::is_same_v<T, bool>) ||
                  !std::is_integral_v<T>) {
      using F = kernels::ForType<Fn, T>;
      constexpr auto index = static_cast<std::size_t>(dtype_of<T>);
      if constexpr (inputs == 1) {
        table[index] = kernels::loop_set<F, Attributes, T>();
      } else if constexpr (inputs == 2) {
        table[index] = kernels::loop_set<F, Attributes, T, T>();
      } else {
        table[index] = kernels::loop_set<F, Attributes, T, T, T>();
      }
    }
  };
  for_each_type(domain, fill);
  return table;
}

/// The loops of a function that only moves elements of one type and so works on their bits: `Set::of<U>()` for the
/// unsigned integer of each type's size.
template <class Set>
std::array<LoopSet, kDTypeCount> bit_loops() {
  std::array<LoopSet, kDTypeCount> table{};
  for (int i = 0; i < kDTypeCount; ++i) {
    table[static_cast<std::size_t>(i)] =
        visit_bits(static_cast<DType>(i), []<class Bits>() { return Set::template of<Bits>(); });
  }
  return table;
}

/// Type inference of elementwise ops, whose public functions have made the dtypes equal.
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
  } else if (!element_count(output.shape)) {
    call.fail_shape("the result has too many elements", "");
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

// One builder per kind of op: an op's entry states only what is specific to it.

inline OpDef elementwise_op(OpDef op) {
  op.kind = OpKind::elementwise;
  op.kernel = op.own_walk ? op.kernel : kernels::elementwise;
  return op;
}
/// For a scalar function `Fn::apply([const Attributes&,] T...)` over the types of `domain`. Unless the entry says
/// otherwise, the result has the type of the inputs.
template <class Fn, Domain domain, int inputs, class Attributes = void>
OpDef elementwise_op(OpDef op) {
  static_assert(inputs >= 1 && inputs <= 3);
  op.inputs = inputs;
  if (op.infer == nullptr) {
    op.infer = inputs == 1 ? infer_unary<domain> : infer_binary<domain>;
  }
  op.loops = loops<Fn, domain, inputs, Attributes>();
  return elementwise_op(std::move(op));
}
inline OpDef of_kind(OpKind kind, OpDef op) {
  op.kind = kind;
  return op;
}
inline OpDef reduction_op(OpDef op) { return of_kind(OpKind::reduction, std::move(op)); }
inline OpDef row_op(OpDef op) { return of_kind(OpKind::row, std::move(op)); }
inline OpDef view_op(OpDef op) {
  op.stores = true;
  return of_kind(OpKind::view, std::move(op));
}
inline OpDef contraction_op(OpDef op) { return of_kind(OpKind::contraction, std::move(op)); }
inline OpDef window_op(OpDef op) { return of_kind(OpKind::window, std::move(op)); }
inline OpDef random_op(OpDef op) { return of_kind(OpKind::random, std::move(op)); }

/// Rows of the last axis, in `inputs` of the call (a bit each).
template <std::uint32_t inputs>
Rows rows_of_last_axis(const InferCall& call, const TensorType& /*output*/) {
  const Shape& shape = call.shape(0);
  const std::int64_t columns = shape.rank() > 0 ? shape.back() : 0;
  return columns > 0 ? Rows{{shape.product() / columns}, inputs} : Rows{};
}

/// Of ops that take a channel of [batch, channels, ...] by itself, in all inputs.
inline Rows rows_of_channels(const Shape& x) {
  if (x.rank() < 3 || x.contains(0)) {
    return {};
  }
  const std::int64_t plane = x.product() / (x[0] * x[1]);
  return {{x[1], x[0], plane}, ~0U};
}

/// `Flops` per output element.
template <int Flops>
double flops_per_element(const InferCall& /*call*/, const TensorType& output) {
  return Flops * static_cast<double>(output.shape.product());
}

/// Zeros: one element expanded to the shape.
Tensor zeros_of(const TensorType& type);
inline Tensor tangent_or_zeros(const Tensor& tangent, const Tensor& of) {
  return tangent.defined() ? tangent : zeros_of(of.type());
}

/// The promoted type of the defined tensors.
DType common_type(std::initializer_list<const Tensor*> tensors);
/// An undefined tensor stays undefined.
Tensor as_type(const Tensor& x, DType dtype, Location where);

/// A sample with attributes.
template <class A>
Sample with(std::vector<SampleInput> inputs, const A& attributes) {
  return {std::move(inputs), AttributeValue(&attribute_type<A>, &attributes)};
}

inline SampleInput sample(DType dtype, Shape shape, double low = -2, double high = 2) {
  return {{dtype, shape}, low, high, false};
}
inline SampleInput transposed(SampleInput input) {
  input.transposed = true;
  return input;
}

/// `low`, or 0 for types without negative numbers.
inline double least_of(DType dtype, double low) {
  return is_floating(dtype) || is_signed_integral(dtype) ? low : std::max(low, 0.0);
}

/// The shapes on which every unary elementwise op is tested: dense, strided, scalar, empty, odd length.
inline std::vector<Sample> unary_samples(std::initializer_list<DType> dtypes, double low, double high) {
  std::vector<Sample> samples;
  for (DType dtype : dtypes) {
    const double least = least_of(dtype, low);
    for (const Shape& shape : {Shape{}, Shape{3, 37}, Shape{2, 0, 3}, Shape{5}}) {
      samples.push_back({{sample(dtype, shape, least, high)}, {}});
    }
    samples.push_back({{transposed(sample(dtype, {7, 19}, least, high))}, {}});
  }
  return samples;
}

/// The pairs on which every binary elementwise op is tested: equal, broadcast both ways, scalar, strided, empty.
inline std::vector<Sample> binary_samples(std::initializer_list<DType> dtypes, double low, double high) {
  std::vector<Sample> samples;
  const auto pair = [&](SampleInput a, SampleInput b) { samples.push_back({{std::move(a), std::move(b)}, {}}); };
  for (DType dtype : dtypes) {
    const double least = least_of(dtype, low);
    const auto in = [&](const Shape& shape) { return sample(dtype, shape, least, high); };
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
