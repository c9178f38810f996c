// Whole slices at indices along one axis (index_select, index_add, embedding), one_hot and masked_fill. Single elements
// are in scatter.cpp.

#include "framework/ops/indexing.h"

#include <algorithm>
#include <cstring>

#include "framework/kernels/dense.h"
#include "framework/kernels/reduction.h"
#include "framework/ops/creation.h"
#include "framework/ops/index.h"
#include "framework/ops/indexing_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

/// `shape` with the axis replaced by the axes of `indices`.
Shape selected_shape(const InferCall& call, const Shape& shape, const Shape& indices, int axis) {
  if (shape.rank() - 1 + indices.rank() > kMaxRank) {
    call.fail_shape("the result would have over 8 axes", "flatten the indices first");
  }
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) {
      result.push_back(shape[i]);
      continue;
    }
    for (std::int64_t length : indices) {
      result.push_back(length);
    }
  }
  return result;
}

void infer_select(const InferCall& call, TensorType& output) {
  const int axis = checked_axis(call, call.as<AxisAttributes>().axis);
  check_indices(call, 1);
  output.dtype = call.input(0).dtype;
  output.shape = selected_shape(call, call.shape(0), call.shape(1), axis);
}

struct Slices {
  const std::byte* from;
  const std::int64_t* indices;
  std::byte* to;
  std::int64_t outer, length, count;
  std::size_t bytes;  ///< of one slice
  std::size_t apart;  ///< from one slice of the result to the next

  void copy() const {
    switch (bytes) {  // single elements are copied without a call of memcpy
      case 4:
        return copy_as(std::integral_constant<std::size_t, 4>());
      case 8:
        return copy_as(std::integral_constant<std::size_t, 8>());
      default:
        return copy_as(bytes);
    }
  }

 private:
  template <class Size>
  void copy_as(Size size) const {
    std::byte* next = to;
    for (std::int64_t o = 0; o < outer; ++o) {
      const std::byte* start = from + static_cast<std::size_t>(o * length) * size;
      for (std::int64_t i = 0; i < count; ++i, next += apart) {
        std::memcpy(next, start + static_cast<std::size_t>(indices[i]) * size, size);
      }
    }
  }
};

/// Of a result of dense slices, which may have gaps between them: the distance in bytes. A slice is all axes from
/// `leading` on.
std::size_t distance_of_slices(const Operand& output, int leading, std::size_t bytes) {
  return output.contiguous || leading == 0
             ? bytes
             : static_cast<std::size_t>((*output.strides)[leading - 1]) * size_of(output.type->dtype);
}

/// `table`: the input that is read; the other input has the indices. The result may have gaps between slices.
template <int table>
void select_kernel(const KernelCall& call) {
  const Operand& x = call.inputs[table];
  const std::int64_t axis = table == 0 ? static_cast<const AxisAttributes*>(call.attributes)->axis : 0;
  const Lines lines(x.type->shape, axis);
  const kernels::Dense input(x);
  const kernels::Dense indices(call.inputs[1 - table]);
  const auto* at = static_cast<const std::int64_t*>(indices.data());
  const std::int64_t count = call.inputs[1 - table].type->shape.product();
  check_range(*call.op, at, count, lines.length);
  if (call.output.type->shape.product() > 0) {
    const int leading = static_cast<int>(axis) + call.inputs[1 - table].type->shape.rank();
    const std::size_t bytes = static_cast<std::size_t>(lines.inner) * size_of(x.type->dtype);
    Slices{static_cast<const std::byte*>(input.data()),
           at,
           static_cast<std::byte*>(call.output.data),
           lines.outer,
           lines.length,
           count,
           bytes,
           distance_of_slices(call.output, leading, bytes)}
        .copy();
  }
}

/// The kinds of inputs that index ops take: x of `shape`, and indices below `length`.
SampleInput index_sample(const Shape& shape, std::int64_t length) {
  return sample(DType::int64, shape, 0, static_cast<double>(length));
}
double lowest(DType dtype) { return least_of(dtype, -2); }

