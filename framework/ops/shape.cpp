#include "framework/ops/shape.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "framework/core/strided_copy.h"
#include "framework/kernels/dense.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/lengths.h"
#include "framework/ops/lines.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

/// The address of an element of a dense output.
std::byte* element_at(const Operand& operand, std::int64_t offset) {
  return static_cast<std::byte*>(operand.data) + offset * static_cast<std::int64_t>(size_of(operand.type->dtype));
}

void copy_to(const Operand& from, const Operand& output, std::int64_t offset) {
  kernels::strided_copy(from, element_at(output, offset), *output.strides);
}

void infer_concat(const InferCall& call, TensorType& output) {
  const std::int64_t axis = call.as<AxisAttributes>().axis;
  output = call.input(0);
  if (axis < 0 || axis >= output.shape.rank()) {
    call.fail_shape("the axis is out of range", "");
  }
  const int along = static_cast<int>(axis);
  for (int i = 1; i < static_cast<int>(call.inputs.size()); ++i) {
    Shape shape = call.shape(i);
    if (call.input(i).dtype != output.dtype) {
      call.fail_dtype("element types differ", "cast them to one type");
    }
    const auto total = shape.rank() == output.shape.rank() ? add_lengths(output.shape[along], shape[along])
                                                           : std::optional<std::int64_t>();
    if (total) {
      shape[along] = output.shape[along];
    }
    if (!total || shape != output.shape) {
      call.fail_shape("the shapes don't fit", fmt::format("all lengths but that of axis {} must be equal", axis));
    }
    output.shape[along] = *total;
  }
  if (!element_count(output.shape)) {
    call.fail_shape("the result has too many elements", "");
  }
}

void concat_kernel(const KernelCall& call) {
  const int axis = static_cast<int>(static_cast<const AxisAttributes*>(call.attributes)->axis);
  std::int64_t start = 0;
  for (int i = 0; i < call.input_count; ++i) {
    copy_to(call.inputs[i], call.output, start * (*call.output.strides)[axis]);
    start += call.inputs[i].type->shape[axis];
  }
}

const Op kConcat{
    {.name = "concat",
     .doc = "The inputs one after the other along an axis",
     .inputs = kMaxInputs,
     .least_inputs = 1,
     .attributes = &attribute_type<AxisAttributes>,
     .infer = infer_concat,
     .kernel = concat_kernel,
     .stores = true,
     .vjp = [](const VjpCall& v) -> Gradients {
       const int axis = static_cast<int>(v.as<AxisAttributes>().axis);
       Gradients gradients;
       std::int64_t start = 0;
       for (int i = 0; i < v.input_count; ++i) {
         const std::int64_t stop = start + v.input_type(i).shape[axis];
         if (v.needs(i)) {
           gradients[static_cast<std::size_t>(i)] = slice(v.cotangent, axis, start, stop);
         }
         start = stop;
       }
       return gradients;
     },
     .jvp = [](const JvpCall& j) -> Tensor {
       std::vector<Tensor> tangents;
       for (int i = 0; i < j.input_count; ++i) {
         tangents.push_back(tangent_or_zeros(j.tangent(i), j.input(i)));
       }
       return concat(tangents, static_cast<int>(j.as<AxisAttributes>().axis));
     },
     .samples =
         [] {
           using A = AxisAttributes;
           std::vector<Sample> samples;
           for (DType dtype : kEvery) {
             const auto in = [&](const Shape& s) { return sample(dtype, s, 0, 5); };
             samples.push_back(with({in({2, 3}), in({4, 3})}, A{0}));
             samples.push_back(with({transposed(in({2, 3})), in({2, 0}), in({2, 5})}, A{1}));
           }
           samples.push_back(with({sample(DType::float64, {3})}, A{0}));
           samples.push_back(with({sample(DType::float64, {2, 1, 3}), sample(DType::float64, {2, 2, 3})}, A{1}));
           return samples;
         },
     .family = "shape"}};

