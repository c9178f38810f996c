// Poolings over any number of spatial axes. A window is a product of ranges, so the largest element, the sum and the
// number of elements of a volume follow from those of its planes: the last two axes are pooled as the engine's planes,
// each further one as planes of one column.

#include "framework/ops/pooling.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "framework/io/onnx/windows.h"
#include "framework/ops/convolution.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// Windows along one axis.
struct Extent {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;

  bool is_over_half() const { return 2 * std::max(before, after) > kernel; }
  std::int64_t reach() const { return (kernel - 1) * dilation + 1; }
  /// The number of windows; in ceil mode the last one may be cut off, but starts before the padding behind.
  std::int64_t count(std::int64_t length, bool ceil_mode) const {
    const std::int64_t room = length + before + after - reach() + (ceil_mode ? stride - 1 : 0);
    if (room < 0) {
      throw ShapeError(fmt::format("a window of {} in {} elements", reach(), length + before + after));
    }
    const std::int64_t result = room / stride + 1;
    return ceil_mode && (result - 1) * stride >= length + before ? result - 1 : result;
  }
  /// The padding behind that exactly these windows reach.
  std::int64_t reached(std::int64_t length, bool ceil_mode) const {
    return std::max<std::int64_t>((count(length, ceil_mode) - 1) * stride + reach() - length - before, 0);
  }
};

/// Tensors of one shape that are pooled together: elements, and possibly their places.
using Layers = std::vector<Tensor>;

void reshape_all(Layers& layers, const Shape& shape, Location where) {
  for (Tensor& layer : layers) {
    layer = layer.shape() == shape ? layer : reshape(layer, shape, where);
  }
}

/// Calls pool(planes, rows, columns) for the planes of x[N, C, ...], axis by axis.
template <class Pool>
Layers by_planes(Layers layers, const std::vector<Extent>& extents, const Pool& pool, Location where) {
  Shape shape = layers[0].shape();
  const int last = shape.rank() - 1;
  if (extents.size() == 1) {
    reshape_all(layers, {shape[0], shape[1], 1, shape[2]}, where);
    layers = pool(layers, Extent(), extents[0]);
    shape[2] = layers[0].shape()[3];
    reshape_all(layers, shape, where);
    return layers;
  }
  const auto product = [&](int first, int end) {
    return std::accumulate(shape.begin() + first, shape.begin() + end, std::int64_t{1}, std::multiplies<>());
  };
  reshape_all(layers, {shape[0], product(1, last - 1), shape[last - 1], shape[last]}, where);
  layers = pool(layers, extents[extents.size() - 2], extents.back());
  shape[last - 1] = layers[0].shape()[2];
  shape[last] = layers[0].shape()[3];
  for (int axis = last - 2; axis >= 2; --axis) {
    reshape_all(layers, {shape[0], product(1, axis), shape[axis], product(axis + 1, last + 1)}, where);
    layers = pool(layers, extents[static_cast<std::size_t>(axis - 2)], Extent());
    shape[axis] = layers[0].shape()[2];
  }
  reshape_all(layers, shape, where);
  return layers;
}

PoolOptions options_of(const Extent& rows, const Extent& columns, bool ceil_mode, bool counts_padding) {
  return {{rows.stride, columns.stride},
          {rows.before, rows.after, columns.before, columns.after},
          {rows.dilation, columns.dilation},
          ceil_mode,
          counts_padding};
}

/// Adds what the windows reach, and changes the extents to match.
Tensor padded(const Tensor& x, Extent& rows, Extent& columns, bool ceil_mode, double value, Location where) {
  const std::int64_t below = rows.reached(x.shape()[2], ceil_mode);
  const std::int64_t right = columns.reached(x.shape()[3], ceil_mode);
  const Shape& s = x.shape();
  checked_shape(List{s[0], s[1], s[2] + rows.before + below, s[3] + columns.before + right}, x.dtype());
  const Tensor result =
      pad(x, {{}, {}, {rows.before, below}, {columns.before, right}}, PadMode::constant, value, where);
  rows.before = rows.after = columns.before = columns.after = 0;
  return result;
}

/// The largest elements and, of a second layer, the elements at their places. The engine's padding is at most half a
/// window; beyond that the input is padded first.
Layers largest(Layers layers, Extent rows, Extent columns, bool ceil_mode, Location where) {
  if (rows.is_over_half() || columns.is_over_half()) {
    const Extent given_rows = rows;
    const Extent given_columns = columns;
    for (Tensor& layer : layers) {
      rows = given_rows;
      columns = given_columns;
      layer = padded(layer, rows, columns, ceil_mode, -std::numeric_limits<double>::infinity(), where);
    }
    ceil_mode = false;
  }
  const Dims kernel{rows.kernel, columns.kernel};
  const PoolOptions options = options_of(rows, columns, ceil_mode, false);
  Layers result{max_pool2d(layers[0], kernel, options, where)};
  if (layers.size() > 1) {
    result.push_back(max_pool2d_gather(layers[0], layers[1], kernel, options, where));
  }
  return result;
}

