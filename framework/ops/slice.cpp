// Parts of an axis: slices as views, their gradient, and updates of a slice.

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "framework/core/strided_copy.h"
#include "framework/kernels/dense.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/lengths.h"
#include "framework/ops/shape.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

/// The type of the slice. Throws unless the attributes lie within the input's axis.
TensorType slice_type(const InferCall& call) {
  const auto& a = call.as<SliceAttributes>();
  TensorType type = call.input(0);
  if (a.axis < 0 || a.axis >= type.shape.rank()) {
    call.fail_shape("the axis is out of range", "");
  }
  const std::int64_t length = type.shape[static_cast<int>(a.axis)];
  if (a.step < 1 || a.step > std::max<std::int64_t>(length, 1) || a.start < 0 || a.stop < a.start || a.stop > length) {
    call.fail_shape("the range is outside the axis", "0 <= start <= stop <= length and 1 <= step <= length");
  }
  type.shape[static_cast<int>(a.axis)] = a.count();
  return type;
}

/// Writes `value` to every step-th element of a dense tensor, beginning at `start`.
void write_slice(const Operand& value, const Operand& to, std::int64_t axis, std::int64_t start, std::int64_t step) {
  Strides strides = *to.strides;
  const auto size = static_cast<std::int64_t>(size_of(to.type->dtype));
  auto* first = static_cast<std::byte*>(to.data) + start * strides[static_cast<int>(axis)] * size;
  strides[static_cast<int>(axis)] *= step;
  kernels::strided_copy(value, first, strides);
}

// The gradient of a slice: puts the elements back at their places, with zeros in between, in one pass.

void infer_slice_backward(const InferCall& call, TensorType& output) {
  const auto& a = call.as<SliceBackwardAttributes>();
  output = call.input(0);
  if (a.axis < 0 || a.axis >= output.shape.rank()) {
    call.fail_shape("the axis is out of range", "");
  }
  const std::int64_t count = output.shape[static_cast<int>(a.axis)];
  const bool inside = a.start >= 0 && a.start <= a.length && a.step >= 1 &&
                      (count == 0 || (a.start < a.length && count - 1 <= (a.length - 1 - a.start) / a.step));
  output.shape[static_cast<int>(a.axis)] = a.length;
  if (!inside || a.step > std::max<std::int64_t>(a.length, 1) || !element_count(output.shape)) {
    call.fail_shape("the slice is outside the axis", "");
  }
}

void slice_backward_kernel(const KernelCall& call) {
  const auto& a = *static_cast<const SliceBackwardAttributes*>(call.attributes);
  const TensorType& type = *call.output.type;
  const std::size_t size = size_of(type.dtype);
  const int axis = static_cast<int>(a.axis);
  const std::int64_t count = call.inputs[0].type->shape[axis];
  if (type.shape.contains(0)) {
    return;
  }
  if (a.step == 1) {  // zeros before and after; nothing is written twice
    const auto clear = [&](std::int64_t begin, std::int64_t end) {
      Shape part = type.shape;
      part[axis] = end - begin;
      const std::uint64_t zero = 0;
      kernels::strided_copy(part, size, &zero, Strides::filled(part.rank(), 0),
                            static_cast<std::byte*>(call.output.data) +
                                begin * (*call.output.strides)[axis] * static_cast<std::int64_t>(size),
                            *call.output.strides);
    };
    clear(0, a.start);
    clear(a.start + count, a.length);
  } else {
    std::memset(call.output.data, 0, static_cast<std::size_t>(type.shape.product()) * size);
  }
  write_slice(call.inputs[0], call.output, a.axis, a.start, a.step);
}

extern const Op kSlice;
extern const Op kSliceUpdate;

const Op kSliceBackward{{.name = "slice_backward",
                         .doc = "The gradient of slice: the elements at their places along an axis, zeros elsewhere",
                         .inputs = 1,
                         .attributes = &attribute_type<SliceBackwardAttributes>,
                         .infer = infer_slice_backward,
                         .kernel = slice_backward_kernel,
                         .stores = true,
                         .vjp = [](const VjpCall& v) -> Gradients {
                           const auto& a = v.as<SliceBackwardAttributes>();
                           const std::int64_t count = v.input_type(0).shape[static_cast<int>(a.axis)];
                           const std::int64_t stop = count == 0 ? a.start : a.start + (count - 1) * a.step + 1;
                           const SliceAttributes attributes{a.axis, a.start, stop, a.step};
                           return {apply_op(kSlice, &attributes, Location::current(), v.cotangent)};
                         },
                         .linear = 1,
                         .samples =
                             [] {
                               using A = SliceBackwardAttributes;
                               return std::vector<Sample>{
                                   with({sample(DType::float32, {2, 6})}, A{0, 1, 1, 4}),
                                   with({sample(DType::float64, {4, 2})}, A{1, 0, 4, 6}),
                                   with({transposed(sample(DType::float64, {4, 2}))}, A{1, 1, 1, 5}),
                                   with({sample(DType::bfloat16, {3})}, A{0, 2, 2, 8}),
                                   with({sample(DType::float16, {3})}, A{0, 2, 2, 8}),
                                   with({sample(DType::float64, {2, 0})}, A{1, 3, 1, 3})};
                             },
                         .family = "shape"}};