void flip_kernel(const KernelCall& call) {
  const Axes& axes = static_cast<const AxesAttributes*>(call.attributes)->axes;
  const Operand& input = call.inputs[0];
  if (input.type->shape.contains(0)) {
    return;
  }
  Strides strides = *input.strides;
  std::int64_t last = 0;
  for (const std::int64_t axis : axes) {
    const int i = static_cast<int>(axis);
    last += (input.type->shape[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  kernels::strided_copy(input.type->shape, size_of(input.type->dtype), element_at(input, last), strides,
                        call.output.data, *call.output.strides);
}

const Op kFlip{{.name = "flip",
                .doc = "Axes in reverse order of elements",
                .inputs = 1,
                .attributes = &attribute_type<AxesAttributes>,
                .infer =
                    [](const InferCall& call, TensorType& output) {
                      std::uint32_t seen = 0;
                      for (const std::int64_t axis : call.as<AxesAttributes>().axes) {
                        if (axis < 0 || axis >= call.shape(0).rank() || ((seen >> axis) & 1U) != 0) {
                          call.fail_shape("an axis is out of range or named twice", "name each axis once");
                        }
                        seen |= 1U << axis;
                      }
                      output = call.input(0);
                    },
                .kernel = flip_kernel,
                .stores = true,
                .vjp = [](const VjpCall& v) -> Gradients { return {flip(v.cotangent, v.as<AxesAttributes>().axes)}; },
                .linear = 1,
                .samples =
                    [] {
                      using A = AxesAttributes;
                      return std::vector<Sample>{with({sample(DType::float32, {3, 17})}, A{{1}}),
                                                 with({transposed(sample(DType::float64, {3, 5}))}, A{{0, 1}}),
                                                 with({sample(DType::uint8, {7}, 0, 9)}, A{{0}}),
                                                 with({sample(DType::bfloat16, {2, 0})}, A{{0}}),
                                                 with({sample(DType::float64, {})}, A{{}})};
                    },
                .family = "shape"}};

/// Copies the input, then fills the dropped part of each row with zeros.
template <bool upper>
void triangle_kernel(const KernelCall& call) {
  const Shape& shape = call.output.type->shape;
  const std::size_t size = size_of(call.output.type->dtype);
  kernels::copy_dense(call.inputs[0], call.output.data);
  if (shape.contains(0)) {
    return;
  }
  const std::int64_t columns = shape.back();
  const std::int64_t rows = shape[shape.rank() - 2];
  const std::int64_t diagonal =
      std::clamp(static_cast<const DiagonalAttributes*>(call.attributes)->diagonal, -rows, columns);
  const std::int64_t total = shape.product() / columns;
  for (std::int64_t row = 0; row < total; ++row) {
    // Columns below `edge` belong to the lower side: up to the diagonal for tril, before it for triu.
    const std::int64_t edge = std::clamp<std::int64_t>(row % rows + diagonal + (upper ? 0 : 1), 0, columns);
    const std::int64_t begin = upper ? 0 : edge;
    const std::int64_t end = upper ? edge : columns;
    std::memset(element_at(call.output, row * columns + begin), 0, static_cast<std::size_t>(end - begin) * size);
  }
}

void infer_triangle(const InferCall& call, TensorType& output) {
  output = call.input(0);
  if (output.shape.rank() < 2) {
    call.fail_shape("needs a matrix", "unsqueeze the input to two axes at least");
  }
}

std::vector<Sample> triangle_samples() {
  using A = DiagonalAttributes;
  std::vector<Sample> samples;
  for (DType dtype : kEvery) {
    samples.push_back(with({sample(dtype, {2, 3, 5}, 0, 5)}, A{1}));
  }
  samples.push_back(with({transposed(sample(DType::float64, {5, 3}))}, A{-1}));
  samples.push_back(with({sample(DType::float64, {3, 3})}, A{0}));
  samples.push_back(with({sample(DType::float64, {0, 3})}, A{-9}));
  return samples;
}

const Op kTril{
    {.name = "tril",
     .doc = "The lower triangle of the last two axes, 0 elsewhere",
     .inputs = 1,
     .attributes = &attribute_type<DiagonalAttributes>,
     .infer = infer_triangle,
     .kernel = triangle_kernel<false>,
     .stores = true,
     .vjp = [](const VjpCall& v) -> Gradients { return {tril(v.cotangent, v.as<DiagonalAttributes>().diagonal)}; },
     .linear = 1,
     .samples = triangle_samples,
     .family = "shape"}};

const Op kTriu{
    {.name = "triu",
     .doc = "The upper triangle of the last two axes, 0 elsewhere",
     .inputs = 1,
     .attributes = &attribute_type<DiagonalAttributes>,
     .infer = infer_triangle,
     .kernel = triangle_kernel<true>,
     .stores = true,
     .vjp = [](const VjpCall& v) -> Gradients { return {triu(v.cotangent, v.as<DiagonalAttributes>().diagonal)}; },
     .linear = 1,
     .samples = triangle_samples,
     .family = "shape"}};

void check_any(const char* op, const std::vector<Tensor>& tensors, Location where) {
  if (tensors.empty()) {
    throw ShapeError(fmt::format("{}: there is no tensor", op), where, "give one at least");
  }
}

}  // namespace

namespace op {
const OpDef& concat = *kConcat;
const OpDef& flip = *kFlip;
const OpDef& tril = *kTril;
const OpDef& triu = *kTriu;
}  // namespace op

Tensor concat(const std::vector<Tensor>& tensors, int axis, Location where) {
  check_any("concat", tensors, where);
  const AxisAttributes attributes{normalise_axis(axis, tensors.front().rank(), "concat", where)};
  DType dtype = tensors.front().dtype();
  for (const Tensor& tensor : tensors) {
    dtype = promote(dtype, tensor.dtype());
  }
  std::vector<Tensor> pieces;
  for (const Tensor& tensor : tensors) {
    pieces.push_back(cast(tensor, dtype, where));
  }
  // For more tensors than one op takes: concatenates groups of the maximum number, then the groups; each element is
  // copied log_8(n) times.
  do {
    std::vector<Tensor> joined;
    for (std::size_t begin = 0; begin < pieces.size(); begin += kMaxInputs) {
      const Tensor* group[kMaxInputs];
      const std::size_t count = std::min<std::size_t>(kMaxInputs, pieces.size() - begin);
      for (std::size_t i = 0; i < count; ++i) {
        group[i] = &pieces[begin + i];
      }
      joined.push_back(count == 1 && pieces.size() > 1 ? pieces[begin]
                                                       : apply(*kConcat, std::span(group, count), &attributes, where));
    }
    pieces = std::move(joined);
  } while (pieces.size() > 1);
  return pieces.front();
}

Tensor stack(const std::vector<Tensor>& tensors, int axis, Location where) {
  check_any("stack", tensors, where);
  const int added = normalise_axis(axis, tensors.front().rank() + 1, "stack", where);
  std::vector<Tensor> layers;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape() != tensors.front().shape()) {
      throw ShapeError(
          fmt::format("stack: shapes differ: {} x {}", to_string(tensors.front().type()), to_string(tensor.type())),
          where, "all tensors must have one shape");
    }
    layers.push_back(unsqueeze(tensor, added, where));
  }
  return concat(layers, added, where);
}

