#pragma once

#include <algorithm>
#include <optional>

#include "framework/dispatch/op.h"

/// Values as rows (RowLayout): parts of a tensor's elements. The width of a row is that of the last axis, or 1. The
/// rows that are channels have planes of [batch, channels, ...], what was reduced from each, [batch, channels], or what
/// stands for a channel: one element along any axis, as in [channels], [channels, 1, 1] or [1, channels, 1, 1], or
/// [channels, kWidthOfChannel].
namespace diptych::codegen {

/// Of what stands for a channel: its statistics.
inline constexpr std::int64_t kWidthOfChannel = 4;

/// Whether the value is [batch, channels, ...], whatever stands behind.
inline bool begins_with_channels(const RowLayout& rows, const Shape& shape) {
  return shape.rank() > 1 && shape[0] == rows.batch && shape[1] == rows.count;
}

/// Whether the value is [batch, channels, ...] with all elements of its planes.
inline bool has_planes(const RowLayout& rows, const Shape& shape) {
  return rows.by_channel() && shape.rank() > 2 && begins_with_channels(rows, shape) &&
         shape.product() == rows.count * rows.batch * rows.plane;
}

/// The axis along which a value's rows lie that are channels; the rank: there is none.
inline int channel_axis(const RowLayout& rows, const Shape& shape) {
  return begins_with_channels(rows, shape)
             ? 1
             : static_cast<int>(std::find(shape.begin(), shape.end(), rows.count) - shape.begin());
}

/// Whether a tensor falls into channels of `width` elements each.
inline bool has_channels(const RowLayout& rows, const Shape& shape, std::int64_t width) {
  if (width == 1) {
    return channel_axis(rows, shape) < shape.rank();
  }
  if (shape.rank() == 2) {  // either of the two, but not what may be both
    return begins_with_channels(rows, shape) ? rows.batch != rows.count || width != kWidthOfChannel
                                             : shape[0] == rows.count && width == kWidthOfChannel;
  }
  return has_planes(rows, shape);
}

/// The elements of each row; none if a tensor of this shape doesn't fall into such rows, or is empty.
inline std::optional<std::int64_t> width_in(const RowLayout& rows, const Shape& shape) {
  const std::int64_t elements = shape.product();
  if (elements == 0 || rows.count == 0 || elements % rows.count != 0) {
    return std::nullopt;
  }
  const std::int64_t width = elements / rows.count;
  const bool has_rows =
      rows.by_channel() ? has_channels(rows, shape, width) : width == 1 || (shape.rank() > 0 && shape.back() == width);
  return has_rows ? std::optional(width) : std::nullopt;
}

/// Whether it is one element for each channel.
inline bool is_of_channels(const RowLayout& rows, const Shape& shape) {
  return rows.by_channel() && width_in(rows, shape) == 1;
}

/// Whether an elementwise op with this result reads from each row of the operand for the same row of the result.
inline bool is_read_by_rows(const RowLayout& rows, const Shape& operand, const Shape& result) {
  if (rows.by_channel()) {
    const int added = result.rank() - operand.rank();
    return operand == result ||
           (is_of_channels(rows, operand) && added >= 0 &&
            (rows.count == 1 || channel_axis(rows, operand) + added == channel_axis(rows, result)));
  }
  if (operand.rank() != result.rank()) {
    return false;
  }
  for (int axis = 0; axis < result.rank(); ++axis) {
    if (operand[axis] != result[axis] && !(axis == result.rank() - 1 && operand[axis] == 1)) {
      return false;
    }
  }
  return true;
}

/// The shape of `count` of the rows, with the same rank. `count` is 1 if the shape has no axis for it.
inline Shape some_rows(const Shape& shape, const RowLayout& rows, std::int64_t count) {
  Shape result = shape;
  if (rows.by_channel()) {
    result[channel_axis(rows, shape)] = count;
    return result;
  }
  const bool has_columns = shape.rank() > 0 && shape.product() == rows.count * shape.back();
  const int leading = shape.rank() - (has_columns ? 1 : 0);
  for (int axis = 0; axis < leading; ++axis) {
    result[axis] = axis == leading - 1 ? count : 1;
  }
  return result;
}

}  // namespace diptych::codegen