const Op kSlice{view_op(
    {.name = "slice",
     .doc = "Elements start, start + step, ... below stop along an axis",
     .inputs = 1,
     .attributes = &attribute_type<SliceAttributes>,
     .infer = [](const InferCall& call, TensorType& output) { output = slice_type(call); },
     .view =
         [](const TensorType&, const Strides& strides, const TensorType&, const void* attributes, Layout& layout) {
           const auto& a = *static_cast<const SliceAttributes*>(attributes);
           const int axis = static_cast<int>(a.axis);
           layout.strides = strides;
           layout.offset = a.start * strides[axis];
           layout.strides[axis] *= a.step;
           return true;
         },
     .write_back =
         [](const Tensor& base, const Tensor& value, const void* attributes) {
           return apply_op(kSliceUpdate, attributes, Location::current(), base, value);
         },
     .kernel = [](const KernelCall& call) { kernels::copy_dense(call.inputs[0], call.output.data); },
     .vjp = [](const VjpCall& v) -> Gradients {
       const auto& a = v.as<SliceAttributes>();
       const SliceBackwardAttributes attributes{a.axis, a.start, a.step,
                                                v.input_type(0).shape[static_cast<int>(a.axis)]};
       return {apply_op(kSliceBackward, &attributes, Location::current(), v.cotangent)};
     },
     .linear = 1,
     .samples =
         [] {
           using A = SliceAttributes;
           return std::vector<Sample>{with({sample(DType::float32, {4, 6})}, A{0, 1, 3, 1}),
                                      with({sample(DType::float32, {4, 6})}, A{1, 0, 6, 4}),
                                      with({sample(DType::float64, {4, 6})}, A{1, 1, 6, 2}),
                                      with({sample(DType::float64, {4, 6})}, A{0, 1, 3, 1}),
                                      with({sample(DType::float64, {4, 6})}, A{1, 3, 3, 1}),
                                      with({sample(DType::int64, {4, 6})}, A{1, 5, 5, 1})};
         }})};

const Op kSliceUpdate{
    {.name = "slice_update",
     .doc = "The first input with a slice of it replaced by the second",
     .inputs = 2,
     .attributes = &attribute_type<SliceAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           const TensorType slice = slice_type(call);
           if (call.input(1).dtype != slice.dtype) {
             call.fail_dtype("element types differ", "cast the value");
           }
           if (call.shape(1) != slice.shape) {
             call.fail_shape("the value has not the shape of the slice", fmt::format("it is {}", to_string(slice)));
           }
           output = call.input(0);
         },
     .kernel =
         [](const KernelCall& call) {
           const auto& a = *static_cast<const SliceAttributes*>(call.attributes);
           kernels::copy_dense(call.inputs[0], call.output.data);
           write_slice(call.inputs[1], call.output, a.axis, a.start, a.step);
         },
     .stores = true,
     .vjp = [](const VjpCall& v) -> Gradients {
       const auto* a = static_cast<const SliceAttributes*>(v.attributes);
       Gradients gradients;
       if (v.needs(0)) {
         const Tensor zero = expand(full_like(v.cotangent, 0.0, Shape{}), v.input_type(1).shape);
         gradients[0] = apply_op(kSliceUpdate, a, Location::current(), v.cotangent, zero);
       }
       if (v.needs(1)) {
         gradients[1] = apply_op(kSlice, a, Location::current(), v.cotangent);
       }
       return gradients;
     },
     .jvp = [](const JvpCall& j) -> Tensor {
       const auto part = [&](int i) {
         return j.tangent(i).defined() ? j.tangent(i) : expand(full_like(j.input(i), 0.0, Shape{}), j.input(i).shape());
       };
       return apply_op(kSliceUpdate, j.attributes, Location::current(), part(0), part(1));
     },
     .samples =
         [] {
           using A = SliceAttributes;
           std::vector<Sample> samples;
           for (DType dtype : kFloats) {
             const auto in = [&](const Shape& shape) { return sample(dtype, shape); };
             samples.push_back(with({in({4, 6}), in({2, 6})}, A{0, 1, 3, 1}));
             samples.push_back(with({transposed(in({4, 6})), transposed(in({4, 3}))}, A{1, 1, 6, 2}));
             samples.push_back(with({in({4, 6}), in({4, 0})}, A{1, 2, 2, 1}));
           }
           samples.push_back(with({sample(DType::boolean, {5}), sample(DType::boolean, {2})}, A{0, 3, 5, 1}));
           return samples;
         },
     .family = "shape"}};

