// Reading between the elements of an image: GridSample and RoiAlign, as gathers of neighbours and sums of their shares.
// AffineGrid says where.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/matmul.h"
#include "framework/ops/normalise_indices.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

enum class Padding : std::uint8_t { zeros, border, reflection };
enum class Sampling : std::uint8_t { nearest, linear, cubic };

Tensor between(const Tensor& x, double low, double high, Location where) {
  return minimum(maximum(x, scalar_like(x, low, where), where), scalar_like(x, high, where), where);
}

/// Mirrored at the two ends as often as it takes.
Tensor reflected(const Tensor& x, double low, double high, Location location) {
  const double range = high - low;
  if (range <= 0) {
    return times(x, 0, location);
  }
  const Tensor along = remainder(plus(x, -low, location), scalar_like(x, 2 * range, location), location);
  const Tensor back = add(neg(along, location), scalar_like(x, 2 * range, location), location);
  return plus(minimum(along, back, location), low, location);
}

/// A neighbour along one axis: which element, and its share. Both have the shape of the coordinates.
struct Tap {
  Tensor index;  ///< i64, inside the axis
  Tensor share;
};

/// One axis of the image, and how it is read.
struct ImageAxis {
  std::int64_t length = 0;
  double low = 0;  ///< the borders at which coordinates are reflected
  double high = 0;
  Padding padding = Padding::zeros;

  /// The element at a whole coordinate, as the padding says; outside of it a share of 0, also for NaN.
  Tap tap(const Tensor& whole, const Tensor& share, Location location) const {
    const auto end = static_cast<double>(length - 1);
    Tensor place = whole;
    if (padding == Padding::border) {
      place = between(whole, 0, end, location);
    } else if (padding == Padding::reflection) {
      place = between(round(reflected(whole, low, high, location), location), 0, end, location);
    }
    const Tensor zero = scalar_like(place, 0, location);
    const Tensor is_inside = logical_and(greater_equal(place, zero, location),
                                         less_equal(place, scalar_like(place, end, location), location), location);
    return {cast(where(is_inside, place, zero, location), DType::int64, location),
            where(is_inside, share, scalar_like(share, 0, location), location)};
  }
};

/// The convolution kernel of [Keys 1981] with a = -0.75, at a distance below 1 and one from 1 to 2.
Tensor cubic_near(const Tensor& d, Location where) {
  constexpr double a = -0.75;
  const Tensor squared = mul(d, d, where);
  return plus(mul(squared, plus(times(d, a + 2, where), -(a + 3), where), where), 1, where);
}
Tensor cubic_far(const Tensor& d, Location where) {
  constexpr double a = -0.75;
  const Tensor inner = plus(mul(plus(times(d, a, where), -5 * a, where), d, where), 8 * a, where);
  return plus(mul(inner, d, where), -4 * a, where);
}

std::vector<Tap> taps_of(const Tensor& coordinate, const ImageAxis& axis, Sampling sampling, Location where) {
  if (sampling == Sampling::nearest) {
    const Tensor whole = round(coordinate, where);
    return {axis.tap(whole, full(whole.shape(), 1, whole.dtype(), where), where)};
  }
  const Tensor whole = stop_gradient(floor(coordinate, where), where);
  const Tensor part = sub(coordinate, whole, where);
  const Tensor rest = add(neg(part, where), scalar_like(part, 1, where), where);
  if (sampling == Sampling::linear) {
    return {axis.tap(whole, rest, where), axis.tap(plus(whole, 1, where), part, where)};
  }
  return {axis.tap(plus(whole, -1, where), cubic_far(plus(part, 1, where), where), where),
          axis.tap(whole, cubic_near(part, where), where),
          axis.tap(plus(whole, 1, where), cubic_near(rest, where), where),
          axis.tap(plus(whole, 2, where), cubic_far(plus(rest, 1, where), where), where)};
}

/// The sum over all combinations of the axes' taps: index and share of each go to `add_term`.
template <class AddTerm>
void for_each_neighbour(const std::vector<std::vector<Tap>>& taps, const std::vector<std::int64_t>& lengths,
                        std::size_t axis, const Tap& so_far, const AddTerm& add_term, Location where) {
  if (axis == taps.size()) {
    add_term(so_far);
    return;
  }
  for (const Tap& tap : taps[axis]) {
    Tap next = tap;
    if (so_far.index.defined()) {
      const Tensor length = scalar_like(tap.index, static_cast<double>(lengths[axis]), where);
      next = {add(mul(so_far.index, length, where), tap.index, where), mul(so_far.share, tap.share, where)};
    }
    for_each_neighbour(taps, lengths, axis + 1, next, add_term, where);
  }
}