/// Sums over windows of x[N, C, H, W], with zeros around.
Tensor sums(const Tensor& x, Extent rows, Extent columns, bool ceil_mode, Location where) {
  const Shape& s = x.shape();
  const Tensor planes = reshape(x, {s[0] * s[1], 1, s[2], s[3]}, where);
  const Tensor wide = padded(planes, rows, columns, ceil_mode, 0, where);
  checked_shape(List{rows.kernel, columns.kernel}, x.dtype());
  const Tensor y = conv2d(wide, full({1, 1, rows.kernel, columns.kernel}, 1, x.dtype(), where), {},
                          {{rows.stride, columns.stride}, {0}, {rows.dilation, columns.dilation}, 1}, where);
  return reshape(y, {s[0], s[1], y.shape()[2], y.shape()[3]}, where);
}

/// How many elements each window holds: [1, 1, H', W'], from types alone.
Tensor counts(const Tensor& x, const Extent& rows, const Extent& columns, bool ceil_mode, bool counts_padding,
              Location where) {
  const KnownScope scope(true);
  const auto along = [&](std::int64_t length, const Extent& extent) {
    std::vector<double> found;
    for (std::int64_t i = 0; i < extent.count(length, ceil_mode); ++i) {
      const std::int64_t start = i * extent.stride - extent.before;
      const std::int64_t first = counts_padding ? -extent.before : 0;
      const std::int64_t end = counts_padding ? length + extent.after : length;
      const auto taps_before = [&](std::int64_t place) {  // those that lie before a place
        const std::int64_t steps = place <= start ? 0 : (place - start - 1) / extent.dilation + 1;
        return std::min(steps, extent.kernel);
      };
      found.push_back(static_cast<double>(std::max<std::int64_t>(taps_before(end) - taps_before(first), 1)));
    }
    return found;
  };
  const std::vector<double> down = along(x.shape()[2], rows);
  const std::vector<double> across = along(x.shape()[3], columns);
  const Tensor column = Tensor::from(down, {1, 1, static_cast<std::int64_t>(down.size()), 1});
  const Tensor row = Tensor::from(across, {1, 1, 1, static_cast<std::int64_t>(across.size())});
  return cast(mul(column, row, where), x.dtype(), where);
}

Tensor averages(const Tensor& x, const Extent& rows, const Extent& columns, bool ceil_mode, bool counts_padding,
                Location where) {
  const bool is_plain = rows.dilation == 1 && columns.dilation == 1 && !rows.is_over_half() && !columns.is_over_half();
  if (is_plain) {
    return avg_pool2d(x, {rows.kernel, columns.kernel}, options_of(rows, columns, ceil_mode, counts_padding), where);
  }
  return div(sums(x, rows, columns, ceil_mode, where), counts(x, rows, columns, ceil_mode, counts_padding, where),
             where);
}

std::vector<Extent> extents_of(const Windows& windows, const Tensor& x) {
  const int axes = x.rank() - 2;
  if (axes < 1) {
    throw ShapeError(fmt::format("{} has no spatial axis", to_string(x.type())));
  }
  windows.check(axes);
  if (static_cast<int>(windows.kernel.size()) != axes) {
    throw ShapeError("it has no kernel_shape for each spatial axis");
  }
  const Dims padding = windows.padding(x.shape(), windows.kernel);
  std::vector<Extent> result;
  for (int axis = 0; axis < axes; ++axis) {
    if (padding[2 * axis] < 0 || padding[2 * axis + 1] < 0) {
      throw ShapeError("a padding below 0");
    }
    result.push_back({windows.kernel[static_cast<std::size_t>(axis)], windows.stride(axis), windows.dilation(axis),
                      padding[2 * axis], padding[2 * axis + 1]});
  }
  return result;
}

/// Each element's place in its tensor, row by row or column by column, as f64: exact up to 2^53.
Tensor places_of(const Shape& shape, bool by_column, Location where) {
  const Tensor numbers = arange(static_cast<double>(shape.product()), DType::float64, where);
  if (!by_column) {
    return reshape(numbers, shape, where);
  }
  Shape turned{shape[0], shape[1]};
  Axes order{0, 1};
  for (int axis = shape.rank() - 1; axis >= 2; --axis) {
    turned.push_back(shape[axis]);
    order.push_back(axis);
  }
  return permute(reshape(numbers, turned, where), order, where);
}

