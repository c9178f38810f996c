// Resize and Upsample: one axis after the other, each a selection or a weighted sum of rows. CenterCropPad.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

using List = std::vector<std::int64_t>;

/// The attributes of a node.
struct Style {
  std::string mode;       ///< nearest, linear, cubic
  std::string transform;  ///< the coordinate transformation
  std::string nearest;
  double cubic = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double outside = 0;  ///< value outside, for tf_crop_and_resize
};

/// The resizing of one axis.
struct Axis {
  std::int64_t from = 0;
  std::int64_t to = 0;
  double scale = 1;
  double start = 0, end = 1;  ///< the region, for tf_crop_and_resize
};

/// The position of output i among the inputs [onnx/onnx, docs/Operators.md "Resize"].
double source(const Axis& axis, const std::string& transform, std::int64_t i) {
  const auto x = static_cast<double>(i);
  const auto from = static_cast<double>(axis.from);
  const double to = axis.scale * from;  // not rounded, as in the recorded results
  if (transform == "align_corners") {
    return to == 1 ? 0 : x * (from - 1) / (to - 1);
  }
  if (transform == "asymmetric") {
    return x / axis.scale;
  }
  if (transform == "tf_half_pixel_for_nn") {
    return (x + 0.5) / axis.scale;
  }
  if (transform == "pytorch_half_pixel" && axis.to <= 1) {
    return 0;
  }
  if (transform == "tf_crop_and_resize") {
    return to > 1 ? axis.start * (from - 1) + x * (axis.end - axis.start) * (from - 1) / (to - 1)
                  : 0.5 * (axis.start + axis.end) * (from - 1);
  }
  if (transform == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(axis.to) / (axis.scale * from);
    return from / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5;
  }
  return (x + 0.5) / axis.scale - 0.5;
}

double nearest_of(double x, const std::string& rule) {
  if (rule == "floor") {
    return std::floor(x);
  }
  if (rule == "ceil") {
    return std::ceil(x);
  }
  const double below = std::floor(x);
  if (x - below == 0.5) {
    return rule == "round_prefer_ceil" ? below + 1 : below;
  }
  return std::round(x);
}