/// From [-1, 1] to places in an axis.
Tensor in_elements(const Tensor& x, std::int64_t length, bool aligned, Location where) {
  const auto n = static_cast<double>(length);
  return aligned ? times(plus(x, 1, where), (n - 1) / 2, where)
                 : times(plus(times(plus(x, 1, where), n, where), -1, where), 0.5, where);
}

/// What lies outside of the borders is moved inside before it is sampled. A cubic's neighbours are each clamped to the
/// border (ImageAxis::tap), so that their shares are those of the place itself; far outside, where all of them are the
/// border, any place will do.
Tensor moved_inside(const Tensor& x, const ImageAxis& axis, Sampling sampling, Location location) {
  if (axis.padding == Padding::zeros) {
    return x;
  }
  if (axis.padding == Padding::border && sampling == Sampling::cubic) {
    return between(x, -3, static_cast<double>(axis.length + 2), location);
  }
  const Tensor inside = axis.padding == Padding::border ? between(x, 0, static_cast<double>(axis.length - 1), location)
                                                        : reflected(x, axis.low, axis.high, location);
  const Tensor is_outside = logical_or(less(x, scalar_like(x, axis.low, location), location),
                                       greater(x, scalar_like(x, axis.high, location), location), location);
  return where(is_outside, inside, x, location);
}

template <class T>
T named(NodeView& node, const char* attribute, const char* otherwise,
        std::initializer_list<std::pair<const char*, T>> names) {
  const std::string text = node.text(attribute, otherwise);
  for (const auto& [name, value] : names) {
    if (text == name) {
      return value;
    }
  }
  node.malformed(fmt::format("its {} isn't one of ONNX's", attribute));
}

/// x[N, C, spatial...], grid[N, places..., axes] with the last axis first -> [N, C, places...]
Translation grid_sample(NodeView& node) {
  const bool aligned = node.integer("align_corners", 0) != 0;
  const auto sampling = named<Sampling>(node, "mode", node.opset() < 20 ? "bilinear" : "linear",
                                        {{"nearest", Sampling::nearest},
                                         {"bilinear", Sampling::linear},
                                         {"linear", Sampling::linear},
                                         {"bicubic", Sampling::cubic},
                                         {"cubic", Sampling::cubic}});
  const auto padding =
      named<Padding>(node, "padding_mode", "zeros",
                     {{"zeros", Padding::zeros}, {"border", Padding::border}, {"reflection", Padding::reflection}});
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const Tensor grid = cast(in[1].tensor, is_floating(x.dtype()) ? x.dtype() : DType::float32, where);
    const int axes = x.rank() - 2;
    if (axes < 1 || axes > 3 || grid.rank() != x.rank() || grid.shape().back() != axes ||
        grid.shape()[0] != x.shape()[0] || x.numel() == 0) {
      throw ShapeError(fmt::format("{} at {}", to_string(x.type()), to_string(in[1].tensor.type())));
    }
    const std::int64_t batch = x.shape()[0];
    const std::int64_t channels = x.shape()[1];
    const std::int64_t places = grid.numel() / axes / batch;
    checked_shape(std::vector{batch, channels, places}, DType::int64);
    std::vector<std::int64_t> lengths;
    std::vector<std::vector<Tap>> taps;
    std::int64_t elements = 1;
    for (int i = 0; i < axes; ++i) {
      const std::int64_t length = x.shape()[i + 2];
      const ImageAxis axis{length, aligned ? 0 : -0.5, static_cast<double>(length) - (aligned ? 1 : 0.5), padding};
      lengths.push_back(length);
      elements *= length;
      const Tensor given = reshape(select(grid, axes + 1, axes - 1 - i, where), {batch, 1, places}, where);
      Tensor coordinate = in_elements(given, length, aligned, where);
      coordinate = sampling == Sampling::nearest ? round(coordinate, where) : coordinate;
      taps.push_back(taps_of(moved_inside(coordinate, axis, sampling, where), axis, sampling, where));
    }
    const Tensor flat = reshape(x, {batch, channels, elements}, where);
    Tensor total;
    const auto add_term = [&](const Tap& tap) {
      const Tensor index = contiguous(expand(tap.index, {batch, channels, places}, where), where);
      const Tensor part = mul(gather(flat, 2, index, where), cast(tap.share, x.dtype(), where), where);
      total = total.defined() ? add(total, part, where) : part;
    };
    for_each_neighbour(taps, lengths, 0, {}, add_term, where);
    Shape shape{batch, channels};
    for (int i = 1; i <= axes; ++i) {
      shape.push_back(grid.shape()[i]);
    }
    out[0].tensor = reshape(total, shape, where);
  }};
}

