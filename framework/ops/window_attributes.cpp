#include "framework/ops/window_attributes.h"

#include "framework/core/error.h"
#include "framework/ops/lengths.h"

namespace diptych::ops {
namespace {

void check_range(const InferCall& call, const char* name, std::int64_t value, std::int64_t least) {
  if (value < least || value > kLongestWindow) {
    call.fail_shape(fmt::format("{} {} is out of range", name, value),
                    fmt::format("it must be at least {} and below 2^31", least));
  }
}

kernels::WindowAxis make_axis(const InferCall& call, kernels::WindowAxis axis, std::int64_t after, bool ceil_mode) {
  check_range(call, "a kernel of length", axis.kernel, 1);
  check_range(call, "a stride of", axis.stride, 1);
  check_range(call, "a dilation of", axis.dilation, 1);
  check_range(call, "a padding of", axis.before, 0);
  check_range(call, "a padding of", after, 0);
  const std::int64_t padded = axis.input + axis.before + after;
  const std::int64_t reach = (axis.kernel - 1) * axis.dilation + 1;
  const std::int64_t room = padded - reach + (ceil_mode ? axis.stride - 1 : 0);  // in ceil mode a window may stand out
  if (room < 0 || (ceil_mode && axis.input + axis.before == 0)) {
    call.fail_shape(fmt::format("the kernel reaches over {} cells, the padded input has {}", reach, padded),
                    "pad more, or take a smaller kernel or dilation");
  }
  axis.output = room / axis.stride + 1;
  if (ceil_mode && (axis.output - 1) * axis.stride >= axis.input + axis.before) {
    --axis.output;  // the last window would start in the padding
  }
  return axis;
}

[[noreturn]] void fail_lengths(const Dims& given, const char* what, int axes, const char* op, Location where) {
  throw ShapeError(fmt::format("{}: {} {} doesn't fit {} spatial axes", op, what, to_string(given), axes), where,
                   "give one length for all axes, or one an axis");
}

}  // namespace

kernels::WindowAxis window_rows(const InferCall& call, const WindowAttributes& a, std::int64_t input,
                                std::int64_t kernel, bool ceil_mode) {
  return make_axis(call, {input, 0, kernel, a.stride_h, a.dilation_h, a.pad_top}, a.pad_bottom, ceil_mode);
}
kernels::WindowAxis window_columns(const InferCall& call, const WindowAttributes& a, std::int64_t input,
                                   std::int64_t kernel, bool ceil_mode) {
  return make_axis(call, {input, 0, kernel, a.stride_w, a.dilation_w, a.pad_left}, a.pad_right, ceil_mode);
}

void check_elements(const InferCall& call, const Shape& shape) {
  if (!is_plausible(shape)) {
    call.fail_shape(fmt::format("the result {} cannot be", to_string(shape)), "check sizes, padding and strides");
  }
}

WindowSize window_size(const Dims& size, int axes, const char* what, const char* op, Location where) {
  if (size.rank() != 1 && size.rank() != axes) {
    fail_lengths(size, what, axes, op, where);
  }
  return {axes == 1 ? 1 : size[0], size.back()};
}

WindowAttributes window_attributes(const Dims& stride, const Dims& padding, const Dims& dilation, int axes,
                                   const char* op, Location where) {
  WindowAttributes result;
  const WindowSize steps = window_size(stride, axes, "stride", op, where);
  const WindowSize spacing = window_size(dilation, axes, "dilation", op, where);
  result.stride_h = steps.h;
  result.stride_w = steps.w;
  result.dilation_h = spacing.h;
  result.dilation_w = spacing.w;
  if (padding.rank() == 2 * axes && (axes == 2 || padding.rank() != axes)) {
    result.pad_top = axes == 2 ? padding[0] : 0;
    result.pad_bottom = axes == 2 ? padding[1] : 0;
    result.pad_left = padding[padding.rank() - 2];
    result.pad_right = padding[padding.rank() - 1];
  } else {
    const WindowSize sides = window_size(padding, axes, "padding", op, where);
    result.pad_top = result.pad_bottom = axes == 2 ? sides.h : 0;
    result.pad_left = result.pad_right = sides.w;
  }
  return result;
}

}  // namespace diptych::ops