Translation max_pooling(NodeView& node) {
  const Windows windows(node);
  const bool ceil_mode = node.opset() >= 10 && node.integer("ceil_mode", 0) != 0;
  const bool by_column = node.integer("storage_order", 0) != 0;
  const bool wants_places = node.wants_output(1);
  node.check_inputs(1, 1);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const std::vector<Extent> extents = extents_of(windows, x);
    const auto pool = [&](const Layers& layers, const Extent& rows, const Extent& columns) {
      return largest(layers, rows, columns, ceil_mode, where);
    };
    if (is_floating(x.dtype())) {
      out[0].tensor = by_planes({x}, extents, pool, where)[0];
    } else {  // the types of MaxPool are narrow enough
      out[0].tensor = cast(by_planes({cast(x, DType::float64, where)}, extents, pool, where)[0], x.dtype(), where);
    }
    if (wants_places) {
      const Tensor wide = stop_gradient(cast(x, DType::float64, where), where);
      const Layers found = by_planes({wide, places_of(x.shape(), by_column, where)}, extents, pool, where);
      out[1].tensor = cast(found[1], DType::int64, where);
    }
  }};
}

Translation average_pooling(NodeView& node) {
  const Windows windows(node);
  const bool ceil_mode = node.opset() >= 10 && node.integer("ceil_mode", 0) != 0;
  const bool counts_padding = node.integer("count_include_pad", 0) != 0;
  return unary(node, [=](const Tensor& x, Location where) {
    const auto pool = [&](const Layers& layers, const Extent& rows, const Extent& columns) {
      return Layers{averages(layers[0], rows, columns, ceil_mode, counts_padding, where)};
    };
    return by_planes({x}, extents_of(windows, x), pool, where)[0];
  });
}

/// The p-th root of a sum of powers; where that is 0, so is the gradient.
Tensor root(const Tensor& total, double p, Location location) {
  if (p == 1) {
    return total;
  }
  const Tensor zero = scalar_like(total, 0, location);
  const Tensor is_zero = equal(total, zero, location);
  const Tensor filled = where(is_zero, scalar_like(total, 1, location), total, location);
  return where(is_zero, zero, pow(filled, Term(1 / p, location)), location);
}

Translation norm_pooling(NodeView& node) {
  const Windows windows(node);
  const bool ceil_mode = node.integer("ceil_mode", 0) != 0;
  const auto p = static_cast<double>(node.integer("p", 2));
  if (p < 1) {
    node.malformed("its p is below 1");
  }
  return unary(node, [=](const Tensor& x, Location where) {
    const auto pool = [&](const Layers& layers, const Extent& rows, const Extent& columns) {
      return Layers{sums(layers[0], rows, columns, ceil_mode, where)};
    };
    const Tensor magnitude = abs(x, where);
    const Tensor powers = p == 1 ? magnitude : pow(magnitude, Term(p, where));
    return root(by_planes({powers}, extents_of(windows, x), pool, where)[0], p, where);
  });
}

Translation global_norm(NodeView& node) {
  const auto p = static_cast<double>(node.integer("p", 2));
  return unary(node, [p](const Tensor& x, Location where) {
    Axes axes;
    for (int axis = 2; axis < x.rank(); ++axis) {
      axes.push_back(axis);
    }
    return axes.empty() ? abs(x, where) : norm(x, p, axes, true, where);
  });
}

/// x's elements at their places in zeros. A given shape is that of the result; places count in the shape that follows
/// from the windows.
Translation unpooling(NodeView& node) {
  const Windows windows(node);
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const std::vector<Extent> extents = extents_of(windows, x);
            List shape{x.shape()[0], x.shape()[1]};
            for (std::size_t axis = 0; axis < extents.size(); ++axis) {
              const Extent& e = extents[axis];
              shape.push_back((x.shape()[static_cast<int>(axis) + 2] - 1) * e.stride + e.kernel - e.before - e.after);
            }
            const Shape own = checked_shape(shape, x.dtype());
            const Tensor flat =
                scatter(full({own.product()}, 0, x.dtype(), where), 0,
                        reshape(in[1].tensor, {in[1].tensor.numel()}, where), reshape(x, {x.numel()}, where), where);
            Tensor y = reshape(flat, own, where);
            if (optional_input(in, 2).defined()) {
              const List wanted = host_integers(in[2].tensor);
              checked_shape(wanted, x.dtype());
              std::vector<PadWidth> widths;
              for (int axis = 0; axis < own.rank(); ++axis) {
                const std::int64_t more = static_cast<int>(wanted.size()) == own.rank()
                                              ? wanted[static_cast<std::size_t>(axis)] - own[axis]
                                              : -1;
                if (more < 0) {
                  throw ShapeError(fmt::format("an output_shape that is below {}", to_string(y.type())));
                }
                widths.push_back({0, more});
              }
              y = pad(y, widths, PadMode::constant, 0, where);
            }
            out[0].tensor = y;
          },
          {2}};
}

}  // namespace

void add_pooling(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&)) {
    all.push_back({name, first, kNewestOpset, translate});
  };
  op("AveragePool", 1, average_pooling);
  op("GlobalLpPool", 2, global_norm);
  op("LpPool", 2, norm_pooling);
  op("MaxPool", 1, max_pooling);
  op("MaxUnpool", 9, unpooling);
}

}  // namespace diptych::onnx
