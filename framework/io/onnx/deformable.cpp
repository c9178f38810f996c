// Windows taken apart and put together: Col2Im adds columns up to an image, DeformConv reads each element of a window
// where its offset says.

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/io/onnx/windows.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/matmul.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// All combinations of places below `lengths`, the last axis fastest.
template <class Fn>
void for_each_place(const List& lengths, const Fn& fn) {
  List place(lengths.size(), 0);
  const std::int64_t count = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t i = 0; i < count; ++i) {
    fn(place);
    for (std::size_t axis = lengths.size(); axis-- > 0 && ++place[axis] == lengths[axis];) {
      place[axis] = 0;
    }
  }
}

/// columns[N, C * block, L] -> [N, C, image...]: element k of the window at place l is added to where it lies.
Translation columns_to_image(NodeView& node) {
  const List strides = node.integers("strides").value_or(List());
  const List dilations = node.integers("dilations").value_or(List());
  const List pads = node.integers("pads").value_or(List());
  node.check_inputs(3, 3);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& columns = in[0].tensor;
            const List image = host_integers(in[1].tensor);
            const List block = host_integers(in[2].tensor);
            const auto axes = static_cast<int>(image.size());
            Windows::check_list(strides, axes, 1);
            Windows::check_list(dilations, axes, 1);
            Windows::check_list(pads, 2 * axes, 0);
            Windows::check_list(block, axes, 1);
            Windows::check_list(image, axes, 1);
            if (axes < 1 || block.size() != image.size() || columns.rank() != 3) {
              throw ShapeError(fmt::format("{} to an image of {} axes in blocks of {}", to_string(columns.type()), axes,
                                           block.size()));
            }
            List padded;
            List places;
            for (int i = 0; i < axes; ++i) {
              const auto at = static_cast<std::size_t>(i);
              padded.push_back(image[at] + Windows::entry(pads, i, 0) + Windows::entry(pads, i + axes, 0));
              const std::int64_t reach = (block[at] - 1) * Windows::entry(dilations, i, 1) + 1;
              places.push_back(padded[at] < reach ? 0 : (padded[at] - reach) / Windows::entry(strides, i, 1) + 1);
            }
            const std::int64_t elements = checked_shape(block, DType::int64).product();
            const std::int64_t windows = checked_shape(places, DType::int64).product();
            const Shape& given = columns.shape();
            if (given[2] != windows || given[1] % elements != 0) {
              throw ShapeError(
                  fmt::format("{} for {} windows of {} elements", to_string(columns.type()), windows, elements));
            }
            List shape{given[0], given[1] / elements};
            shape.insert(shape.end(), padded.begin(), padded.end());
            const std::int64_t size = checked_shape(padded, columns.dtype()).product();
            checked_shape(shape, columns.dtype());
            List targets;
            for_each_place(block, [&](const List& element) {
              for_each_place(places, [&](const List& window) {
                std::int64_t target = 0;
                for (std::size_t i = 0; i < image.size(); ++i) {
                  const auto axis = static_cast<int>(i);
                  target = target * padded[i] + window[i] * Windows::entry(strides, axis, 1) +
                           element[i] * Windows::entry(dilations, axis, 1);
                }
                targets.push_back(target);
              });
            });
            const Tensor flat = full({shape[0], shape[1], size}, 0, columns.dtype(), where);
            Tensor y = index_add(flat, 2, integers(targets),
                                 reshape(columns, {shape[0], shape[1], elements * windows}, where), where);
            y = reshape(y, Shape(shape), where);
            for (int i = 0; i < axes; ++i) {
              const std::int64_t before = Windows::entry(pads, i, 0);
              y = slice(y, i + 2, before, before + image[static_cast<std::size_t>(i)], 1, where);
            }
            out[0].tensor = contiguous(y, where);
          },
          {1, 2}};
}

/// One axis of where the elements of all windows are read: the whole part, and the rest.
struct Between {
  Tensor below;
  Tensor rest;
};

/// The coordinates along one axis: where the elements of the windows lie, and their offsets[N, G, K, H', W'].
Between coordinates(const Tensor& offsets, const std::vector<double>& places, const Shape& shape, Location where) {
  const Tensor grid = cast(Tensor::from(places, shape), offsets.dtype(), where);
  const Tensor at = add(offsets, grid, where);
  const Tensor below = stop_gradient(floor(at, where), where);
  return {below, sub(at, below, where)};
}

/// x[N, G, C / G, H * W] at a corner of each coordinate, zero outside of the image: [N, G, C / G, K * H' * W'].
Tensor corner_of(const Tensor& x, std::int64_t height, std::int64_t width, const Tensor& row, const Tensor& column,
                 const Tensor& share, Location location) {
  const auto is_in = [&](const Tensor& place, std::int64_t length) {
    return logical_and(greater_equal(place, scalar_like(place, 0, location), location),
                       less(place, scalar_like(place, static_cast<double>(length), location), location), location);
  };
  const Tensor is_inside = logical_and(is_in(row, height), is_in(column, width), location);
  const Tensor zero = scalar_like(row, 0, location);
  const auto whole = [&](const Tensor& place) {
    return cast(where(is_inside, place, zero, location), DType::int64, location);
  };
  const Tensor index = add(times(whole(row), static_cast<double>(width), location), whole(column), location);
  const Shape& s = x.shape();
  const std::int64_t reads = index.shape()[2] * index.shape()[3] * index.shape()[4];
  const Tensor flat = reshape(index, {s[0], s[1], 1, reads}, location);
  const Tensor value = gather(x, 3, contiguous(expand(flat, {s[0], s[1], s[2], reads}, location), location), location);
  const Tensor counted_share = where(is_inside, share, scalar_like(share, 0, location), location);
  return mul(value, reshape(counted_share, {s[0], s[1], 1, reads}, location), location);
}