const Op kIndexSelect{{.name = "index_select",
                       .doc = "Slices at indices along an axis",
                       .inputs = 2,
                       .attributes = &attribute_type<AxisAttributes>,
                       .infer = infer_select,
                       .kernel = select_kernel<0>,
                       .stores = true,
                       .vjp = [](const VjpCall& v) -> Gradients {
                         return {index_add(zeros_of(v.input_type(0)), static_cast<int>(v.as<AxisAttributes>().axis),
                                           v.input(1), v.cotangent)};
                       },
                       .saves = {.inputs = 2},
                       .linear = 1,
                       .can_fail = true,
                       .samples =
                           [] {
                             std::vector<Sample> samples;
                             for (DType dtype : kEvery) {
                               const auto in = [&](const Shape& shape) {
                                 return sample(dtype, shape, lowest(dtype), 2);
                               };
                               samples.push_back(with({in({5, 7}), index_sample({9}, 5)}, AxisAttributes{0}));
                               samples.push_back(with({in({5, 7}), index_sample({2, 3}, 7)}, AxisAttributes{1}));
                             }
                             const auto in = [&](const Shape& shape) { return sample(DType::float64, shape); };
                             samples.push_back(with({transposed(in({5, 7})), index_sample({3}, 5)}, AxisAttributes{0}));
                             samples.push_back(with({in({2, 4, 3}), index_sample({}, 4)}, AxisAttributes{1}));
                             samples.push_back(with({in({4, 0}), index_sample({3}, 4)}, AxisAttributes{0}));
                             samples.push_back(with({in({4, 2}), index_sample({0}, 4)}, AxisAttributes{0}));
                             return samples;
                           },
                       .family = "indexing"}};

const Op kEmbedding{{.name = "embedding",
                     .doc = "Rows of a table at indices",
                     .inputs = 2,
                     .infer =
                         [](const InferCall& call, TensorType& output) {
                           check_indices(call, 0);
                           if (call.shape(1).rank() == 0) {
                             call.fail_shape("the table has no rows", "give a weight of [entries, ...]");
                           }
                           output.dtype = call.input(1).dtype;
                           output.shape = selected_shape(call, call.shape(1), call.shape(0), 0);
                         },
                     .kernel = select_kernel<1>,
                     .stores = true,
                     .vjp = [](const VjpCall& v) -> Gradients {
                       return {Tensor(), index_add(zeros_of(v.input_type(1)), 0, v.input(0), v.cotangent)};
                     },
                     .saves = {.inputs = 1},
                     .linear = 2,
                     .can_fail = true,
                     .samples =
                         [] {
                           std::vector<Sample> samples;
                           for (DType dtype : kFloats) {
                             samples.push_back({{index_sample({4, 3}, 6), sample(dtype, {6, 5})}, {}});
                             samples.push_back({{index_sample({}, 6), sample(dtype, {6})}, {}});
                             samples.push_back({{index_sample({0}, 6), sample(dtype, {6, 5})}, {}});
                           }
                           return samples;
                         },
                     .family = "indexing"}};

template <class T>
struct AddSlices {
  DIPTYCH_INLINE static void run(const Lines* lines, const std::int64_t* indices, std::int64_t count, const T* source,
                                 T* out) {
    const std::int64_t inner = lines->inner;
    for (std::int64_t o = 0; o < lines->outer; ++o, out += lines->length * inner) {
      for (std::int64_t i = 0; i < count; ++i, source += inner) {
        T* to = out + indices[i] * inner;
#pragma GCC ivdep
        for (std::int64_t j = 0; j < inner; ++j) {
          to[j] = kernels::SumCombine::apply(to[j], source[j]);
        }
      }
    }
  }
};

void index_add_kernel(const KernelCall& call) {
  const Lines lines(call.output.type->shape, static_cast<const AxisAttributes*>(call.attributes)->axis);
  const kernels::Dense indices(call.inputs[1]);
  const kernels::Dense source(call.inputs[2]);
  const auto* at = static_cast<const std::int64_t*>(indices.data());
  const std::int64_t count = call.inputs[1].type->shape.product();
  check_range(*call.op, at, count, lines.length);
  kernels::copy_dense(call.inputs[0], call.output.data);
  visit_computing(call.output.type->dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, bfloat16>) {
      PerIsa<AddSlices<T>>::active()(&lines, at, count, static_cast<const T*>(source.data()),
                                     static_cast<T*>(call.output.data));
    }
  });
}

const Op kIndexAdd{
    {.name = "index_add",
     .doc = "The first input with slices added at indices along an axis",
     .inputs = 3,
     .attributes = &attribute_type<AxisAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           const int axis = checked_axis(call, call.as<AxisAttributes>().axis);
           check_domain<Domain::numeric>(call, call.input(0).dtype);
           check_indices(call, 1);
           if (call.input(2).dtype != call.input(0).dtype) {
             call.fail_dtype("element types differ", "cast one of them");
           }
           if (call.shape(2) != selected_shape(call, call.shape(0), call.shape(1), axis)) {
             call.fail_shape("the source doesn't fit",
                             "it has the first input's shape, with the axes of the indices in place of the axis");
           }
           output = call.input(0);
         },
     .kernel = kernels::through_float<index_add_kernel>,
     .vjp = [](const VjpCall& v) -> Gradients {
       const int axis = static_cast<int>(v.as<AxisAttributes>().axis);
       return {v.cotangent, Tensor(), v.needs(2) ? index_select(v.cotangent, axis, v.input(1)) : Tensor()};
     },
     .saves = {.inputs = 2},
     .jvp = [](const JvpCall& v) -> Tensor {
       return index_add(tangent_or_zeros(v.tangent(0), v.input(0)), static_cast<int>(v.as<AxisAttributes>().axis),
                        v.input(1), tangent_or_zeros(v.tangent(2), v.input(2)));
     },
     .can_fail = true,
     .flops = [](const InferCall& call, const TensorType&) { return static_cast<double>(call.shape(2).product()); },
     .samples =
         [] {
           std::vector<Sample> samples;
           for (DType dtype : kNumbers) {
             const auto in = [&](const Shape& shape) { return sample(dtype, shape, lowest(dtype), 2); };
             samples.push_back(with({in({5, 7}), index_sample({9}, 5), in({9, 7})}, AxisAttributes{0}));
             samples.push_back(with({in({5, 7}), index_sample({2, 3}, 7), in({5, 2, 3})}, AxisAttributes{1}));
           }
           const auto in = [&](const Shape& shape) { return sample(DType::float64, shape); };
           samples.push_back(
               with({transposed(in({5, 7})), index_sample({3}, 5), transposed(in({3, 7}))}, AxisAttributes{0}));
           samples.push_back(with({in({4, 2}), index_sample({0}, 4), in({0, 2})}, AxisAttributes{0}));
           return samples;
         },
     .family = "indexing"}};

