#include "framework/ops/view.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/lengths.h"
#include "framework/ops/lines.h"
#include "framework/ops/shape_ops.h"

namespace diptych {
namespace {

using namespace ops;

/// A row-major copy of the input, seen through the output's shape.
void dense_copy_kernel(const KernelCall& call) { kernels::copy_dense(call.inputs[0], call.output.data); }

/// New strides for the same elements in the same order, if such strides exist: each group of output axes must lie in a
/// run of input axes that is itself dense.
bool reshape_view(const TensorType& input, const Strides& strides, const TensorType& output, const void* /*attributes*/,
                  Layout& layout) {
  layout.strides = contiguous_strides(output.shape);
  if (is_contiguous(input.shape, strides)) {
    return true;
  }
  int axis = input.shape.rank() - 1;
  std::int64_t step = 0;       // stride of the next output axis, going backwards
  std::int64_t remaining = 1;  // elements left in the current dense run of input axes
  int run = axis;              // the run's outermost axis; strides of axes of length 1 are meaningless
  for (int i = output.shape.rank() - 1; i >= 0; --i) {
    if (output.shape[i] == 1) {
      continue;
    }
    if (remaining == 1) {
      while (axis >= 0 && input.shape[axis] == 1) {
        --axis;
      }
      if (axis < 0) {
        return false;
      }
      step = strides[axis];
      run = axis;
      remaining = input.shape[axis--];
    }
    while (remaining % output.shape[i] != 0 || remaining < output.shape[i]) {
      if (axis < 0 || (input.shape[axis] != 1 && strides[axis] != strides[run] * input.shape[run])) {
        return false;
      }
      run = input.shape[axis] != 1 ? axis : run;
      remaining *= input.shape[axis--];
    }
    layout.strides[i] = step;
    step *= output.shape[i];
    remaining /= output.shape[i];
  }
  return true;
}

const Op kReshape{view_op(
    {.name = "reshape",
     .doc = "The same elements in row-major order, in another shape",
     .inputs = 1,
     .attributes = &attribute_type<ShapeAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           output.dtype = call.input(0).dtype;
           output.shape = call.as<ShapeAttributes>().shape;
           if (element_count(output.shape) != call.shape(0).product()) {
             call.fail_shape("the number of elements differs", "use -1 for one length to have it inferred");
           }
         },
     .view = reshape_view,
     .write_back = [](const Tensor& base, const Tensor& value, const void*) { return reshape(value, base.shape()); },
     .kernel = dense_copy_kernel,
     .vjp = [](const VjpCall& v) -> Gradients { return {reshape(v.cotangent, v.input_type(0).shape)}; },
     .linear = 1,
     .samples =
         [] {
           using A = ShapeAttributes;
           return std::vector<Sample>{with({sample(DType::float32, {4, 6})}, A{{3, 8}}),
                                      with({sample(DType::float64, {4, 6})}, A{{24}}),
                                      with({sample(DType::float64, {})}, A{{1, 1}}),
                                      with({sample(DType::int64, {2, 0})}, A{{0, 7}}),
                                      with({transposed(sample(DType::float32, {4, 6}))}, A{{2, 2, 6}}),
                                      with({transposed(sample(DType::float64, {4, 6}))}, A{{8, 3}})};
         }})};

Axes inverse_of(const Axes& axes) {
  Axes inverse = axes;
  for (int i = 0; i < axes.rank(); ++i) {
    inverse[static_cast<int>(axes[i])] = i;
  }
  return inverse;
}

const Op kPermute{view_op(
    {.name = "permute",
     .doc = "Axes in another order",
     .inputs = 1,
     .attributes = &attribute_type<AxesAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           const Axes& axes = call.as<AxesAttributes>().axes;
           output = call.input(0);
           std::uint32_t seen = 0;
           for (int i = 0; i < axes.rank(); ++i) {
             if (axes[i] < 0 || axes[i] >= call.shape(0).rank()) {
               call.fail_shape("an axis is out of range", "name each axis of the input once");
             }
             seen |= 1U << axes[i];
           }
           if (axes.rank() != call.shape(0).rank() || seen != (1U << axes.rank()) - 1) {
             call.fail_shape("the axes are no permutation", "name each axis of the input once");
           }
           for (int i = 0; i < axes.rank(); ++i) {
             output.shape[i] = call.shape(0)[static_cast<int>(axes[i])];
           }
         },
     .view =
         [](const TensorType&, const Strides& strides, const TensorType&, const void* attributes, Layout& layout) {
           const Axes& axes = static_cast<const AxesAttributes*>(attributes)->axes;
           layout.strides = strides;
           for (int i = 0; i < axes.rank(); ++i) {
             layout.strides[i] = strides[static_cast<int>(axes[i])];
           }
           return true;
         },
     .write_back =
         [](const Tensor&, const Tensor& value, const void* attributes) {
           return permute(value, inverse_of(static_cast<const AxesAttributes*>(attributes)->axes));
         },
     .kernel = dense_copy_kernel,
     .vjp = [](const VjpCall& v) -> Gradients {
       return {permute(v.cotangent, inverse_of(v.as<AxesAttributes>().axes))};
     },
     .linear = 1,
     .samples =
         [] {
           using A = AxesAttributes;
           return std::vector<Sample>{with({sample(DType::float32, {4, 6})}, A{{1, 0}}),
                                      with({sample(DType::float64, {2, 3, 4})}, A{{2, 0, 1}}),
                                      with({sample(DType::boolean, {2, 0})}, A{{1, 0}})};
         }})};