/// x[N, C, H, W], weight[M, C / groups, kh, kw], offsets[N, G * kh * kw * 2, H', W'] as rows and columns, bias[M],
/// mask[N, G * kh * kw, H', W'] [Dai et al. 2017, Zhu et al. 2019]
Translation deformable_convolution(NodeView& node) {
  const Windows windows(node);
  const std::int64_t groups = node.integer("group", 1);
  const std::int64_t parts = node.integer("offset_group", 1);
  node.check_inputs(3, 5);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const Tensor& weight = in[1].tensor;
    const Tensor& offsets = in[2].tensor;
    if (x.rank() != 4 || weight.rank() != 4 || offsets.rank() != 4) {
      throw Unsupported(fmt::format("the engine has it for two spatial axes, not on {}", to_string(x.type())));
    }
    windows.check(2);
    const Shape& s = x.shape();
    const List kernel{weight.shape()[2], weight.shape()[3]};
    const std::int64_t count = kernel[0] * kernel[1];
    const std::int64_t height = offsets.shape()[2];
    const std::int64_t width = offsets.shape()[3];
    List wanted;
    for (int axis = 0; axis < 2; ++axis) {
      const std::int64_t reach = (kernel[static_cast<std::size_t>(axis)] - 1) * windows.dilation(axis) + 1;
      const std::int64_t padded =
          s[axis + 2] + Windows::entry(windows.pads, axis, 0) + Windows::entry(windows.pads, axis + 2, 0);
      wanted.push_back(padded < reach ? 0 : (padded - reach) / windows.stride(axis) + 1);
    }
    const std::int64_t most = std::max<std::int64_t>(s[1], 1);
    if (groups < 1 || parts < 1 || groups > most || parts > most || s[1] % groups != 0 || s[1] % parts != 0 ||
        weight.shape()[1] * groups != s[1] || weight.shape()[0] % groups != 0 ||
        (!windows.kernel.empty() && windows.kernel != kernel) || wanted != List{height, width} ||
        offsets.shape() != Shape{s[0], parts * count * 2, height, width}) {
      throw ShapeError(
          fmt::format("{} by {} at {}", to_string(x.type()), to_string(weight.type()), to_string(offsets.type())));
    }
    checked_shape(List{s[0], s[1], count, height, width}, DType::int64);
    std::vector<double> rows;
    std::vector<double> columns;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t row = k / kernel[1];
      for (std::int64_t i = 0; i < height; ++i) {
        rows.push_back(static_cast<double>(i * windows.stride(0) - Windows::entry(windows.pads, 0, 0) +
                                           row * windows.dilation(0)));
      }
      for (std::int64_t i = 0; i < width; ++i) {
        columns.push_back(static_cast<double>(i * windows.stride(1) - Windows::entry(windows.pads, 1, 0) +
                                              k % kernel[1] * windows.dilation(1)));
      }
    }
    const Tensor pairs = reshape(offsets, {s[0], parts, count, 2, height, width}, where);
    const Between down = coordinates(select(pairs, 3, 0, where), rows, {count, height, 1}, where);
    const Between right = coordinates(select(pairs, 3, 1, where), columns, {count, 1, width}, where);
    const Tensor image = reshape(x, {s[0], parts, s[1] / parts, s[2] * s[3]}, where);
    const auto rest_of = [&](const Tensor& t) { return plus(neg(t, where), 1, where); };
    Tensor read;
    for (const bool is_lower : {false, true}) {
      for (const bool is_right : {false, true}) {
        const Tensor share =
            mul(is_lower ? down.rest : rest_of(down.rest), is_right ? right.rest : rest_of(right.rest), where);
        const Tensor corner = corner_of(image, s[2], s[3], is_lower ? plus(down.below, 1, where) : down.below,
                                        is_right ? plus(right.below, 1, where) : right.below, share, where);
        read = read.defined() ? add(read, corner, where) : corner;
      }
    }
    if (const Tensor mask = optional_input(in, 4); mask.defined()) {
      read = mul(read, reshape(mask, {s[0], parts, 1, count * height * width}, where), where);
    }
    const std::int64_t terms = s[1] / groups * count;
    const std::int64_t filters = weight.shape()[0];
    const Tensor y = matmul(reshape(weight, {1, groups, filters / groups, terms}, where),
                            reshape(read, {s[0], groups, terms, height * width}, where), where);
    const Tensor bias = optional_input(in, 3);
    const Tensor image_of_filters = reshape(y, {s[0], filters, height, width}, where);
    out[0].tensor =
        bias.defined() ? add(image_of_filters, reshape(bias, {filters, 1, 1}, where), where) : image_of_filters;
  }};
}

}  // namespace

void add_deformable(std::vector<Operator>& all) {
  all.push_back({"Col2Im", 18, kNewestOpset, columns_to_image, "of known shapes"});
  all.push_back({"DeformConv", 19, kNewestOpset, deformable_convolution, "2 spatial axes"});
}

}  // namespace diptych::onnx
