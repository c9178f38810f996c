// Shapes and the placement of elements: reshaping, joining, cutting, repeating, padding, tensors made without inputs.

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

using List = std::vector<std::int64_t>;

bool given(Inputs in, std::size_t index) { return optional_input(in, index).defined(); }

/// A list that is an attribute in old opsets and an input in new ones.
List list_from(Inputs in, std::size_t input, const List& attribute) {
  return given(in, input) ? host_integers(in[input].tensor) : attribute;
}

Translation shape(NodeView& node) {
  const std::int64_t first = node.opset() < 15 ? 0 : node.integer("start", 0);
  const std::int64_t last = node.opset() < 15 ? kMaxRank : node.integer("end", kMaxRank);
  Translation result = unary(node, [=](const Tensor& x, Location /*where*/) {
    const auto place = [&](std::int64_t axis) {
      return std::clamp<std::int64_t>(axis < 0 ? axis + x.rank() : axis, 0, x.rank());
    };
    List lengths;
    for (std::int64_t axis = place(first); axis < place(last); ++axis) {
      lengths.push_back(x.shape()[static_cast<int>(axis)]);
    }
    return integers(lengths);
  });
  result.by_type = true;
  return result;
}

Translation size(NodeView& node) {
  Translation result = unary(node, [](const Tensor& x, Location /*where*/) { return Tensor::scalar(x.numel()); });
  result.by_type = true;
  return result;
}

Tensor reshaped(const Tensor& x, const List& lengths, bool zero_is_zero, Location where) {
  if (lengths.size() > kMaxRank) {
    throw Unsupported(fmt::format("{} axes; the engine has {}", lengths.size(), kMaxRank));
  }
  Shape result;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 0 && !zero_is_zero) {
      if (static_cast<int>(i) >= x.rank()) {
        throw ShapeError(fmt::format("axis {} of {} is to be kept", i, to_string(x.type())));
      }
      result.push_back(x.shape()[static_cast<int>(i)]);
    } else {
      result.push_back(lengths[i]);
    }
  }
  return reshape(x, result, where);
}

Translation reshape_to(NodeView& node) {
  const List fixed = node.opset() < 5 ? node.integers("shape").value_or(List()) : List();
  const bool zero_is_zero = node.opset() >= 14 && node.integer("allowzero", 0) != 0;
  node.check_inputs(node.opset() < 5 ? 1 : 2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
            out[0].tensor = reshaped(in[0].tensor, list_from(in, 1, fixed), zero_is_zero, where);
          },
          {1}};
}

Translation flatten_at(NodeView& node) {
  const std::int64_t axis = node.integer("axis", 1);
  return unary(node, [=](const Tensor& x, Location where) {
    const int place = axis == x.rank() ? x.rank() : axis_of(axis, x.rank() == 0 ? 1 : x.rank());
    std::int64_t rows = 1;
    std::int64_t columns = 1;
    for (int i = 0; i < x.rank(); ++i) {
      (i < place ? rows : columns) *= x.shape()[i];
    }
    return reshape(x, {rows, columns}, where);
  });
}

/// Axes are an input from opset 13 on.
Translation squeeze_axes(NodeView& node) {
  const List fixed = node.opset() < 13 ? node.integers("axes").value_or(List()) : List();
  node.check_inputs(1, node.opset() < 13 ? 1 : 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const Axes axes = axes_of(list_from(in, 1, fixed), x.rank());
            Shape result;
            for (int i = 0; i < x.rank(); ++i) {
              const bool drop = axes.empty() ? x.shape()[i] == 1 : axes.contains(i);
              if (drop && x.shape()[i] != 1) {
                throw ShapeError(fmt::format("axis {} of {} is no 1", i, to_string(x.type())));
              }
              if (!drop) {
                result.push_back(x.shape()[i]);
              }
            }
            out[0].tensor = reshape(x, result, where);
          },
          {1}};
}