void one_hot_kernel(const KernelCall& call) {
  const std::int64_t depth = static_cast<const OneHotAttributes*>(call.attributes)->depth;
  const kernels::Dense input(call.inputs[0]);
  const auto* indices = static_cast<const std::int64_t*>(input.data());
  const std::int64_t count = call.inputs[0].type->shape.product();
  check_range(*call.op, indices, count, depth);
  visit(call.output.type->dtype, [&]<class T>() {
    T* out = static_cast<T*>(call.output.data);
    std::fill_n(out, count * depth, T(0));
    for (std::int64_t i = 0; i < count; ++i) {
      out[i * depth + indices[i]] = T(1);
    }
  });
}

const Op kOneHot{{.name = "one_hot",
                  .doc = "A row with a single 1 for each index",
                  .inputs = 1,
                  .attributes = &attribute_type<OneHotAttributes>,
                  .infer =
                      [](const InferCall& call, TensorType& output) {
                        const auto& attributes = call.as<OneHotAttributes>();
                        check_indices(call, 0);
                        if (attributes.depth < 1) {
                          call.fail_shape("the depth is below 1", "give the number of classes");
                        }
                        if (call.shape(0).rank() == kMaxRank) {
                          call.fail_shape("the result would have over 8 axes", "flatten the indices first");
                        }
                        output.dtype = attributes.dtype;
                        output.shape = call.shape(0);
                        output.shape.push_back(attributes.depth);
                      },
                  .kernel = one_hot_kernel,
                  .stores = true,
                  .can_fail = true,
                  .samples =
                      [] {
                        std::vector<Sample> samples;
                        for (DType dtype : kEvery) {
                          samples.push_back(with({index_sample({7}, 5)}, OneHotAttributes{5, dtype}));
                        }
                        samples.push_back(with({index_sample({2, 3}, 5)}, OneHotAttributes{5, DType::float32}));
                        samples.push_back(with({index_sample({0}, 5)}, OneHotAttributes{5, DType::float32}));
                        return samples;
                      },
                  .family = "indexing"}};

}  // namespace

namespace op {
const OpDef& index_select = *kIndexSelect;
const OpDef& embedding = *kEmbedding;
const OpDef& index_add = *kIndexAdd;
const OpDef& one_hot = *kOneHot;
}  // namespace op

Tensor index_select(const Tensor& x, int axis, const Tensor& indices, Location where) {
  const AxisAttributes attributes{normalise_axis(axis, x.rank(), "index_select", where)};
  return apply_op(kIndexSelect, &attributes, where, x, as_indices(indices, where));
}

Tensor take(const Tensor& x, const Tensor& indices, Location where) {
  return index_select(reshape(x, {-1}, where), 0, indices, where);
}

Tensor index_add(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, Location where) {
  const AxisAttributes attributes{normalise_axis(axis, x.rank(), "index_add", where)};
  const DType dtype = promote(x.dtype(), source.dtype());
  const DType computed = compute_type(dtype);
  return cast(apply_op(kIndexAdd, &attributes, where, cast(x, computed, where), as_indices(indices, where),
                       cast(source, computed, where)),
              dtype, where);
}

Tensor embedding(const Tensor& indices, const Tensor& weight, Location where) {
  return apply_op(kEmbedding, nullptr, where, as_indices(indices, where), weight);
}

Tensor one_hot(const Tensor& indices, std::int64_t depth, DType dtype, Location where) {
  const OneHotAttributes attributes{depth, dtype};
  return apply_op(kOneHot, &attributes, where, as_indices(indices, where));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value, Location location) {
  return where(mask, full_like(x, value, Shape{}, location), x, location);
}

}  // namespace diptych
