// where and cast: elementwise ops on inputs of several types.

#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {
namespace {

using namespace ops;

struct Where {
  template <class Bits>
  DIPTYCH_INLINE static Bits apply(bool condition, Bits a, Bits b) {
    // With a mask, because GCC turns ?: on a loaded bool into a branch, which random conditions mispredict.
    const auto mask = static_cast<Bits>(Bits(0) - static_cast<Bits>(condition));
    return static_cast<Bits>((a & mask) | (b & static_cast<Bits>(~mask)));
  }
  template <class Bits>
  static constexpr LoopSet of() {
    return kernels::loop_set<Where, void, bool, Bits, Bits>();
  }
};

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
     .stores = true,
     .loops = bit_loops<Where>(),
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
           for (DType dtype : {DType::float32, DType::float64, DType::int64, DType::float16, DType::uint8}) {
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
    if constexpr (std::is_same_v<From, bfloat16> || std::is_same_v<From, float16>) {
      return math::convert<To>(static_cast<float>(x));
    } else if constexpr (std::is_same_v<From, bool> && is_floating(dtype_of<To>)) {
      return math::convert<To>(static_cast<int>(x));  // GCC 12 makes scalars of loops that convert bool itself
    } else {
      return math::convert<To>(x);
    }
  }
};

/// What C++ type elements of T are computed with in.
template <class T>
struct ComputedIn {
  static constexpr DType dtype = compute_type(dtype_of<T>);
  using type =
      std::conditional_t<dtype == dtype_of<T>, T,
                         std::conditional_t<dtype == DType::float32, float,
                                            std::conditional_t<dtype == DType::int32, std::int32_t, std::int64_t>>>;
};

template <class T>
inline constexpr bool is_stored = is_storage(dtype_of<T>);

/// The type by way of which From becomes To, one of them for storage, so that one conversion after the other gives the
/// bits of the direct one; To itself if there is a loop for this. A loop for each of all pairs would triple this file.
template <class From, class To>
struct By {
  static constexpr bool kFromFloat = std::is_floating_point_v<From>;
  template <class Through>
  using Unless = std::conditional_t<std::is_same_v<From, Through> || std::is_same_v<To, Through>, To, Through>;
  static constexpr auto choose() {
    if constexpr (std::is_same_v<From, std::uint64_t> && (is_floating(dtype_of<To>) || is_stored<To>)) {
      if constexpr (std::is_floating_point_v<To>) {
        return std::type_identity<To>();  // its i64 has another value
      } else if constexpr (is_floating(dtype_of<To>)) {
        return std::type_identity<float>();
      } else {
        return std::type_identity<std::int64_t>();
      }
    } else if constexpr (is_stored<From>) {
      return std::type_identity<Unless<typename ComputedIn<From>::type>>();
    } else if constexpr (!is_stored<To> || kFromFloat) {
      return std::type_identity<To>();  // f64 to f16, and floats to integers, which saturate, in one step
    } else if constexpr (std::is_same_v<From, bfloat16>) {
      return std::type_identity<float>();
    } else {
      // Of integers to f16 too: what a float rounds is infinite in f16.
      return std::type_identity<Unless<typename ComputedIn<To>::type>>();
    }
  }
  using type = typename decltype(choose())::type;
};

/// Two loops, one after the other, on blocks that stay in the cache.
void run_chain(LoopFn first, LoopFn second, std::int64_t size, std::int64_t n, void* const* data,
               const std::int64_t* strides) {
  constexpr std::int64_t kBlock = 512;
  alignas(64) std::byte between[kBlock * 8];
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    void* const to[] = {static_cast<std::byte*>(data[0]) + begin * strides[0], between};
    void* const from[] = {between, static_cast<std::byte*>(data[1]) + begin * strides[1]};
    const std::int64_t first_strides[] = {strides[0], size};
    const std::int64_t second_strides[] = {size, strides[1]};
    first(count, to, first_strides, nullptr);
    second(count, from, second_strides, nullptr);
  }
}

template <class From, class To>
LoopSet cast_loop() {
  using Next = typename By<From, To>::type;
  if constexpr (std::is_same_v<Next, To>) {
    return kernels::loop_set<Cast<To>, void, From>();
  } else {
    constexpr LoopFn chain = [](std::int64_t n, void* const* data, const std::int64_t* strides, const void*) {
      const auto isa = static_cast<std::size_t>(active_isa());
      run_chain(cast_loop<From, Next>()[isa], cast_loop<Next, To>()[isa], sizeof(Next), n, data, strides);
    };
    return {chain, chain, chain};
  }
}

LoopSet cast_loops(std::span<const TensorType* const> inputs, const TensorType& output) {
  return visit(inputs[0]->dtype,
               [&]<class From>() { return visit(output.dtype, []<class To>() { return cast_loop<From, To>(); }); });
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
                    .stores = true,
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
