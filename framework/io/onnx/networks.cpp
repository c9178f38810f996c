// Matrix products, convolutions and poolings.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/convolution.h"
#include "framework/ops/creation.h"
#include "framework/ops/einsum.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/matmul.h"
#include "framework/ops/pooling.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

using List = std::vector<std::int64_t>;

Translation product(NodeView& node) {
  return binary(node, [](const Tensor& a, const Tensor& b, Location where) { return matmul(a, b, where); });
}

/// a b + c, as `linear` where c is a bias: one for each column of b.
Tensor product_plus(const Tensor& a, const Tensor& b, const Tensor& c, Location where) {
  const bool is_linear =
      a.rank() >= 2 && b.rank() == 2 && c.shape() == Shape{b.shape().back()} && c.dtype() == a.dtype();
  return is_linear ? linear(a, b, c, where) : add(matmul(a, b, where), c, where);
}

/// alpha A' B' + beta C
Translation gemm(NodeView& node) {
  const double alpha = node.real("alpha", 1);
  const double beta = node.real("beta", 1);
  const bool turn_a = node.integer("transA", 0) != 0;
  const bool turn_b = node.integer("transB", 0) != 0;
  if (node.opset() < 7) {
    node.ignore("broadcast");  // aligned from the right, as in later opsets
  }
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const auto scaled = [&](const Tensor& t, double factor) {
      return factor == 1 ? t : mul(t, scalar_like(t, factor, where), where);
    };
    if (in[0].tensor.rank() != 2 || in[1].tensor.rank() != 2) {
      throw ShapeError(fmt::format("{} by {}", to_string(in[0].tensor.type()), to_string(in[1].tensor.type())));
    }
    const Tensor a = turn_a ? transpose(in[0].tensor, 0, 1, where) : in[0].tensor;
    const Tensor b = turn_b ? transpose(in[1].tensor, 0, 1, where) : in[1].tensor;
    const Tensor c = optional_input(in, 2);
    if (c.defined() && alpha == 1 && beta == 1) {
      out[0].tensor = product_plus(a, b, c, where);
      return;
    }
    const Tensor y = scaled(matmul(a, b, where), alpha);
    out[0].tensor = c.defined() && beta != 0 ? add(y, scaled(c, beta), where) : y;
  }};
}

Translation summation(NodeView& node) {
  std::string equation = node.text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  node.check_inputs(1, NodeView::kAny);
  return {[=](Inputs in, Outputs out, Location where) {
    std::vector<Tensor> operands;
    for (const Value& value : in) {
      operands.push_back(value.tensor);
    }
    try {
      out[0].tensor =
          cast(einsum(equation, operands, where), operands[0].dtype(), where);  // sums of integers have a wider type
    } catch (const ShapeError&) {
      throw;
    } catch (const Error& error) {  // an equation that the engine can't read
      throw Unsupported(error.what());
    }
  }};
}

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

Dims dims_of(int axes, const std::function<std::int64_t(int)>& length) {
  Dims result;
  for (int axis = 0; axis < axes; ++axis) {
    result.push_back(length(axis));
  }
  return result;
}

int spatial_axes(const Tensor& x) {
  const int axes = x.rank() - 2;
  if (axes != 1 && axes != 2) {
    throw Unsupported(fmt::format("the engine has it for 1 and 2 spatial axes, not on {}", to_string(x.type())));
  }
  return axes;
}

List kernel_of(const Tensor& weight) {
  List result;
  for (int axis = 2; axis < weight.rank(); ++axis) {
    result.push_back(weight.shape()[axis]);
  }
  return result;
}