/// The filter of a mode, at a distance from the point.
double filter(double distance, const Style& style) {
  const double t = std::fabs(distance);
  if (style.mode == "linear") {
    return std::max(1 - t, 0.0);
  }
  const double a = style.cubic;
  return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/// The inputs that a point is made of: how many before floor(x), and how many in all. Where it smooths what it makes
/// smaller, the filter is stretched.
struct Reach {
  std::int64_t before = 0;
  std::size_t taps = 0;
  double stretch = 1;  ///< a distance of 1 to an input is one of `stretch` to the filter
};

Reach reach_of(const Axis& axis, const Style& style) {
  const double half = style.mode == "cubic" ? 2 : 1;
  const double stretch = style.antialias ? std::min(axis.scale, 1.0) : 1;
  constexpr double kMostTaps = 4096;  // each is an op of its own
  if (half / stretch > kMostTaps / 2) {
    throw Unsupported(fmt::format("smoothed to {} of its length", axis.scale));
  }
  const auto before = static_cast<std::int64_t>(std::ceil(half / stretch)) - 1;
  return {before, static_cast<std::size_t>(2 * before + 2), stretch};
}

/// The weights of those inputs.
std::vector<double> weights_of(double fraction, const Reach& reach, const Style& style) {
  std::vector<double> weights;
  double total = 0;
  for (std::size_t k = 0; k < reach.taps; ++k) {
    const double distance = static_cast<double>(k) - static_cast<double>(reach.before) - fraction;
    weights.push_back(filter(distance * reach.stretch, style));
    total += weights.back();
  }
  for (double& weight : weights) {
    weight = reach.stretch < 1 ? weight / total : weight;
  }
  return weights;
}

Tensor column(const std::vector<double>& values, const Tensor& like, int axis, Location where) {
  Shape shape = Shape::filled(like.rank(), 1);
  shape[axis] = static_cast<std::int64_t>(values.size());
  return cast(Tensor::from(values, shape), like.dtype(), where);
}

Tensor resized(const Tensor& x, int place, const Axis& axis, const Style& style, Location location) {
  const auto clamped = [&](double index) {
    return static_cast<std::int64_t>(std::clamp(index, 0.0, static_cast<double>(axis.from - 1)));
  };
  std::vector<double> places;
  for (std::int64_t i = 0; i < axis.to; ++i) {
    places.push_back(source(axis, style.transform, i));
  }
  Tensor result;
  if (style.mode == "nearest") {
    List indices;
    for (const double at : places) {
      indices.push_back(clamped(nearest_of(at, style.nearest)));
    }
    result = index_select(x, place, integers(indices), location);
  } else {
    const Reach reach = reach_of(axis, style);
    const std::size_t taps = reach.taps;
    std::vector<std::vector<double>> weights(taps);
    std::vector<List> indices(taps);
    for (const double at : places) {
      const double below = std::floor(at);
      std::vector<double> mine = weights_of(at - below, reach, style);
      double total = 0;
      for (std::size_t k = 0; k < taps; ++k) {
        const double index = below - static_cast<double>(reach.before) + static_cast<double>(k);
        if (style.exclude_outside && (index < 0 || index >= static_cast<double>(axis.from))) {
          mine[k] = 0;
        }
        total += mine[k];
        indices[k].push_back(clamped(index));
      }
      for (std::size_t k = 0; k < taps; ++k) {
        weights[k].push_back(style.exclude_outside ? mine[k] / total : mine[k]);
      }
    }
    for (std::size_t k = 0; k < taps; ++k) {
      const Tensor part =
          mul(index_select(x, place, integers(indices[k]), location), column(weights[k], x, place, location), location);
      result = result.defined() ? add(result, part, location) : part;
    }
  }
  if (style.transform == "tf_crop_and_resize") {
    std::vector<double> inside;
    for (const double at : places) {
      inside.push_back(at >= 0 && at <= static_cast<double>(axis.from - 1) ? 1 : 0);
    }
    const Tensor keeps = cast(column(inside, x, place, location), DType::boolean, location);
    result = where(keeps, result, scalar_like(x, style.outside, location), location);
  }
  return result;
}

std::vector<double> host_reals(const Tensor& tensor) { return tensor.to_vector<double>(); }

Tensor resized_all(const Tensor& input, std::vector<double> scales, const List& sizes, const Axes& axes,
                   const std::vector<double>& region, const Style& style, const std::string& policy, Location where) {
  const auto count = static_cast<std::size_t>(axes.rank());
  if ((scales.size() != count || !sizes.empty()) && (sizes.size() != count || !scales.empty())) {
    throw ShapeError(fmt::format("{} scales and {} sizes for {} axes", scales.size(), sizes.size(), count));
  }
  if (!region.empty() && region.size() != 2 * count) {
    throw ShapeError(fmt::format("a region of {} numbers for {} axes", region.size(), count));
  }
  if (!is_floating(input.dtype()) && style.mode != "nearest") {
    throw Unsupported("the engine interpolates floats alone");
  }
  double common = 0;  // one scale for all axes if the node keeps the aspect ratio
  if (!sizes.empty() && policy != "stretch") {
    for (std::size_t k = 0; k < count; ++k) {
      const double mine = static_cast<double>(sizes[k]) /
                          static_cast<double>(input.shape()[static_cast<int>(axes[static_cast<int>(k)])]);
      common = k == 0 ? mine : policy == "not_larger" ? std::min(common, mine) : std::max(common, mine);
    }
  }
  Tensor x = input;
  List lengths(input.shape().begin(), input.shape().end());
  std::vector<Axis> all;
  for (std::size_t k = 0; k < count; ++k) {
    const int place = static_cast<int>(axes[static_cast<int>(k)]);
    Axis axis;
    axis.from = input.shape()[place];
    const auto from = static_cast<double>(axis.from);
    axis.scale = sizes.empty() ? scales[k] : common > 0 ? common : static_cast<double>(sizes[k]) / from;
    const double to = sizes.empty() ? std::floor(from * scales[k])
                      : common > 0  ? std::floor(from * common + 0.5)
                                    : static_cast<double>(sizes[k]);
    if (!(axis.scale > 0) || !(to < 1e12) || (axis.from == 0 && to > 0)) {
      throw ShapeError(fmt::format("axis {} of length {} to {}", place, axis.from, to));
    }
    axis.to = static_cast<std::int64_t>(to);
    if (!region.empty()) {
      axis.start = region[k];
      axis.end = region[k + count];
    }
    lengths[static_cast<std::size_t>(place)] = axis.to;
    all.push_back(axis);
  }
  checked_shape(lengths, x.dtype());
  std::copy(input.shape().begin(), input.shape().end(), lengths.begin());
  for (std::size_t k = 0; k < count; ++k) {
    const auto taps =
        style.mode == "nearest" ? std::int64_t{1} : static_cast<std::int64_t>(reach_of(all[k], style).taps);
    checked_shape(std::array{all[k].to, taps}, DType::float64);  // the axis' positions and weights
    lengths[static_cast<std::size_t>(axes[static_cast<int>(k)])] = all[k].to;
    checked_shape(lengths, x.dtype());  // intermediate results may be larger than the final one
    if (all[k].from != all[k].to || all[k].scale != 1 || style.transform == "tf_crop_and_resize") {
      x = resized(x, static_cast<int>(axes[static_cast<int>(k)]), all[k], style, where);
    }
  }
  return x;
}

/// Refuses a text that isn't one of the known ones.
void check_text(const NodeView& node, const char* attribute, const std::string& text,
                std::initializer_list<const char*> known) {
  if (std::find(known.begin(), known.end(), text) == known.end()) {
    node.refuse(fmt::format("its {} {} isn't known", attribute, quote(text)));
  }
}

List all_axes(const Tensor& x) {
  List all;
  for (int i = 0; i < x.rank(); ++i) {
    all.push_back(i);
  }
  return all;
}

/// Opset 10 has one way to place points; regions, sizes and styles came with 11, axes and policies with 18.
Translation resize(NodeView& node) {
  Style style;
  style.mode = node.text("mode", "nearest");
  const bool is_new = node.opset() >= 11;
  style.transform = is_new ? node.text("coordinate_transformation_mode", "half_pixel") : "asymmetric";
  style.nearest = is_new ? node.text("nearest_mode", "round_prefer_floor") : "floor";
  style.cubic = node.real("cubic_coeff_a", -0.75);
  style.exclude_outside = node.integer("exclude_outside", 0) != 0;
  style.outside = node.real("extrapolation_value", 0);
  const auto named = node.opset() >= 18 ? node.integers("axes") : std::nullopt;
  const std::string policy = node.opset() >= 18 ? node.text("keep_aspect_ratio_policy", "stretch") : "stretch";
  style.antialias = node.opset() >= 18 && node.integer("antialias", 0) != 0;
  if (is_new) {
    check_text(node, "mode", style.mode, {"nearest", "linear", "cubic"});
  } else {
    check_text(node, "mode", style.mode, {"nearest", "linear"});
  }
  check_text(node, "coordinate_transformation_mode", style.transform,
             {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
              "tf_crop_and_resize", "half_pixel_symmetric"});
  check_text(node, "nearest_mode", style.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  check_text(node, "keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"});
  const std::size_t at = is_new ? 2 : 1;
  node.check_inputs(1, is_new ? 4 : 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const auto given = [&](std::size_t i) {
              return i < in.size() && in[i].tensor.defined() && in[i].tensor.numel() > 0;
            };
            const bool crops = style.transform == "tf_crop_and_resize";
            out[0].tensor =
                resized_all(x, given(at) ? host_reals(in[at].tensor) : std::vector<double>(),
                            given(at + 1) ? host_integers(in[at + 1].tensor) : List(),
                            axes_of(named ? *named : all_axes(x), x.rank()),
                            crops && given(1) ? host_reals(in[1].tensor) : std::vector<double>(), style, policy, where);
          },
          {1, 2, 3}};
}