Translation unsqueeze_axes(NodeView& node) {
  const List fixed = node.opset() < 13 ? node.integers("axes").value_or(List()) : List();
  node.check_inputs(node.opset() < 13 ? 1 : 2, node.opset() < 13 ? 1 : 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const List list = list_from(in, 1, fixed);
            const int rank = x.rank() + static_cast<int>(std::min(list.size(), std::size_t{2} * kMaxRank));
            if (rank > kMaxRank) {
              throw Unsupported(fmt::format("{} axes; the engine has {}", rank, kMaxRank));
            }
            const Axes axes = axes_of(list, rank);
            Shape result;
            int next = 0;
            for (int i = 0; i < rank; ++i) {
              result.push_back(axes.contains(i) ? 1 : x.shape()[next++]);
            }
            out[0].tensor = reshape(x, result, where);
          },
          {1}};
}

Translation transpose_axes(NodeView& node) {
  const auto order = node.integers("perm");
  return unary(node, [=](const Tensor& x, Location where) {
    Axes axes;
    if (order) {
      axes = axes_of(*order, x.rank());
    } else {
      for (int i = x.rank(); i-- > 0;) {
        axes.push_back(i);
      }
    }
    return permute(x, axes, where);
  });
}

Translation join(NodeView& node) {
  const std::int64_t axis = node.integer("axis", node.opset() < 4 ? 1 : 0);
  node.check_inputs(1, NodeView::kAny);
  return {[=](Inputs in, Outputs out, Location where) {
    std::vector<Tensor> parts;
    for (const Value& part : in) {
      if (part.tensor.dtype() != in[0].tensor.dtype()) {
        throw DTypeError(fmt::format("{} beside {}", to_string(part.tensor.type()), to_string(in[0].tensor.type())));
      }
      parts.push_back(part.tensor);
    }
    out[0].tensor = concat(parts, axis_of(axis, parts[0].rank()), where);
  }};
}

/// Sizes are an attribute before opset 13; equal parts may have a shorter last one from opset 18 on.
Translation split_along(NodeView& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const List fixed = node.opset() < 13 ? node.integers("split").value_or(List()) : List();
  const std::int64_t parts = node.outputs();
  if (node.opset() >= 18 && node.integer("num_outputs", parts) != parts) {
    node.malformed(fmt::format("it has {} outputs, not num_outputs", parts));
  }
  node.check_inputs(1, 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const int place = axis_of(axis, x.rank());
            List sizes = list_from(in, 1, fixed);
            if (sizes.empty()) {
              const std::int64_t length = x.shape()[place];
              const std::int64_t each = (length + parts - 1) / parts;
              for (std::int64_t left = length; static_cast<std::int64_t>(sizes.size()) < parts; left -= sizes.back()) {
                sizes.push_back(std::min(each, left));
              }
            }
            if (sizes.size() != out.size()) {
              throw ShapeError(fmt::format("{} sizes for {} outputs", sizes.size(), out.size()));
            }
            std::vector<Tensor> pieces = split(x, sizes, place, where);
            for (std::size_t i = 0; i < out.size(); ++i) {
              out[i].tensor = pieces[i];
            }
          },
          {1}};
}

