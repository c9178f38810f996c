#pragma once

#include <algorithm>
#include <cstdint>

namespace diptych::kernels {

/// One spatial axis of a convolution or a pooling. Output o reads the inputs o * stride + k * dilation - before for k <
/// kernel. Inputs outside [0, input) are padding.
struct WindowAxis {
  std::int64_t input = 1;
  std::int64_t output = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;

  /// The outputs [begin, end) whose tap `k` lies inside the input.
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };
  Range inside(std::int64_t k) const {
    const std::int64_t shift = before - k * dilation;  // output o reads o * stride - shift
    const std::int64_t begin = shift <= 0 ? 0 : (shift + stride - 1) / stride;
    const std::int64_t last = input - 1 + shift;
    const std::int64_t end = last < 0 ? 0 : last / stride + 1;
    return {std::min(begin, output), std::max(std::min(begin, output), std::min(end, output))};
  }
  /// The number of inputs from the first to the last that any window reads, including padding.
  std::int64_t span() const { return (output - 1) * stride + (kernel - 1) * dilation + 1; }
  /// `count` outputs from `first` on.
  WindowAxis part(std::int64_t first, std::int64_t count) const {
    WindowAxis axis = *this;
    axis.before -= first * stride;
    axis.output = count;
    return axis;
  }
};

/// Whether windows of one element are the elements of a plane, or of some whole rows of it, in order.
inline bool is_plane(const WindowAxis& rows, const WindowAxis& columns) {
  const bool is_each = rows.kernel == 1 && columns.kernel == 1 && rows.stride == 1 && columns.stride == 1;
  return is_each && rows.before <= 0 && rows.output - rows.before <= rows.input && columns.before == 0 &&
         columns.output == columns.input;
}

}  // namespace diptych::kernels