/// Python's rule for a range with step > 0.
SliceAttributes clipped(const char* op, const Tensor& x, int axis, std::int64_t start, std::int64_t stop,
                        std::int64_t step, Location where) {
  SliceAttributes attributes{normalise_axis(axis, x.rank(), op, where), start, stop, step};
  if (step < 1) {
    throw ShapeError(fmt::format("{}: step {} is not positive", op, step), where, "flip() reverses an axis");
  }
  const std::int64_t length = x.shape()[static_cast<int>(attributes.axis)];
  const auto clip = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + length : i, 0, length); };
  attributes.start = clip(start);
  attributes.stop = std::max(attributes.start, clip(stop));
  attributes.step =
      std::min(step, std::max<std::int64_t>(length, 1));  // a longer step also takes the first element alone
  return attributes;
}

/// Python's rule for step < 0: start, start + step, ... above stop.
Tensor slice_backwards(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step,
                       Location where) {
  const std::int64_t length = x.shape()[normalise_axis(axis, x.rank(), "slice", where)];
  const auto clip = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + length : i, -1, length - 1); };
  const std::int64_t first = clip(start);
  const std::int64_t end = clip(stop);
  const std::int64_t stride = step <= -std::max<std::int64_t>(length, 1) ? std::max<std::int64_t>(length, 1) : -step;
  if (first <= end) {
    return slice(x, axis, 0, 0, 1, where);
  }
  const std::int64_t lowest = first - (first - end - 1) / stride * stride;
  return flip(slice(x, axis, lowest, first + 1, stride, where), {axis}, where);
}

}  // namespace

namespace op {
const OpDef& slice_backward = *kSliceBackward;
const OpDef& slice = *kSlice;
const OpDef& slice_update = *kSliceUpdate;
}  // namespace op

Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step, Location where) {
  if (step < 0) {
    return slice_backwards(x, axis, start, stop, step, where);
  }
  const SliceAttributes attributes = clipped("slice", x, axis, start, stop, step, where);
  return apply_op(kSlice, &attributes, where, x);
}

Tensor slice_update(const Tensor& base, const Tensor& value, int axis, std::int64_t start, std::int64_t stop,
                    std::int64_t step, Location where) {
  const SliceAttributes attributes = clipped("slice_update", base, axis, start, stop, step, where);
  Shape shape = base.shape();
  shape[static_cast<int>(attributes.axis)] = attributes.count();
  const Tensor typed = value.dtype() == base.dtype() ? value : cast(value, base.dtype(), where);
  return apply_op(kSliceUpdate, &attributes, where, base, typed.shape() == shape ? typed : expand(typed, shape, where));
}

Tensor select(const Tensor& x, int axis, std::int64_t index, Location where) {
  const int chosen = normalise_axis(axis, x.rank(), "select", where);
  const std::int64_t length = x.shape()[chosen];
  if (index < -length || index >= length) {
    throw ShapeError(
        fmt::format("select: index {} is out of range for axis {} of {}", index, chosen, to_string(x.type())), where,
        length == 0 ? "the axis is empty" : fmt::format("indices go from {} to {}", -length, length - 1));
  }
  const std::int64_t start = index < 0 ? index + length : index;
  return squeeze(slice(x, chosen, start, start + 1, 1, where), chosen, where);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis, Location where) {
  const int chosen = normalise_axis(axis, x.rank(), "split", where);
  std::optional<std::int64_t> total = 0;
  for (const std::int64_t size : sizes) {
    total = total ? add_lengths(*total, size) : std::nullopt;
  }
  if (total != x.shape()[chosen]) {
    throw ShapeError(fmt::format("split: the sizes don't add up to axis {} of {}", chosen, to_string(x.type())), where,
                     "give sizes >= 0 whose sum is the length");
  }
  std::vector<Tensor> pieces;
  pieces.reserve(sizes.size());
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    pieces.push_back(slice(x, chosen, start, start + size, 1, where));
    start += size;
  }
  return pieces;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, int axis, Location where) {
  const std::int64_t length = x.shape()[normalise_axis(axis, x.rank(), "split", where)];
  if (size < 1) {
    throw ShapeError(fmt::format("split: pieces of {} elements", size), where, "give a size above 0");
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t start = 0; start < length; start += sizes.back()) {
    sizes.push_back(std::min(size, length - start));
  }
  if (sizes.empty()) {
    sizes.push_back(0);
  }
  return split(x, sizes, axis, where);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int axis, Location where) {
  const std::int64_t length = x.shape()[normalise_axis(axis, x.rank(), "chunk", where)];
  if (chunks < 1) {
    throw ShapeError(fmt::format("chunk: {} pieces", chunks), where, "give a number above 0");
  }
  const std::int64_t size = length / chunks + (length % chunks != 0 ? 1 : 0);
  return split(x, std::max<std::int64_t>(size, 1), axis, where);
}

std::vector<Tensor> unbind(const Tensor& x, int axis, Location where) {
  const int chosen = normalise_axis(axis, x.rank(), "unbind", where);
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < x.shape()[chosen]; ++i) {
    parts.push_back(select(x, chosen, i, where));
  }
  return parts;
}

}  // namespace diptych