Tensor sliced(Tensor x, const List& starts, const List& ends, List axes, List steps, Location where) {
  if (axes.empty()) {
    for (std::size_t i = 0; i < starts.size(); ++i) {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (steps.empty()) {
    steps.assign(starts.size(), 1);
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    throw ShapeError(
        fmt::format("{} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(), axes.size(), steps.size()));
  }
  const Axes places = axes_of(axes, x.rank());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int axis = static_cast<int>(places[static_cast<int>(i)]);
    const std::int64_t length = x.shape()[axis];
    std::int64_t start = starts[i];
    if (steps[i] < 0 && start < -length) {  // the specification clamps it to [0, length - 1]; Python's slices are empty
      start = 0;
    }
    x = slice(x, axis, start, ends[i], steps[i], where);
  }
  return x;
}

/// Starts, ends and axes are attributes before opset 10.
Translation slice_along(NodeView& node) {
  if (node.opset() < 10) {
    const List starts = node.integers("starts").value_or(List());
    const List ends = node.integers("ends").value_or(List());
    const List axes = node.integers("axes").value_or(List());
    return unary(node, [=](const Tensor& x, Location where) { return sliced(x, starts, ends, axes, List(), where); });
  }
  node.check_inputs(3, 5);
  return {[](Inputs in, Outputs out, Location where) {
            out[0].tensor = sliced(in[0].tensor, host_integers(in[1].tensor), host_integers(in[2].tensor),
                                   list_from(in, 3, {}), list_from(in, 4, {}), where);
          },
          {1, 2, 3, 4}};
}

/// Broadcasts both ways: a 1 in the wanted shape keeps a longer axis.
Translation expand_to(NodeView& node) {
  node.check_inputs(2, 2);
  return {[](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const Shape wanted = checked_shape(host_integers(in[1].tensor), x.dtype());
            Shape result;
            if (!broadcast(x.shape(), wanted, result)) {
              throw ShapeError(fmt::format("{} to {}", to_string(x.type()), to_string(wanted)));
            }
            out[0].tensor = expand(x, result, where);
          },
          {1}};
}

Translation tile_by(NodeView& node) {
  if (node.opset() < 6) {
    node.refuse("supported from opset 6 on");
  }
  node.check_inputs(2, 2);
  return {[](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const List repeats = host_integers(in[1].tensor);
            if (static_cast<int>(repeats.size()) != x.rank()) {
              throw ShapeError(fmt::format("{} repeats for {}", repeats.size(), to_string(x.type())));
            }
            List lengths;
            for (int i = 0; i < x.rank(); ++i) {
              const std::int64_t count = repeats[static_cast<std::size_t>(i)];
              if (count < 0 || (count > 0 && x.shape()[i] > std::numeric_limits<std::int64_t>::max() / count)) {
                throw ShapeError(fmt::format("{} repeats of axis {}", count, i));
              }
              lengths.push_back(x.shape()[i] * count);
            }
            checked_shape(lengths, x.dtype());
            out[0].tensor = tile(x, Shape(repeats), where);
          },
          {1}};
}

/// Negative widths remove elements.
Tensor padded(Tensor x, const List& widths, const std::string& mode, double value, Location where) {
  if (static_cast<int>(widths.size()) != 2 * x.rank()) {
    throw ShapeError(fmt::format("{} widths for {}", widths.size(), to_string(x.type())));
  }
  std::vector<PadWidth> grow;
  List lengths;
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t before = widths[static_cast<std::size_t>(i)];
    const std::int64_t after = widths[static_cast<std::size_t>(i) + static_cast<std::size_t>(x.rank())];
    for (const std::int64_t width : {before, after}) {
      constexpr std::int64_t kFar = std::int64_t{1} << 40;
      if (width < -kFar || width > kFar) {
        throw ShapeError(fmt::format("a width of {}", width));
      }
    }
    if (before < 0 || after < 0) {
      const std::int64_t start = std::max<std::int64_t>(-before, 0);
      const std::int64_t stop = x.shape()[i] + std::min<std::int64_t>(after, 0);
      if (stop < start) {
        throw ShapeError(fmt::format("widths of {} and {} remove more than axis {} of {} has", before, after, i,
                                     to_string(x.type())));
      }
      x = slice(x, i, start, stop, 1, where);
    }
    grow.push_back({std::max<std::int64_t>(before, 0), std::max<std::int64_t>(after, 0)});
    lengths.push_back(x.shape()[i] + grow.back().before + grow.back().after);
  }
  checked_shape(lengths, x.dtype());
  if (mode == "wrap") {
    for (int i = 0; i < x.rank(); ++i) {
      const PadWidth width = grow[static_cast<std::size_t>(i)];
      const std::int64_t length = x.shape()[i];
      if (width.before > length || width.after > length) {
        throw Unsupported("it wraps around more than once");
      }
      x = concat({slice(x, i, length - width.before, length, 1, where), x, slice(x, i, 0, width.after, 1, where)}, i,
                 where);
    }
    return x;
  }
  const PadMode kind = mode == "edge" ? PadMode::edge : mode == "reflect" ? PadMode::reflect : PadMode::constant;
  return pad(x, grow, kind, value, where);
}

Translation pad_by(NodeView& node) {
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && !(mode == "wrap" && node.opset() >= 19)) {
    node.refuse("it pads in a mode that isn't known");
  }
  if (node.opset() < 11) {
    const List widths = node.integers("pads").value_or(List());
    const double value = node.real("value", 0);
    return unary(node, [=](const Tensor& x, Location where) { return padded(x, widths, mode, value, where); });
  }
  node.check_inputs(2, 4);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            List widths = host_integers(in[1].tensor);
            if (given(in, 3)) {
              const List named = host_integers(in[3].tensor);
              const Axes axes = axes_of(named, x.rank());
              if (widths.size() != 2 * named.size()) {
                throw ShapeError(fmt::format("{} widths for {} axes", widths.size(), named.size()));
              }
              List all(static_cast<std::size_t>(2 * x.rank()), 0);
              for (std::size_t i = 0; i < named.size(); ++i) {
                const auto axis = static_cast<std::size_t>(axes[static_cast<int>(i)]);
                all[axis] = widths[i];
                all[axis + static_cast<std::size_t>(x.rank())] = widths[i + named.size()];
              }
              widths = all;
            }
            out[0].tensor = padded(x, widths, mode, given(in, 2) ? host_real(in[2].tensor) : 0, where);
          },
          {1, 2, 3}};
}

