#pragma once

#include <fmt/format.h>

#include "framework/kernels/window.h"
#include "framework/ops/op.h"

/// What convolutions and poolings share in describing and checking windows; attributes may come from anywhere.
namespace diptych::ops {

/// How the windows of a plane lie, without their size.
struct WindowAttributes {
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t pad_top = 0;
  std::int64_t pad_bottom = 0;
  std::int64_t pad_left = 0;
  std::int64_t pad_right = 0;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  static constexpr auto fields() {
    return std::tuple(field("stride_h", &WindowAttributes::stride_h), field("stride_w", &WindowAttributes::stride_w),
                      field("pad_top", &WindowAttributes::pad_top), field("pad_bottom", &WindowAttributes::pad_bottom),
                      field("pad_left", &WindowAttributes::pad_left), field("pad_right", &WindowAttributes::pad_right),
                      field("dilation_h", &WindowAttributes::dilation_h),
                      field("dilation_w", &WindowAttributes::dilation_w));
  }
};

inline constexpr std::int64_t kLongestWindow = (std::int64_t{1} << 31) - 1;

/// One axis of the windows; refuses what makes no sense or could overflow.
kernels::WindowAxis window_rows(const InferCall& call, const WindowAttributes& attributes, std::int64_t input,
                                std::int64_t kernel, bool ceil_mode = false);
kernels::WindowAxis window_columns(const InferCall& call, const WindowAttributes& attributes, std::int64_t input,
                                   std::int64_t kernel, bool ceil_mode = false);

/// Refuses a result that can't exist in memory.
void check_elements(const InferCall& call, const Shape& shape);

/// The attributes from lists: one length for every axis, or one an axis; of the padding also two an axis, before and
/// after. `axes` 1 or 2: of one axis, which is made the second. Throws ShapeError.
WindowAttributes window_attributes(const Dims& stride, const Dims& padding, const Dims& dilation, int axes,
                                   const char* op, Location where);
/// A size as two lengths, in the same way.
struct WindowSize {
  std::int64_t h;
  std::int64_t w;
};
WindowSize window_size(const Dims& size, int axes, const char* what, const char* op, Location where);

}  // namespace diptych::ops