Translation convolution(NodeView& node) {
  const Windows windows(node);
  const std::int64_t groups = node.integer("group", 1);
  if (node.op() == "Conv") {
    node.check_inputs(2, 3);
  }
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const Tensor& weight = in[1].tensor;
    const int axes = spatial_axes(x);
    windows.check(axes);
    if (weight.rank() != x.rank()) {
      throw ShapeError(fmt::format("weight {} for {}", to_string(weight.type()), to_string(x.type())));
    }
    if (!windows.kernel.empty() && windows.kernel != kernel_of(weight)) {
      throw ShapeError(fmt::format("weight {} has another kernel_shape", to_string(weight.type())));
    }
    const ConvolutionOptions options{dims_of(axes, [&](int axis) { return windows.stride(axis); }),
                                     windows.padding(x.shape(), kernel_of(weight)),
                                     dims_of(axes, [&](int axis) { return windows.dilation(axis); }), groups};
    out[0].tensor = axes == 1 ? conv1d(x, weight, optional_input(in, 2), options, where)
                              : conv2d(x, weight, optional_input(in, 2), options, where);
  }};
}

/// The gradient of a convolution with respect to its input.
Translation transposed_convolution(NodeView& node) {
  const Windows windows(node);
  const std::int64_t groups = node.integer("group", 1);
  const List extra = node.integers("output_padding").value_or(List());
  const List wanted = node.integers("output_shape").value_or(List());
  const bool old = node.opset() < 11;
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const int axes = spatial_axes(in[0].tensor);
    windows.check(axes);
    Windows::check_list(extra, axes, 0);
    // Older exporters wrote the whole shape.
    const auto lead = static_cast<int>(wanted.size()) == axes + 2 ? std::size_t{2} : std::size_t{0};
    Windows::check_list(List(wanted.begin() + static_cast<std::ptrdiff_t>(std::min(lead, wanted.size())), wanted.end()),
                        axes, 0);
    Tensor x = in[0].tensor;
    Tensor weight = in[1].tensor;
    if (weight.rank() != x.rank() || groups < 1) {
      throw ShapeError(fmt::format("weight {} for {}", to_string(weight.type()), to_string(x.type())));
    }
    Dims padding;
    Dims lengths;
    for (int axis = 0; axis < axes; ++axis) {
      const std::int64_t reach = (weight.shape()[axis + 2] - 1) * windows.dilation(axis) + 1;
      const std::int64_t full_length =
          windows.stride(axis) * (x.shape()[axis + 2] - 1) + Windows::entry(extra, axis, 0) + reach;
      std::int64_t before = Windows::entry(windows.pads, axis, 0);
      std::int64_t after = Windows::entry(windows.pads, axis + axes, 0);
      const bool same = windows.auto_pad.starts_with("SAME");
      if (!wanted.empty() || same) {
        const std::int64_t length =
            wanted.empty() ? x.shape()[axis + 2] * windows.stride(axis) : wanted[lead + static_cast<std::size_t>(axis)];
        const std::int64_t total = std::max<std::int64_t>(full_length - length, 0);
        if (old && total % 2 != 0) {
          throw Unsupported("opsets below 11 don't say on which side an odd padding is longer");
        }
        before = windows.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
        after = total - before;
        lengths.push_back(length);
      } else {
        lengths.push_back(full_length - before - after);
      }
      padding.push_back(before);
      padding.push_back(after);
    }
    ConvolutionOptions options{dims_of(axes, [&](int axis) { return windows.stride(axis); }), padding,
                               dims_of(axes, [&](int axis) { return windows.dilation(axis); }), groups};
    const std::int64_t channels = weight.shape()[1] * groups;
    if (axes == 1) {  // a plane of one row
      x = unsqueeze(x, 2, where);
      weight = unsqueeze(weight, 2, where);
      lengths = {1, lengths[0]};
      options.stride = {1, options.stride[0]};
      options.dilation = {1, options.dilation[0]};
      options.padding = {0, 0, options.padding[0], options.padding[1]};
    }
    checked_shape(List{x.shape()[0], channels, lengths[0], lengths[1]}, x.dtype());
    Tensor y = conv2d_input_gradient(x, weight, lengths, options, where);
    if (axes == 1) {
      y = squeeze(y, 2, where);
    }
    if (const Tensor bias = optional_input(in, 2); bias.defined()) {
      Shape per_channel = Shape::filled(axes + 1, 1);
      per_channel[0] = channels;
      y = add(y, reshape(bias, per_channel, where), where);
    }
    out[0].tensor = y;
  }};
}