Translation constant(NodeView& node) {
  Tensor value = node.tensor("value");
  if (const auto all = node.integers("value_ints")) {
    value = integers(*all);
  } else if (const auto numbers = node.reals("value_floats")) {
    const std::vector<float> floats(numbers->begin(), numbers->end());
    value = Tensor::from(floats, {static_cast<std::int64_t>(floats.size())});
  } else if (node.has("value_int")) {
    value = Tensor::scalar(node.integer("value_int", 0));
  } else if (node.has("value_float")) {
    value = Tensor::scalar(static_cast<float>(node.real("value_float", 0)));
  }
  node.check_inputs(0, 0);
  if (!value.defined()) {
    node.refuse("it holds no tensor of the engine");
  }
  return {[value](Inputs /*in*/, Outputs out, Location /*where*/) { out[0].tensor = value; }};
}

Translation constant_of_shape(NodeView& node) {
  const Tensor given_value = node.tensor("value");
  const Tensor value = given_value.defined() ? given_value : Tensor::scalar(0.0F);
  if (value.numel() != 1) {
    node.malformed("its value has not one element");
  }
  node.check_inputs(1, 1);
  return {[value](Inputs in, Outputs out, Location where) {
            const Shape wanted = checked_shape(host_integers(in[0].tensor), value.dtype());
            // Through a view of the single element: converting it to a number would round large integers.
            out[0].tensor = copy(expand(reshape(value, {}, where), wanted, where), where);
          },
          {0}};
}

Translation range(NodeView& node) {
  node.check_inputs(3, 3);
  return {[](Inputs in, Outputs out, Location where) {
            const DType dtype = in[0].tensor.dtype();
            const double start = host_real(in[0].tensor);
            const double limit = host_real(in[1].tensor);
            const double step = host_real(in[2].tensor);
            const double count = std::max(0.0, std::ceil((limit - start) / step));
            if (!std::isfinite(count) || step == 0) {
              throw ShapeError(fmt::format("from {} to {} by {}", start, limit, step));
            }
            if (count > 1e15) {
              throw ShapeError(fmt::format("{:.3g} elements", count));
            }
            checked_shape(List{static_cast<std::int64_t>(count)}, dtype);
            out[0].tensor = count == 0 ? Tensor::empty(dtype, {0}) : arange(start, limit, step, dtype, where);
          },
          {0, 1, 2}};
}