Tensor tile(const Tensor& x, const Shape& repeats, Location where) {
  Shape shape = x.shape();
  while (shape.rank() < repeats.rank()) {
    Shape longer{1};
    for (const std::int64_t length : shape) {
      longer.push_back(length);
    }
    shape = longer;
  }
  Tensor result = reshape(x, shape, where);
  for (int i = 0; i < repeats.rank(); ++i) {
    const int axis = shape.rank() - repeats.rank() + i;
    if (repeats[i] < 0) {
      throw ShapeError(fmt::format("tile: {} repeats of axis {}", repeats[i], axis), where, "give numbers from 0 on");
    }
    if (repeats[i] == 1) {
      continue;
    }
    // [outer, 1, rest] repeated along the middle: three axes for any rank.
    std::int64_t outer = 1;
    for (int k = 0; k < axis; ++k) {
      outer *= shape[k];
    }
    std::int64_t rest = 1;
    for (int k = axis; k < shape.rank(); ++k) {
      rest *= shape[k];
    }
    const Tensor repeated = expand(reshape(result, {outer, 1, rest}, where), {outer, repeats[i], rest}, where);
    shape[axis] *= repeats[i];
    result = reshape(repeated, shape, where);
  }
  return result;
}

Tensor flip(const Tensor& x, const Axes& axes, Location where) {
  AxesAttributes attributes;
  for (const std::int64_t axis : axes) {
    attributes.axes.push_back(normalise_axis(axis, x.rank(), "flip", where));
  }
  return apply_op(kFlip, &attributes, where, x);
}

Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes, Location where) {
  if (shifts.rank() != axes.rank()) {
    throw ShapeError(fmt::format("roll: {} shifts for {} axes", shifts.rank(), axes.rank()), where,
                     "give one shift an axis");
  }
  Tensor result = x;
  for (int i = 0; i < axes.rank(); ++i) {
    const int axis = normalise_axis(axes[i], x.rank(), "roll", where);
    const std::int64_t length = x.shape()[axis];
    const std::int64_t shift = length == 0 ? 0 : (shifts[i] % length + length) % length;
    if (shift != 0) {
      result = concat(
          {slice(result, axis, length - shift, length, 1, where), slice(result, axis, 0, length - shift, 1, where)},
          axis, where);
    }
  }
  return result;
}

Tensor tril(const Tensor& x, std::int64_t diagonal, Location where) {
  const DiagonalAttributes attributes{diagonal};
  return apply_op(kTril, &attributes, where, x);
}
Tensor triu(const Tensor& x, std::int64_t diagonal, Location where) {
  const DiagonalAttributes attributes{diagonal};
  return apply_op(kTriu, &attributes, where, x);
}

}  // namespace diptych