bool is_over_half(const Dims& padding, const List& kernel) {
  for (int i = 0; i < padding.rank(); ++i) {
    if (2 * padding[i] > kernel[static_cast<std::size_t>(i / 2)]) {
      return true;
    }
  }
  return false;
}

template <bool largest>
Translation pooling(NodeView& node) {
  const Windows windows(node);
  const bool ceil_mode = node.opset() >= 10 && node.integer("ceil_mode", 0) != 0;
  const bool counts_padding = !largest && node.integer("count_include_pad", 0) != 0;
  if (largest) {
    node.ignore("storage_order");  // only affects the indices
    if (node.wants_output(1)) {
      node.refuse("the engine doesn't give the indices of the largest elements");
    }
  }
  node.check_inputs(1, 1);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const int axes = spatial_axes(x);
    windows.check(axes);
    if (static_cast<int>(windows.kernel.size()) != axes) {
      throw ShapeError("it has no kernel_shape for each spatial axis");
    }
    Dims padding = windows.padding(x.shape(), windows.kernel);
    Tensor x_in = x;
    if (is_over_half(padding, windows.kernel)) {
      if (ceil_mode) {
        throw Unsupported("its padding is over half of the window, and its last window may be cut off (ceil_mode)");
      }
      // The engine's padding is at most half a window; beyond that the input is padded first.
      if (!largest && !counts_padding) {
        throw Unsupported("its padding is over half of the window, and doesn't count");
      }
      std::vector<PadWidth> widths(2);
      for (int axis = 0; axis < axes; ++axis) {
        widths.push_back({padding[2 * axis], padding[2 * axis + 1]});
      }
      x_in = pad(x, widths, PadMode::constant, largest ? -std::numeric_limits<double>::infinity() : 0, where);
      padding = Dims::filled(2 * axes, 0);
    }
    const Dims kernel{std::span<const std::int64_t>(windows.kernel)};
    PoolOptions options{dims_of(axes, [&](int axis) { return windows.stride(axis); }), padding,
                        dims_of(axes, [&](int axis) { return windows.dilation(axis); }), ceil_mode, counts_padding};
    const bool dilated = std::any_of(options.dilation.begin(), options.dilation.end(), [](auto d) { return d != 1; });
    if (!largest && dilated) {
      throw Unsupported("the engine has no dilated average pooling");
    }
    if (largest) {
      out[0].tensor = axes == 1 ? max_pool1d(x_in, kernel, options, where) : max_pool2d(x_in, kernel, options, where);
    } else {
      out[0].tensor = axes == 1 ? avg_pool1d(x_in, kernel, options, where) : avg_pool2d(x_in, kernel, options, where);
    }
  }};
}

template <Tensor (*op)(const Tensor&, const Axes&, bool, Location)>
Translation over_space(NodeView& node) {
  return unary(node, [](const Tensor& x, Location where) {
    Axes axes;
    for (int axis = 2; axis < x.rank(); ++axis) {
      axes.push_back(axis);
    }
    return axes.empty() ? x : op(x, axes, true, where);
  });
}

}  // namespace

Translation convolution_of_two(NodeView& node) { return convolution(node); }

Translation product_with_bias() {
  return {[](Inputs in, Outputs out, Location where) {
    out[0].tensor = product_plus(in[0].tensor, in[1].tensor, in[2].tensor, where);
  }};
}

void add_networks(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&), const char* limits = "") {
    all.push_back({name, first, kNewestOpset, translate, limits});
  };
  op("AveragePool", 1, pooling<false>, "1 and 2 spatial axes, not dilated");
  op("Conv", 1, convolution, "1 and 2 spatial axes");
  op("ConvTranspose", 1, transposed_convolution, "1 and 2 spatial axes");
  op("Einsum", 12, summation, "no letter twice in one operand");
  op("Gemm", 1, gemm);
  op("GlobalAveragePool", 1, over_space<mean>);
  op("GlobalMaxPool", 1, over_space<max>);
  op("MatMul", 1, product, "floats");
  op("MaxPool", 1, pooling<true>, "1 and 2 spatial axes, floats, no indices");
}

}  // namespace diptych::onnx
