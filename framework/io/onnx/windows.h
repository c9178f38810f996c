#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"

/// Shared by convolutions and poolings.
namespace diptych::onnx {

using List = std::vector<std::int64_t>;

/// The positions of windows along the spatial axes, as a node specifies them.
struct Windows {
  /// The upper limit for strides, widths and lengths of a window: products of two of them with a tensor's length don't
  /// overflow.
  static constexpr std::int64_t kFar = std::int64_t{1} << 24;

  List kernel, strides, dilations, pads;
  std::string auto_pad;
  bool ceil_mode = false;

  explicit Windows(NodeView& node)
      : kernel(node.integers("kernel_shape").value_or(List())),
        strides(node.integers("strides").value_or(List())),
        dilations(node.integers("dilations").value_or(List())),
        pads(node.integers("pads").value_or(List())),
        auto_pad(node.text("auto_pad", "NOTSET")) {
    if (auto_pad != "NOTSET" && auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") {
      node.malformed("its auto_pad isn't one of ONNX's");
    }
  }

  static std::int64_t entry(const List& list, int axis, std::int64_t otherwise) {
    return static_cast<std::size_t>(axis) < list.size() ? list[static_cast<std::size_t>(axis)] : otherwise;
  }
  std::int64_t stride(int axis) const { return entry(strides, axis, 1); }
  std::int64_t dilation(int axis) const { return entry(dilations, axis, 1); }

  /// Throws ShapeError for a list whose length isn't the number of spatial axes, and for invalid windows.
  void check(int axes) const {
    for (const List* list : {&kernel, &strides, &dilations}) {
      check_list(*list, axes, 1);
    }
    check_list(pads, 2 * axes, -kFar);
  }
  static void check_list(const List& list, int length, std::int64_t least) {
    if (!list.empty() && static_cast<int>(list.size()) != length) {
      throw ShapeError(fmt::format("{} numbers in a list of its windows, not {}", list.size(), length));
    }
    for (const std::int64_t value : list) {
      if (value < least || value > kFar) {
        throw ShapeError(fmt::format("{} in a list of its windows", value));
      }
    }
  }

  /// Before and after, axis by axis, in the engine's order.
  Dims padding(const Shape& x, const List& kernel_lengths) const {
    const int axes = x.rank() - 2;
    Dims result;
    for (int axis = 0; axis < axes; ++axis) {
      std::int64_t before = entry(pads, axis, 0);
      std::int64_t after = entry(pads, axis + axes, 0);
      if (auto_pad == "VALID") {
        before = after = 0;
      } else if (auto_pad != "NOTSET") {
        const std::int64_t length = x[axis + 2];
        const std::int64_t outputs = (length + stride(axis) - 1) / stride(axis);
        const std::int64_t reach = (kernel_lengths[static_cast<std::size_t>(axis)] - 1) * dilation(axis) + 1;
        const std::int64_t total = std::max<std::int64_t>((outputs - 1) * stride(axis) + reach - length, 0);
        before = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
        after = total - before;
      }
      result.push_back(before);
      result.push_back(after);
    }
    return result;
  }
};

}  // namespace diptych::onnx
