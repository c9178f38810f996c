// gather, scatter and scatter with a reduction: single elements at indices along one axis.

#include "framework/kernels/dense.h"
#include "framework/kernels/reduction.h"
#include "framework/ops/creation.h"
#include "framework/ops/index.h"
#include "framework/ops/indexing.h"
#include "framework/ops/indexing_ops.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

/// The index must have as many axes as `x`, and must not be longer along any other axis.
void check_index_shape(const InferCall& call, int axis) {
  const Shape& x = call.shape(0);
  const Shape& index = call.shape(1);
  check_indices(call, 1);
  bool fits = x.rank() == index.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    fits = i == axis || index[i] <= x[i];
  }
  if (!fits) {
    call.fail_shape("the index doesn't fit",
                    "it has as many axes as the first input, and only along the axis may it be longer");
  }
}

/// Calls fn(offset in x, position in the index) for every index in row-major order.
template <class Fn>
DIPTYCH_INLINE void for_each_index(const Shape& x, const Shape& index_shape, int axis, const std::int64_t* index,
                                   const Fn& fn) {
  const std::int64_t count = index_shape.product();
  if (count == 0) {
    return;
  }
  const Strides strides = contiguous_strides(x);
  const int last = index_shape.rank() - 1;
  const std::int64_t run = index_shape[last];
  const std::int64_t axis_stride = strides[axis];
  Dims at = Dims::filled(last + 1, 0);
  for (std::int64_t position = 0; position < count; position += run) {
    std::int64_t base = 0;  // offset of this run, without the axis
    for (int i = 0; i < last; ++i) {
      base += i == axis ? 0 : at[i] * strides[i];
    }
    const std::int64_t step = last == axis ? 0 : 1;
    for (std::int64_t i = 0; i < run; ++i) {
      fn(base + i * step + index[position + i] * axis_stride, position + i);
    }
    for (int i = last - 1; i >= 0 && ++at[i] == index_shape[i]; --i) {
      at[i] = 0;
    }
  }
}

/// Dense indices, checked to be in range.
class Indices {
 public:
  Indices(const KernelCall& call, const Shape& x)
      : axis_(static_cast<int>(static_cast<const AxisAttributes*>(call.attributes)->axis)),
        x_(x),
        shape_(call.inputs[1].type->shape),
        dense_(call.inputs[1]) {
    check_range(*call.op, data(), shape_.product(), x[axis_]);
  }
  template <class Fn>
  DIPTYCH_INLINE void for_each(const Fn& fn) const {
    for_each_index(x_, shape_, axis_, data(), fn);
  }

 private:
  const std::int64_t* data() const { return static_cast<const std::int64_t*>(dense_.data()); }

  int axis_;
  const Shape& x_;
  const Shape& shape_;
  kernels::Dense dense_;
};

void gather_kernel(const KernelCall& call) {
  const kernels::Dense input(call.inputs[0]);
  const Indices indices(call, call.inputs[0].type->shape);
  visit_bits(call.output.type->dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(input.data());
    T* out = static_cast<T*>(call.output.data);
    indices.for_each([=](std::int64_t offset, std::int64_t position) { out[position] = in[offset]; });
  });
}

/// What happens to an element that an index names.
enum class Put : std::uint8_t { replace, add, multiply, greatest, least };

template <Put put>
void scatter_kernel(const KernelCall& call) {
  const Indices indices(call, call.output.type->shape);
  const kernels::Dense source(call.inputs[2]);
  kernels::copy_dense(call.inputs[0], call.output.data);
  const auto scatter_elements = [&]<class T>() {
    const T* in = static_cast<const T*>(source.data());
    T* out = static_cast<T*>(call.output.data);
    if constexpr (put == Put::replace) {
      indices.for_each([=](std::int64_t offset, std::int64_t position) { out[offset] = in[position]; });
    } else if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, bfloat16>) {
      using Combine = std::conditional_t<
          put == Put::add, kernels::SumCombine,
          std::conditional_t<put == Put::multiply, kernels::ProductCombine,
                             std::conditional_t<put == Put::greatest, kernels::MaxCombine, kernels::MinCombine>>>;
      indices.for_each(
          [=](std::int64_t offset, std::int64_t position) { out[offset] = Combine::apply(out[offset], in[position]); });
    }
  };
  if constexpr (put == Put::replace) {
    visit_bits(call.output.type->dtype, scatter_elements);
  } else {
    visit_computing(call.output.type->dtype, scatter_elements);
  }
}