const Op kExpand{view_op(
    {.name = "expand",
     .doc = "Axes of length 1 repeated, and leading axes added",
     .inputs = 1,
     .attributes = &attribute_type<ShapeAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           output.dtype = call.input(0).dtype;
           output.shape = call.as<ShapeAttributes>().shape;
           Shape common;
           if (!broadcast(call.shape(0), output.shape, common) || common != output.shape ||
               !element_count(output.shape)) {
             call.fail_shape("the input doesn't broadcast to the shape", "only axes of length 1 can be repeated");
           }
         },
     .view =
         [](const TensorType& input, const Strides& strides, const TensorType& output, const void*, Layout& layout) {
           layout.strides = Strides::filled(output.shape.rank(), 0);
           const int offset = output.shape.rank() - input.shape.rank();
           for (int i = 0; i < input.shape.rank(); ++i) {
             layout.strides[i + offset] = input.shape[i] == 1 ? 0 : strides[i];
           }
           return true;
         },
     .write_back = [](const Tensor& base, const Tensor& value, const void*) { return reshape(value, base.shape()); },
     .kernel = dense_copy_kernel,
     // The engine sums a gradient to its input's shape.
     .vjp = [](const VjpCall& v) -> Gradients { return {v.cotangent}; },
     .linear = 1,
     .samples =
         [] {
           using A = ShapeAttributes;
           return std::vector<Sample>{
               with({sample(DType::float32, {4, 1})}, A{{4, 6}}), with({sample(DType::float64, {3})}, A{{2, 3}}),
               with({sample(DType::float64, {})}, A{{2, 2}}), with({sample(DType::float64, {1, 3})}, A{{0, 3}})};
         }})};

}  // namespace

namespace op {
const OpDef& reshape = *kReshape;
const OpDef& permute = *kPermute;
const OpDef& expand = *kExpand;
}  // namespace op

int normalise_axis(std::int64_t axis, int rank, const char* op, Location where) {
  const std::int64_t normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) {
    throw ShapeError(fmt::format("{}: axis {} is out of range for {} axes", op, axis, rank), where,
                     rank == 0 ? "a scalar has no axes" : fmt::format("axes go from {} to {}", -rank, rank - 1));
  }
  return static_cast<int>(normal);
}

