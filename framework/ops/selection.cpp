// where and cast: elementwise ops on inputs of several types.

#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {
namespace {

using namespace ops;

struct Where {
  template <class T>
  DIPTYCH_INLINE static T apply(bool condition, T a, T b) {
    // On the bits, because GCC turns ?: on a loaded bool into a branch, which random conditions mispredict.
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      const Bits mask = Bits(0) - static_cast<Bits>(condition);
      return std::bit_cast<T>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
    } else {
      return condition ? a : b;
    }
  }
};

std::array<LoopSet, kDTypeCount> where_loops() {
  std::array<LoopSet, kDTypeCount> table{};
  const auto fill = [&]<class T>() {
    table[static_cast<std::size_t>(dtype_of<T>)] = kernels::loop_set<Where, void, bool, T, T>();
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    visit(static_cast<DType>(i), fill);
  }
  return table;
}

const Op kWhere{elementwise_op(
    {.name = "where",
     .doc = "a where the condition holds, else b",
     .inputs = 3,
     .infer =
         [](const InferCall& call, TensorType& output) {
           if (call.input(0).dtype != DType::boolean) {
             call.fail_dtype("the condition is not bool", "compare with 0 first");
           }
           output.dtype = call.input(1).dtype;
           infer_broadcast(call, 1, output);
           const Shape branches = output.shape;
           if (!broadcast(call.shape(0), branches, output.shape)) {
             call.fail_shape("the condition doesn't broadcast with the branches",
                             "align the shapes from the right: lengths must be equal, or one of them 1");
           }
           if (!element_count(output.shape)) {
             call.fail_shape("the result has too many elements", "");
           }
         },
     .loops = where_loops(),
     .loop_input = 1,
     .vjp = [](const VjpCall& v) -> Gradients {
       const Tensor zero = full_like(v.cotangent, 0.0, Shape{});
       return {Tensor(), v.needs(1) ? where(v.input(0), v.cotangent, zero) : Tensor(),
               v.needs(2) ? where(v.input(0), zero, v.cotangent) : Tensor()};
     },
     .saves = {.inputs = 1},
     .flops = flops_per_element<1>,
     .samples =
         [] {
           std::vector<Sample> samples;
           for (DType dtype : {DType::float32, DType::float64, DType::int64}) {
             const SampleInput condition = sample(DType::boolean, {4, 9}, 0, 2);
             samples.push_back({{condition, sample(dtype, {4, 9}), sample(dtype, {4, 9})}, {}});
             samples.push_back({{condition, sample(dtype, {}), sample(dtype, {4, 9})}, {}});
             samples.push_back({{condition, sample(dtype, {4, 9}), sample(dtype, {})}, {}});
             samples.push_back({{sample(DType::boolean, {4, 1}, 0, 2), sample(dtype, {9}), sample(dtype, {1, 9})}, {}});
           }
           return samples;
         }})};

template <class To>
struct Cast {
  template <class From>
  DIPTYCH_INLINE static To apply(From x) {
    if constexpr (std::is_same_v<From, bfloat16>) {
      return math::convert<To>(static_cast<float>(x));
    } else {
      return math::convert<To>(x);
    }
  }
};

LoopSet cast_loops(std::span<const TensorType* const> inputs, const TensorType& output) {
  return visit(inputs[0]->dtype, [&]<class From>() {
    return visit(output.dtype, []<class To>() { return kernels::loop_set<Cast<To>, void, From>(); });
  });
}

const Op kCast{
    elementwise_op({.name = "cast",
                    .doc = "x in another element type",
                    .inputs = 1,
                    .attributes = &attribute_type<CastAttributes>,
                    .infer =
                        [](const InferCall& call, TensorType& output) {
                          output.dtype = call.as<CastAttributes>().dtype;
                          output.shape = call.shape(0);
                        },
                    .select_loop = cast_loops,
                    .vjp = [](const VjpCall& v) -> Gradients { return {cast(v.cotangent, v.input_type(0).dtype)}; },
                    .samples =
                        [] {
                          std::vector<Sample> samples;
                          for (int from = 0; from < kDTypeCount; ++from) {
                            for (int to = 0; to < kDTypeCount; ++to) {
                              const CastAttributes attributes{static_cast<DType>(to)};
                              samples.push_back({{sample(static_cast<DType>(from), {3, 21}, -5, 5)},
                                                 AttributeValue(&attribute_type<CastAttributes>, &attributes)});
                            }
                          }
                          return samples;
                        }})};

}  // namespace

namespace op {
const OpDef& where = *kWhere;
const OpDef& cast = *kCast;
}  // namespace op

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Location location) {
  if (a.defined() && b.defined() && a.dtype() != b.dtype()) {
    const DType common = promote(a.dtype(), b.dtype());
    return apply_op(kWhere, nullptr, location, condition, cast(a, common, location), cast(b, common, location));
  }
  return apply_op(kWhere, nullptr, location, condition, a, b);
}

Tensor cast(const Tensor& x, DType dtype, Location where) {
  if (x.dtype() == dtype) {
    return x;
  }
  const CastAttributes attributes{dtype};
  return apply_op(kCast, &attributes, where, x);
}

DType ops::common_type(std::initializer_list<const Tensor*> tensors) {
  DType common = DType::boolean;
  for (const Tensor* tensor : tensors) {
    common = tensor->defined() ? promote(common, tensor->dtype()) : common;
  }
  return common;
}
Tensor ops::as_type(const Tensor& x, DType dtype, Location where) { return x.defined() ? cast(x, dtype, where) : x; }

}  // namespace diptych