template <Domain domain>
void infer_scatter(const InferCall& call, TensorType& output) {
  check_domain<domain>(call, call.input(0).dtype);
  check_index_shape(call, checked_axis(call, call.as<AxisAttributes>().axis));
  if (call.input(2).dtype != call.input(0).dtype) {
    call.fail_dtype("element types differ", "cast one of them");
  }
  if (call.shape(2) != call.shape(1)) {
    call.fail_shape("the source has not the shape of the index", "slice or expand the source");
  }
  output = call.input(0);
}

int axis_of(const VjpCall& v) { return static_cast<int>(v.as<AxisAttributes>().axis); }
int axis_of(const JvpCall& v) { return static_cast<int>(v.as<AxisAttributes>().axis); }

/// true where no later entry of the index overwrites an entry
Tensor last_entries(const Tensor& index, const TensorType& x, int axis) {
  const Tensor serial = cumsum(expand(full(Shape{}, 1.0, DType::int64), index.shape()), axis);
  const Tensor winners = scatter(zeros_of({DType::int64, x.shape}), axis, index, serial);
  return equal(gather(winners, axis, index), serial);
}

std::vector<Sample> gather_samples(bool with_source, std::initializer_list<DType> dtypes) {
  std::vector<Sample> samples;
  const auto add_sample = [&](const SampleInput& x, const Shape& index, std::int64_t length, std::int64_t axis) {
    std::vector<SampleInput> inputs{x, sample(DType::int64, index, 0, static_cast<double>(length))};
    if (with_source) {
      inputs.push_back(sample(x.type.dtype, index, x.low, x.high));
    }
    samples.push_back(with(std::move(inputs), AxisAttributes{axis}));
  };
  for (DType dtype : dtypes) {
    const double low = least_of(dtype, -2);
    add_sample(sample(dtype, {5, 7}, low), {9, 7}, 5, 0);
    add_sample(sample(dtype, {5, 7}, low), {4, 3}, 7, 1);
  }
  add_sample(transposed(sample(DType::float64, {5, 7})), {5, 2}, 7, 1);
  add_sample(sample(DType::float64, {2, 4, 3}), {2, 6, 3}, 4, 1);
  add_sample(sample(DType::float64, {2, 4, 3}), {2, 0, 3}, 4, 1);
  return samples;
}

const Op kGather{{.name = "gather",
                  .doc = "Elements at indices along an axis",
                  .inputs = 2,
                  .attributes = &attribute_type<AxisAttributes>,
                  .infer =
                      [](const InferCall& call, TensorType& output) {
                        check_index_shape(call, checked_axis(call, call.as<AxisAttributes>().axis));
                        output.dtype = call.input(0).dtype;
                        output.shape = call.shape(1);
                      },
                  .kernel = gather_kernel,
                  .stores = true,
                  .vjp = [](const VjpCall& v) -> Gradients {
                    return {scatter_add(zeros_of(v.input_type(0)), axis_of(v), v.input(1), v.cotangent)};
                  },
                  .saves = {.inputs = 2},
                  .linear = 1,
                  .can_fail = true,
                  .samples = [] { return gather_samples(false, kEvery); },
                  .family = "indexing"}};