Tensor reshape(const Tensor& x, const Shape& shape, Location where) {
  ShapeAttributes attributes{shape};
  int inferred = -1;
  Shape others;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1 && inferred < 0) {
      inferred = i;
    } else if (shape[i] < 0) {
      throw ShapeError(fmt::format("reshape: {} to {}", to_string(x.type()), to_string(shape)), where,
                       "one length at most may be -1, none may be below it");
    } else {
      others.push_back(shape[i]);
    }
  }
  if (inferred >= 0) {
    const std::int64_t known = element_count(others).value_or(0);
    if (known == 0 || x.numel() % known != 0) {
      throw ShapeError(fmt::format("reshape: {} to {}: no length fits the -1", to_string(x.type()), to_string(shape)),
                       where, "the product of the others must divide the number of elements");
    }
    attributes.shape[inferred] = x.numel() / known;
  }
  return apply_op(kReshape, &attributes, where, x);
}

Tensor flatten(const Tensor& x, int start_axis, int end_axis, Location where) {
  if (x.rank() == 0) {
    return reshape(x, {1}, where);
  }
  const int start = normalise_axis(start_axis, x.rank(), "flatten", where);
  const int end = normalise_axis(end_axis, x.rank(), "flatten", where);
  if (start > end) {
    throw ShapeError(fmt::format("flatten: axis {} comes after axis {}", start, end), where,
                     "name the first axis, then the last");
  }
  Shape shape;
  std::int64_t merged = 1;
  for (int i = 0; i < x.rank(); ++i) {
    merged *= i >= start && i <= end ? x.shape()[i] : 1;
    if (i < start || i > end) {
      shape.push_back(x.shape()[i]);
    } else if (i == end) {
      shape.push_back(merged);
    }
  }
  return reshape(x, shape, where);
}

Tensor permute(const Tensor& x, const Axes& axes, Location where) {
  AxesAttributes attributes{axes};
  for (int i = 0; i < axes.rank(); ++i) {
    attributes.axes[i] = normalise_axis(axes[i], x.rank(), "permute", where);
  }
  return apply_op(kPermute, &attributes, where, x);
}

Tensor transpose(const Tensor& x, int axis_a, int axis_b, Location where) {
  const int a = normalise_axis(axis_a, x.rank(), "transpose", where);
  const int b = normalise_axis(axis_b, x.rank(), "transpose", where);
  AxesAttributes attributes;
  for (int i = 0; i < x.rank(); ++i) {
    attributes.axes.push_back(i == a ? b : i == b ? a : i);
  }
  return apply_op(kPermute, &attributes, where, x);
}

Tensor expand(const Tensor& x, const Shape& shape, Location where) {
  const ShapeAttributes attributes{shape};
  return apply_op(kExpand, &attributes, where, x);
}

Tensor squeeze(const Tensor& x, int axis, Location where) {
  const int dropped = normalise_axis(axis, x.rank(), "squeeze", where);
  if (x.shape()[dropped] != 1) {
    throw ShapeError(fmt::format("squeeze: axis {} of {} has not length 1", dropped, to_string(x.type())), where, "");
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != dropped) {
      shape.push_back(x.shape()[i]);
    }
  }
  return reshape(x, shape, where);
}

Tensor squeeze(const Tensor& x, Location where) {
  Shape shape;
  for (const std::int64_t length : x.shape()) {
    if (length != 1) {
      shape.push_back(length);
    }
  }
  return reshape(x, shape, where);
}

Tensor unsqueeze(const Tensor& x, int axis, Location where) {
  const int added = normalise_axis(axis, x.rank() + 1, "unsqueeze", where);
  Shape shape;
  for (int i = 0; i <= x.rank(); ++i) {
    if (i == added) {
      shape.push_back(1);
    }
    if (i < x.rank()) {
      shape.push_back(x.shape()[i]);
    }
  }
  return reshape(x, shape, where);
}

}  // namespace diptych