/// The places of the elements of one axis in [-1, 1], which are the centres of the outer elements, or their borders.
std::vector<double> spread(std::int64_t length, bool aligned) {
  std::vector<double> places;
  const auto n = static_cast<double>(length);
  for (std::int64_t i = 0; i < length; ++i) {
    const double middle = 2 * static_cast<double>(i) - (n - 1);
    places.push_back(middle / (aligned ? std::max(n - 1, 1.0) : n));
  }
  return places;
}

/// x, y, [z,] 1 of each place of an image of that size: the last axis comes first.
std::vector<double> homogeneous_points(const std::vector<std::int64_t>& size, std::int64_t places, bool aligned) {
  std::vector<std::vector<double>> along;
  for (std::size_t axis = 0; axis < size.size(); ++axis) {  // batch and channels have no places
    along.push_back(axis < 2 ? std::vector<double>() : spread(size[axis], aligned));
  }
  std::vector<double> points;
  for (std::int64_t place = 0; place < places; ++place) {
    std::int64_t rest = place;
    for (std::size_t axis = size.size(); axis-- > 2;) {
      points.push_back(along[axis][static_cast<std::size_t>(rest % size[axis])]);
      rest /= size[axis];
    }
    points.push_back(1);
  }
  return points;
}

/// theta[N, axes, axes + 1], size [N, C, spatial...] -> where a GridSample of that size reads: [N, spatial..., axes]
Translation affine_grid(NodeView& node) {
  const bool aligned = node.integer("align_corners", 0) != 0;
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& theta = in[0].tensor;
            const std::vector<std::int64_t> size = host_integers(in[1].tensor);
            const auto axes = static_cast<std::int64_t>(size.size()) - 2;
            if (axes < 2 || axes > 3 || *std::min_element(size.begin(), size.end()) < 1 ||
                theta.shape() != Shape{size[0], axes, axes + 1}) {
              throw ShapeError(fmt::format("{} for {} lengths from 1 on", to_string(theta.type()), size.size()));
            }
            std::vector<std::int64_t> shape(size.begin() + 2, size.end());
            shape.push_back(axes + 1);
            const std::int64_t places = checked_shape(shape, DType::float64).product() / (axes + 1);
            const Tensor points = Tensor::from(homogeneous_points(size, places, aligned), {places, axes + 1});
            const Tensor y = matmul(cast(points, theta.dtype(), where), transpose(theta, 1, 2, where), where);
            shape.back() = axes;
            shape.insert(shape.begin(), size[0]);
            out[0].tensor = reshape(y, checked_shape(shape, theta.dtype()), where);
          },
          {1}};
}

/// Where the bins of each region take their samples along one axis: [R, bins * ratio].
Tensor sample_points(const Tensor& start, const Tensor& length, std::int64_t bins, std::int64_t ratio, Location where) {
  const std::int64_t count = bins * ratio;
  // bin + (sample + 1/2) / ratio = (i + 1/2) / ratio for sample i of all, in units of length / bins
  const Tensor steps = times(plus(arange(static_cast<double>(count), start.dtype(), where), 0.5, where),
                             1 / static_cast<double>(count), where);
  return add(unsqueeze(start, 1, where), mul(unsqueeze(length, 1, where), steps, where), where);
}

/// Linear taps as RoiAlign has them: up to one element outside the border counts, beyond that nothing.
std::vector<Tap> region_taps(const Tensor& x, std::int64_t length, Location location) {
  const Tensor is_near =
      logical_and(greater_equal(x, scalar_like(x, -1, location), location),
                  less_equal(x, scalar_like(x, static_cast<double>(length), location), location), location);
  const ImageAxis axis{length, 0, 0, Padding::border};
  std::vector<Tap> taps =
      taps_of(between(x, 0, static_cast<double>(length - 1), location), axis, Sampling::linear, location);
  for (Tap& tap : taps) {
    tap.share = where(is_near, tap.share, scalar_like(tap.share, 0, location), location);
  }
  return taps;
}