const Op kScatter{{.name = "scatter",
                   .doc = "The first input with elements replaced at indices along an axis; the last of several wins",
                   .inputs = 3,
                   .attributes = &attribute_type<AxisAttributes>,
                   .infer = infer_scatter<Domain::any>,
                   .kernel = scatter_kernel<Put::replace>,
                   .stores = true,
                   .vjp = [](const VjpCall& v) -> Gradients {
                     const int axis = axis_of(v);
                     const Tensor& index = v.input(1);
                     Gradients gradients;
                     if (v.needs(0)) {
                       gradients[0] = scatter(v.cotangent, axis, index, zeros_of({v.cotangent.dtype(), index.shape()}));
                     }
                     if (v.needs(2)) {
                       gradients[2] = where(last_entries(index, v.input_type(0), axis),
                                            gather(v.cotangent, axis, index), full_like(v.cotangent, 0.0, Shape{}));
                     }
                     return gradients;
                   },
                   .saves = {.inputs = 2},
                   .jvp = [](const JvpCall& v) -> Tensor {
                     return scatter(tangent_or_zeros(v.tangent(0), v.input(0)), axis_of(v), v.input(1),
                                    tangent_or_zeros(v.tangent(2), v.input(2)));
                   },
                   .can_fail = true,
                   .samples = [] { return gather_samples(true, kEvery); },
                   .family = "indexing"}};

const Op kScatterAdd{
    {.name = "scatter_add",
     .doc = "The first input with elements added at indices along an axis",
     .inputs = 3,
     .attributes = &attribute_type<AxisAttributes>,
     .infer = infer_scatter<Domain::numeric>,
     .kernel = kernels::through_float<scatter_kernel<Put::add>>,
     .vjp = [](const VjpCall& v) -> Gradients {
       return {v.cotangent, Tensor(), v.needs(2) ? gather(v.cotangent, axis_of(v), v.input(1)) : Tensor()};
     },
     .saves = {.inputs = 2},
     .jvp = [](const JvpCall& v) -> Tensor {
       return scatter_add(tangent_or_zeros(v.tangent(0), v.input(0)), axis_of(v), v.input(1),
                          tangent_or_zeros(v.tangent(2), v.input(2)));
     },
     .can_fail = true,
     .flops = [](const InferCall& call, const TensorType&) { return static_cast<double>(call.shape(1).product()); },
     .samples = [] { return gather_samples(true, kNumbers); },
     .family = "indexing"}};

/// The derivatives of an element of the result by its own element of x, and by those that were scattered to it.
struct Slopes {
  Tensor own;
  Tensor given;
};

/// The element that was taken counts; equal ones share it.
template <class Call>
Slopes extreme_slopes(const Call& v) {
  const int axis = axis_of(v);
  const DType dtype = v.output.dtype();
  const Tensor own = cast(equal(v.input(0), v.output), dtype);
  const Tensor given = cast(equal(v.input(2), gather(v.output, axis, v.input(1))), dtype);
  const Tensor share = reciprocal(scatter_add(own, axis, v.input(1), given));
  return {mul(own, share), mul(given, gather(share, axis, v.input(1)))};
}

/// The product of all factors but one: the product divided by it or, where it is 0, the product of those that are not
/// 0, if no other is 0.
template <class Call>
Slopes product_slopes(const Call& v) {
  const int axis = axis_of(v);
  const Tensor& index = v.input(1);
  const auto number = [&](double value) { return full_like(v.input(0), value, Shape{}); };
  const auto without_zero = [&](const Tensor& t) { return where(equal(t, number(0)), number(1), t); };
  const auto zeros_in = [&](const Tensor& t) { return cast(equal(t, number(0)), t.dtype()); };
  const Tensor product = scatter_mul(without_zero(v.input(0)), axis, index, without_zero(v.input(2)));
  const Tensor zeros = scatter_add(zeros_in(v.input(0)), axis, index, zeros_in(v.input(2)));
  const auto rest = [&](const Tensor& factor, const Tensor& all, const Tensor& zeros_there) {
    const Tensor others = sub(zeros_there, zeros_in(factor));
    return where(equal(others, number(0)), div(all, without_zero(factor)), number(0));
  };
  return {rest(v.input(0), product, zeros), rest(v.input(2), gather(product, axis, index), gather(zeros, axis, index))};
}

