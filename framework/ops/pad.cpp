// Padding. With a constant it is an op; the modes that use an axis' own elements are slices, flips and a concat.

#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "framework/core/strided_copy.h"
#include "framework/kernels/dense.h"
#include "framework/ops/define.h"
#include "framework/ops/lengths.h"
#include "framework/ops/shape.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

template <class T>
bool holds(double value) {
  if constexpr (std::is_integral_v<T>) {
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    return value >= static_cast<double>(std::numeric_limits<T>::min()) && value < end;
  } else {
    return true;
  }
}

void infer_pad(const InferCall& call, TensorType& output) {
  const auto& a = call.as<PadAttributes>();
  output = call.input(0);
  if (a.before.rank() != output.shape.rank() || a.after.rank() != output.shape.rank()) {
    call.fail_shape("the widths don't fit the axes", "give one width before and one after each axis");
  }
  for (int i = 0; i < output.shape.rank(); ++i) {
    const auto partial = add_lengths(output.shape[i], a.before[i]);
    const auto length = partial ? add_lengths(*partial, a.after[i]) : std::nullopt;
    if (!length) {
      call.fail_shape("a width is negative or too large", "slice() takes elements away");
    }
    output.shape[i] = *length;
  }
  if (!element_count(output.shape)) {
    call.fail_shape("the result has too many elements", "");
  }
  if (!visit(output.dtype, [&]<class T>() { return holds<T>(a.value); })) {
    call.fail_dtype(fmt::format("the elements can't be {}", a.value), "pad with a number of the type");
  }
}

/// Fills the places outside the input, a slab before and one after it along each axis, and copies the input in between.
void pad_kernel(const KernelCall& call) {
  const auto& a = *static_cast<const PadAttributes*>(call.attributes);
  const Operand& input = call.inputs[0];
  const Strides& strides = *call.output.strides;
  const std::size_t size = size_of(input.type->dtype);
  std::uint64_t value = 0;
  visit(input.type->dtype, [&]<class T>() {
    const T typed = static_cast<T>(a.value);
    std::memcpy(&value, &typed, sizeof(T));
  });
  const auto at = [&](std::int64_t offset) {
    return static_cast<std::byte*>(call.output.data) + offset * static_cast<std::int64_t>(size);
  };
  Shape box = call.output.type->shape;
  const Strides repeat = Strides::filled(box.rank(), 0);
  std::int64_t offset = 0;
  for (int axis = 0; axis < box.rank(); ++axis) {
    const std::int64_t length = input.type->shape[axis];
    box[axis] = a.before[axis];
    kernels::strided_copy(box, size, &value, repeat, at(offset), strides);
    offset += a.before[axis] * strides[axis];
    box[axis] = a.after[axis];
    kernels::strided_copy(box, size, &value, repeat, at(offset + length * strides[axis]), strides);
    box[axis] = length;
  }
  kernels::strided_copy(input, at(offset), strides);
}

const Op kPad{
    {.name = "pad",
     .doc = "A constant before and after each axis",
     .inputs = 1,
     .attributes = &attribute_type<PadAttributes>,
     .infer = infer_pad,
     .kernel = pad_kernel,
     .stores = true,
     .vjp = [](const VjpCall& v) -> Gradients {
       const auto& a = v.as<PadAttributes>();
       Tensor gradient = v.cotangent;
       for (int axis = 0; axis < a.before.rank(); ++axis) {
         if (a.before[axis] != 0 || a.after[axis] != 0) {
           gradient = slice(gradient, axis, a.before[axis], a.before[axis] + v.input_type(0).shape[axis]);
         }
       }
       return {gradient};
     },
     .jvp = [](const JvpCall& j) -> Tensor {
       PadAttributes attributes = j.as<PadAttributes>();
       attributes.value = 0;
       return apply(j.op, std::array{&j.tangent(0)}, &attributes, Location::current());
     },
     .samples =
         [] {
           using A = PadAttributes;
           std::vector<Sample> samples;
           for (DType dtype : kEvery) {
             samples.push_back(with({sample(dtype, {2, 3}, 0, 5)}, A{{1, 0}, {0, 2}, 1}));
           }
           samples.push_back(with({transposed(sample(DType::float64, {2, 3, 4}))}, A{{0, 1, 2}, {0, 1, 0}, -2.5}));
           samples.push_back(with({sample(DType::float64, {0, 2})}, A{{1, 0}, {1, 1}, 3}));
           samples.push_back(with({sample(DType::float64, {})}, A{{}, {}, 3}));
           return samples;
         },
     .family = "shape"}};

/// Pads one axis with its own elements, before and after.
Tensor pad_by_elements(const Tensor& x, int axis, PadWidth width, PadMode mode, Location where) {
  const std::int64_t length = x.shape()[axis];
  const std::int64_t most = mode == PadMode::reflect ? length - 1 : length == 0 ? 0 : INT64_MAX;
  if (width.before < 0 || width.after < 0 || width.before > most || width.after > most) {
    throw ShapeError(fmt::format("pad: widths {} and {} don't fit axis {} of {}", width.before, width.after, axis,
                                 to_string(x.type())),
                     where,
                     mode == PadMode::reflect ? "reflecting needs widths from 0 to the length - 1"
                                              : "repeating needs widths from 0 on and an axis that isn't empty");
  }
  const auto side = [&](std::int64_t begin, std::int64_t end, std::int64_t count) {
    if (mode == PadMode::reflect) {
      return flip(slice(x, axis, begin, end, 1, where), {axis}, where);
    }
    Shape shape = x.shape();
    shape[axis] = count;
    return expand(slice(x, axis, begin, end, 1, where), shape, where);
  };
  std::vector<Tensor> parts;
  if (width.before > 0) {
    parts.push_back(mode == PadMode::reflect ? side(1, width.before + 1, width.before) : side(0, 1, width.before));
  }
  parts.push_back(x);
  if (width.after > 0) {
    parts.push_back(mode == PadMode::reflect ? side(length - 1 - width.after, length - 1, width.after)
                                             : side(length - 1, length, width.after));
  }
  return parts.size() == 1 ? x : concat(parts, axis, where);
}

}  // namespace

namespace op {
const OpDef& pad = *kPad;
}  // namespace op

Tensor pad(const Tensor& x, const std::vector<PadWidth>& widths, PadMode mode, double value, Location where) {
  if (static_cast<int>(widths.size()) != x.rank()) {
    throw ShapeError(fmt::format("pad: {} widths for {}", widths.size(), to_string(x.type())), where,
                     "give {before, after} for each axis");
  }
  if (mode == PadMode::constant) {
    PadAttributes attributes{{}, {}, value};
    for (const PadWidth& width : widths) {
      attributes.before.push_back(width.before);
      attributes.after.push_back(width.after);
    }
    return apply_op(kPad, &attributes, where, x);
  }
  Tensor result = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    result = pad_by_elements(result, axis, widths[static_cast<std::size_t>(axis)], mode, where);
  }
  return result;
}

}  // namespace diptych