/// Scales are an attribute before opset 9.
Translation upsample(NodeView& node) {
  Style style;
  style.mode = node.text("mode", "nearest");
  style.transform = "asymmetric";
  style.nearest = "floor";
  const std::vector<double> fixed =
      node.opset() < 9 ? node.reals("scales").value_or(std::vector<double>()) : std::vector<double>();
  check_text(node, "mode", style.mode, {"nearest", "linear"});
  node.check_inputs(node.opset() < 9 ? 1 : 2, node.opset() < 9 ? 1 : 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            out[0].tensor = resized_all(x, in.size() > 1 ? host_reals(in[1].tensor) : fixed, {},
                                        axes_of(all_axes(x), x.rank()), {}, style, "stretch", where);
          },
          {1}};
}

/// Cut or padded around its centre; an odd rest is behind.
Translation centre_crop_or_pad(NodeView& node) {
  const auto named = node.integers("axes");
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
            Tensor x = in[0].tensor;
            const List lengths = host_integers(in[1].tensor);
            List all;
            for (int axis = 0; axis < x.rank(); ++axis) {
              all.push_back(axis);
            }
            const Axes axes = axes_of(named ? *named : all, x.rank());
            if (static_cast<int>(lengths.size()) != axes.rank()) {
              throw ShapeError(fmt::format("{} lengths for {} axes", lengths.size(), axes.rank()));
            }
            checked_shape(lengths, x.dtype());
            std::vector<PadWidth> widths(static_cast<std::size_t>(x.rank()));
            for (int i = 0; i < axes.rank(); ++i) {
              const auto axis = static_cast<int>(axes[i]);
              const std::int64_t wanted = lengths[static_cast<std::size_t>(i)];
              const std::int64_t more = wanted - x.shape()[axis];
              if (more < 0) {
                x = slice(x, axis, -more / 2, -more / 2 + wanted, 1, where);
              } else {
                widths[static_cast<std::size_t>(axis)] = {more / 2, more - more / 2};
              }
            }
            out[0].tensor = pad(x, widths, PadMode::constant, 0, where);
          },
          {1}};
}

}  // namespace

void add_resizing(std::vector<Operator>& all) {
  all.push_back({"CenterCropPad", 18, kNewestOpset, centre_crop_or_pad, "to a known shape"});
  all.push_back({"Resize", 10, kNewestOpset, resize});
  all.push_back({"Upsample", 7, 9, upsample});
}

}  // namespace diptych::onnx