template <auto slopes_of>
Gradients slopes_gradient(const VjpCall& v) {
  const Slopes slopes = slopes_of(v);
  return {mul(v.cotangent, slopes.own), Tensor(), mul(gather(v.cotangent, axis_of(v), v.input(1)), slopes.given)};
}
template <auto slopes_of>
Tensor slopes_tangent(const JvpCall& v) {
  const Slopes slopes = slopes_of(v);
  return scatter_add(mul(tangent_or_zeros(v.tangent(0), v.input(0)), slopes.own), axis_of(v), v.input(1),
                     mul(tangent_or_zeros(v.tangent(2), v.input(2)), slopes.given));
}

OpDef scatter_reducing(const char* name, const char* doc, Kernel kernel, Vjp vjp, Jvp jvp, bool saves_output) {
  return {
      .name = name,
      .doc = doc,
      .inputs = 3,
      .attributes = &attribute_type<AxisAttributes>,
      .infer = infer_scatter<Domain::numeric>,
      .kernel = kernel,
      .vjp = vjp,
      .saves = {.inputs = 7, .output = saves_output},
      .jvp = jvp,
      .can_fail = true,
      .flops = [](const InferCall& call, const TensorType&) { return static_cast<double>(call.shape(1).product()); },
      .samples = [] { return gather_samples(true, kNumbers); },
      .family = "indexing"};
}
const Op kScatterMul{
    scatter_reducing("scatter_mul", "The first input with elements multiplied at indices along an axis",
                     kernels::through_float<scatter_kernel<Put::multiply>>, slopes_gradient<product_slopes<VjpCall>>,
                     slopes_tangent<product_slopes<JvpCall>>, false)};
const Op kScatterMax{
    scatter_reducing("scatter_max", "The greatest of the first input's element and those at its indices",
                     kernels::through_float<scatter_kernel<Put::greatest>>, slopes_gradient<extreme_slopes<VjpCall>>,
                     slopes_tangent<extreme_slopes<JvpCall>>, true)};
const Op kScatterMin{scatter_reducing("scatter_min", "The least of the first input's element and those at its indices",
                                      kernels::through_float<scatter_kernel<Put::least>>,
                                      slopes_gradient<extreme_slopes<VjpCall>>, slopes_tangent<extreme_slopes<JvpCall>>,
                                      true)};

Tensor scatter_by(const Op& op, const Tensor& x, int axis, const Tensor& index, const Tensor& source, Location where) {
  const AxisAttributes attributes{normalise_axis(axis, x.rank(), op->name, where)};
  const DType dtype = promote(x.dtype(), source.dtype());
  const DType computed = op->stores ? dtype : compute_type(dtype);
  return cast(apply_op(op, &attributes, where, cast(x, computed, where), as_indices(index, where),
                       cast(source, computed, where)),
              dtype, where);
}

}  // namespace

namespace op {
const OpDef& gather = *kGather;
const OpDef& scatter = *kScatter;
const OpDef& scatter_add = *kScatterAdd;
}  // namespace op

Tensor gather(const Tensor& x, int axis, const Tensor& index, Location where) {
  const AxisAttributes attributes{normalise_axis(axis, x.rank(), "gather", where)};
  return apply_op(kGather, &attributes, where, x, as_indices(index, where));
}
Tensor scatter(const Tensor& x, int axis, const Tensor& index, const Tensor& source, Location where) {
  return scatter_by(kScatter, x, axis, index, source, where);
}
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source, Location where) {
  return scatter_by(kScatterAdd, x, axis, index, source, where);
}
Tensor scatter_mul(const Tensor& x, int axis, const Tensor& index, const Tensor& source, Location where) {
  return scatter_by(kScatterMul, x, axis, index, source, where);
}
Tensor scatter_max(const Tensor& x, int axis, const Tensor& index, const Tensor& source, Location where) {
  return scatter_by(kScatterMax, x, axis, index, source, where);
}
Tensor scatter_min(const Tensor& x, int axis, const Tensor& index, const Tensor& source, Location where) {
  return scatter_by(kScatterMin, x, axis, index, source, where);
}

}  // namespace diptych