Translation eye_like(NodeView& node) {
  const std::int64_t diagonal = node.integer("k", 0);
  const bool has_type = node.has("dtype");
  const auto dtype = has_type ? dtype_of_code(node.integer("dtype", 1)) : std::nullopt;
  if (has_type && !dtype) {
    node.refuse("the engine has no tensors of its type");
  }
  Translation result = unary(node, [=](const Tensor& x, Location where) {
    if (x.rank() != 2) {
      throw ShapeError(fmt::format("{} is no matrix", to_string(x.type())));
    }
    const auto places = [&](int axis, const Shape& as, double from) {
      const auto length = static_cast<double>(x.shape()[axis]);
      return reshape(arange(from, from + length, 1, DType::int64, where), as, where);
    };
    // Beyond the last row or column there is no diagonal, however far; doubles can't count so far.
    const std::int64_t beyond = std::max(x.shape()[0], x.shape()[1]);
    const Tensor rows = places(0, {x.shape()[0], 1}, static_cast<double>(std::clamp(diagonal, -beyond, beyond)));
    return cast(equal(rows, places(1, {1, x.shape()[1]}, 0), where), dtype.value_or(x.dtype()), where);
  });
  result.by_type = true;
  return result;
}

Translation triangle_of(NodeView& node) {
  const bool upper = node.integer("upper", 1) != 0;
  node.check_inputs(1, 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const std::int64_t diagonal = given(in, 1) ? host_integer(in[1].tensor) : 0;
            out[0].tensor = upper ? triu(in[0].tensor, diagonal, where) : tril(in[0].tensor, diagonal, where);
          },
          {1}};
}

void check_blocks(const Tensor& x, std::int64_t block, bool to_space) {
  const bool fits =
      x.rank() == 4 && block > 0 && block < 65536 &&
      (to_space ? x.shape()[1] % (block * block) == 0 : x.shape()[2] % block == 0 && x.shape()[3] % block == 0);
  if (!fits) {
    throw ShapeError(fmt::format("{} in blocks of {}", to_string(x.type()), block));
  }
}

Translation depth_to_space(NodeView& node) {
  const std::int64_t b = node.integer("blocksize", 0);
  const std::string mode = node.opset() < 11 ? "DCR" : node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    node.refuse("its mode isn't known");
  }
  return unary(node, [=](const Tensor& x, Location where) {
    check_blocks(x, b, true);
    const Shape& s = x.shape();
    const std::int64_t depth = s[1] / (b * b);
    const bool blocks_first = mode == "DCR";
    const Tensor parts = blocks_first ? reshape(x, {s[0], b, b, depth, s[2], s[3]}, where)
                                      : reshape(x, {s[0], depth, b, b, s[2], s[3]}, where);
    const Tensor turned = permute(parts, blocks_first ? Axes{0, 3, 4, 1, 5, 2} : Axes{0, 1, 4, 2, 5, 3}, where);
    return reshape(turned, {s[0], depth, s[2] * b, s[3] * b}, where);
  });
}

Translation space_to_depth(NodeView& node) {
  const std::int64_t b = node.integer("blocksize", 0);
  return unary(node, [=](const Tensor& x, Location where) {
    check_blocks(x, b, false);
    const Shape& s = x.shape();
    const Tensor parts = reshape(x, {s[0], s[1], s[2] / b, b, s[3] / b, b}, where);
    return reshape(permute(parts, {0, 3, 5, 1, 2, 4}, where), {s[0], s[1] * b * b, s[2] / b, s[3] / b}, where);
  });
}

}  // namespace

void add_shapes(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&), const char* limits = "") {
    all.push_back({name, first, kNewestOpset, translate, limits});
  };
  op("Concat", 1, join);
  op("Constant", 1, constant, "no strings, no sparse tensors");
  op("ConstantOfShape", 9, constant_of_shape);
  op("DepthToSpace", 1, depth_to_space);
  op("Expand", 8, expand_to);
  op("EyeLike", 9, eye_like);
  op("Flatten", 1, flatten_at);
  op("Pad", 1, pad_by);
  op("Range", 11, range, "of known numbers");
  op("Reshape", 1, reshape_to, "to a known shape");
  op("Shape", 1, shape);
  op("Size", 1, size);
  op("Slice", 1, slice_along, "at known places");
  op("SpaceToDepth", 1, space_to_depth);
  op("Split", 1, split_along);
  op("Squeeze", 1, squeeze_axes);
  op("Tile", 1, tile_by);
  op("Transpose", 1, transpose_axes);
  op("Trilu", 14, triangle_of);
  op("Unsqueeze", 1, unsqueeze_axes);
}

}  // namespace diptych::onnx
