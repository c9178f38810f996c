#pragma once

#include <fmt/format.h>

#include "framework/dispatch/op.h"
#include "framework/kernels/window.h"

/// Shared by convolutions and poolings: describing and checking windows. Attributes may come from anywhere.
namespace diptych::ops {

/// The positions of the windows in a plane, without their size.
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

/// One axis of the windows; refuses values that are meaningless or could overflow.
kernels::WindowAxis window_rows(const InferCall& call, const WindowAttributes& attributes, std::int64_t input,
                                std::int64_t kernel, bool ceil_mode = false);
kernels::WindowAxis window_columns(const InferCall& call, const WindowAttributes& attributes, std::int64_t input,
                                   std::int64_t kernel, bool ceil_mode = false);

/// Refuses a result too large for memory.
void check_elements(const InferCall& call, const Shape& shape);

/// The attributes from lists: one length for all axes, or one per axis; padding also takes two per axis, before and
/// after. `axes` is 1 or 2; a single axis becomes the second. Throws ShapeError.
WindowAttributes window_attributes(const Dims& stride, const Dims& padding, const Dims& dilation, int axes,
                                   const char* op, Location where);
/// A size as two lengths, given in the same way.
struct WindowSize {
  std::int64_t h;
  std::int64_t w;
};
WindowSize window_size(const Dims& size, int axes, const char* what, const char* op, Location where);

}  // namespace diptych::ops