/// x[N, C, H, W], regions[R, 4] as x1, y1, x2, y2, their images[R] -> [R, C, height, width]
Translation region_align(NodeView& node) {
  const std::int64_t height = node.integer("output_height", 1);
  const std::int64_t width = node.integer("output_width", 1);
  const std::int64_t ratio = node.integer("sampling_ratio", 0);
  const double scale = node.real("spatial_scale", 1);
  const bool half_pixel =
      node.opset() >= 16 && node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  if (node.text("mode", "avg") != "avg") {
    node.refuse("the engine has it with the mean of samples alone (mode avg)");
  }
  if (ratio == 0) {
    node.refuse("how many samples a bin has depends on the regions' elements (sampling_ratio is 0)");
  }
  constexpr std::int64_t kFar = std::int64_t{1} << 20;
  if (height < 1 || width < 1 || ratio < 0 || std::max({height, width, ratio}) > kFar) {
    node.malformed("its output size or sampling_ratio is out of range");
  }
  node.check_inputs(3, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const Tensor regions = cast(in[1].tensor, x.dtype(), where);
    if (x.rank() != 4 || regions.rank() != 2 || regions.shape()[1] != 4 ||
        in[2].tensor.shape() != Shape{regions.shape()[0]} || x.numel() == 0) {
      throw ShapeError(fmt::format("{} in regions {}", to_string(x.type()), to_string(in[1].tensor.type())));
    }
    const std::int64_t count = regions.shape()[0];
    const std::int64_t channels = x.shape()[1];
    const std::int64_t rows = x.shape()[2];
    const std::int64_t columns = x.shape()[3];
    checked_shape(std::vector{count, height * ratio, width * ratio, channels}, x.dtype());
    const auto edge = [&](int i) {
      return plus(times(select(regions, 1, i, where), scale, where), half_pixel ? -0.5 : 0, where);
    };
    const auto extent = [&](const Tensor& from, const Tensor& to) {
      const Tensor length = sub(to, from, where);
      return half_pixel ? length : maximum(length, scalar_like(length, 1, where), where);
    };
    const Tensor left = edge(0);
    const Tensor top = edge(1);
    const Tensor y = sample_points(top, extent(top, edge(3)), height, ratio, where);
    const Tensor across = sample_points(left, extent(left, edge(2)), width, ratio, where);
    // Rows of channels: image, row, column.
    const Tensor pixels = reshape(permute(x, {0, 2, 3, 1}, where), {x.shape()[0] * rows * columns, channels}, where);
    const Tensor images = reshape(normalise_indices(in[2].tensor, {x.shape()[0]}, false, where), {count, 1, 1}, where);
    const Tensor first = times(images, static_cast<double>(rows * columns), where);
    Tensor total;
    for (const Tap& down : region_taps(y, rows, where)) {
      for (const Tap& right : region_taps(across, columns, where)) {
        const Tensor row = times(unsqueeze(down.index, 2, where), static_cast<double>(columns), where);
        const Tensor index = add(first, add(row, unsqueeze(right.index, 1, where), where), where);
        const Tensor share = mul(unsqueeze(down.share, 2, where), unsqueeze(right.share, 1, where), where);
        const Tensor part = mul(index_select(pixels, 0, index, where), unsqueeze(share, 3, where), where);
        total = total.defined() ? add(total, part, where) : part;
      }
    }
    const Tensor bins = reshape(total, {count, height, ratio, width, ratio, channels}, where);
    out[0].tensor = permute(mean(bins, {2, 4}, false, where), {0, 3, 1, 2}, where);
  }};
}

}  // namespace

void add_sampling(std::vector<Operator>& all) {
  all.push_back({"AffineGrid", 20, kNewestOpset, affine_grid, "of a known size"});
  all.push_back({"GridSample", 16, kNewestOpset, grid_sample, "1 to 3 spatial axes"});
  all.push_back({"RoiAlign", 10, kNewestOpset, region_align, "the mean, with a sampling_ratio"});
}

}  // namespace diptych::onnx
