// Matrix products and convolutions.

#include <algorithm>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/io/onnx/windows.h"
#include "framework/ops/convolution.h"
#include "framework/ops/creation.h"
#include "framework/ops/einsum.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/matmul.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

constexpr std::int64_t kLimb = std::int64_t{1} << 16U;

/// The lowest bits of integers, as many as their type has, in pieces of 16 from the lowest on.
std::vector<Tensor> limbs_of(const Tensor& x, Location where) {
  std::vector<Tensor> limbs;
  Tensor rest = cast(x, DType::int64, where);
  const Tensor limb = Tensor::scalar(kLimb);
  for (std::size_t bits = 0; bits < 8 * size_of(x.dtype()); bits += 16) {
    const Tensor low = remainder(rest, limb, where);
    limbs.push_back(cast(low, DType::float64, where));
    rest = quotient(sub(rest, low, where), limb, where);
  }
  return limbs;
}

/// The sum over pairs of limbs of their product, each exact in f64, in the integers that wrap around.
Tensor product_of_integers(const Tensor& a, const Tensor& b, Location where) {
  constexpr std::int64_t kMostTerms = std::int64_t{1} << 21U;  // of 2^32 each
  if (a.dtype() != b.dtype()) {
    throw DTypeError(fmt::format("{} and {}", to_string(a.type()), to_string(b.type())));
  }
  if (a.rank() > 0 && a.shape().back() > kMostTerms) {
    throw Unsupported(fmt::format("integers in rows of more than {}: {}", kMostTerms, to_string(a.type())));
  }
  const std::vector<Tensor> left = limbs_of(a, where);
  const std::vector<Tensor> right = limbs_of(b, where);
  Tensor total;
  for (std::size_t i = 0; i < left.size(); ++i) {
    for (std::size_t k = 0; i + k < right.size(); ++k) {
      const Tensor part = cast(matmul(left[i], right[k], where), DType::int64, where);
      const Tensor shifted = i + k == 0 ? part : mul(part, Tensor::scalar(std::int64_t{1} << (16U * (i + k))), where);
      total = total.defined() ? add(total, shifted, where) : shifted;
    }
  }
  return cast(total, a.dtype(), where);
}

Tensor matrix_product(const Tensor& a, const Tensor& b, Location where) {
  return is_integral(a.dtype()) ? product_of_integers(a, b, where) : matmul(a, b, where);
}

Translation product(NodeView& node) { return binary(node, matrix_product); }

/// a b + c, as `linear` where c is a bias: one for each column of b.
Tensor product_plus(const Tensor& a, const Tensor& b, const Tensor& c, Location where) {
  const bool is_linear =
      a.rank() >= 2 && b.rank() == 2 && c.shape() == Shape{b.shape().back()} && c.dtype() == a.dtype();
  return is_linear && is_floating(a.dtype()) ? linear(a, b, c, where) : add(matrix_product(a, b, where), c, where);
}

/// The place of the largest element of left[..., n, n]: its row and its column, each [..., 1, 1].
struct Place {
  Tensor row;
  Tensor column;
};

Place largest_in(const Tensor& left, const Shape& lead, Location where) {
  const std::int64_t n = left.shape().back();
  Shape flat = lead;
  flat.push_back(n * n);
  Shape one = lead;
  one.push_back(1);
  one.push_back(1);
  const Tensor place = argmax(reshape(abs(left, where), flat, where), lead.rank(), true, where);
  const Tensor length = scalar_like(place, static_cast<double>(n), where);
  return {reshape(quotient(place, length, where), one, where), reshape(remainder(place, length, where), one, where)};
}

/// The slice of x at a place along one axis.
Tensor taken(const Tensor& x, int axis, const Tensor& place, Location where) {
  Shape shape = x.shape();
  shape[axis] = 1;
  return gather(x, axis, contiguous(expand(place, shape, where), where), where);
}

/// x without its slice at that place along one axis: the first slice is there instead.
Tensor without(const Tensor& x, int axis, const Tensor& place, Location location) {
  const std::int64_t n = x.shape()[axis];
  Shape along = Shape::filled(x.rank(), 1);
  along[axis] = n;
  const Tensor numbers = reshape(arange(static_cast<double>(n), DType::int64, location), along, location);
  const Tensor swapped = where(equal(numbers, place, location), slice(x, axis, 0, 1, 1, location), x, location);
  return slice(swapped, axis, 1, n, 1, location);
}

/// By elimination, with the largest of all elements that are left as the pivot. A column's largest would do for the
/// result, but not for the gradients of singular matrices: a pivot of 0 must mean that nothing is left.
Translation determinant(NodeView& node) {
  static constexpr std::int64_t kMostRows = 256;
  return unary(node, [](const Tensor& x, Location location) {
    if (x.rank() < 2 || x.shape()[x.rank() - 1] != x.shape()[x.rank() - 2]) {
      throw ShapeError(fmt::format("{} is no square matrix", to_string(x.type())));
    }
    const std::int64_t rows = x.shape().back();
    if (rows > kMostRows) {
      throw Unsupported(fmt::format("{} rows; the engine unrolls up to {}", rows, kMostRows));
    }
    const int batch = x.rank() - 2;  // axes before rows and columns
    Shape lead;
    for (int i = 0; i < batch; ++i) {
      lead.push_back(x.shape()[i]);
    }
    Tensor result = full(lead, 1, x.dtype(), location);
    const Tensor one = scalar_like(x, 1, location);
    const Tensor zero = scalar_like(x, 0, location);
    Tensor left = x;
    for (std::int64_t n = rows; n > 1; --n) {
      const Place place = largest_in(left, lead, location);
      const Tensor row = taken(left, batch, place.row, location);
      const Tensor column = taken(left, batch + 1, place.column, location);
      const Tensor pivot = taken(row, batch + 1, place.column, location);
      // Each of the two exchanges changes the sign.
      const Tensor first = scalar_like(place.row, 0, location);
      const Tensor is_turned =
          logical_xor(equal(place.row, first, location), equal(place.column, first, location), location);
      const Tensor signed_pivot = where(is_turned, neg(pivot, location), pivot, location);
      result = mul(result, reshape(signed_pivot, lead, location), location);
      const Tensor divisor = where(equal(pivot, zero, location), one, pivot, location);
      const Tensor factor = div(without(column, batch, place.row, location), divisor, location);
      const Tensor rest = without(without(left, batch, place.row, location), batch + 1, place.column, location);
      left = sub(rest, mul(factor, without(row, batch + 1, place.column, location), location), location);
    }
    return rows == 0 ? result : mul(result, reshape(left, lead, location), location);
  });
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
    const Tensor y = scaled(matrix_product(a, b, where), alpha);
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

Dims dims_of(int axes, const std::function<std::int64_t(int)>& length) {
  Dims result;
  for (int axis = 0; axis < axes; ++axis) {
    result.push_back(length(axis));
  }
  return result;
}

int spatial_axes(const Tensor& x) {
  const int axes = x.rank() - 2;
  if (axes < 1 || axes > 3) {
    throw Unsupported(fmt::format("the engine has it for 1 to 3 spatial axes, not on {}", to_string(x.type())));
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
    const auto of_axes = axes == 1 ? diptych::conv1d : axes == 2 ? diptych::conv2d : diptych::conv3d;
    out[0].tensor = of_axes(x, weight, optional_input(in, 2), options, where);
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
    std::vector<PadWidth> zeros{{}, {}};
    for (int axis = 0; axis < axes; ++axis) {
      const std::int64_t reach = (weight.shape()[axis + 2] - 1) * windows.dilation(axis) + 1;
      const std::int64_t full_length =
          windows.stride(axis) * (x.shape()[axis + 2] - 1) + Windows::entry(extra, axis, 0) + reach;
      std::int64_t before = Windows::entry(windows.pads, axis, 0);
      std::int64_t after = Windows::entry(windows.pads, axis + axes, 0);
      const bool same = windows.auto_pad.starts_with("SAME");
      std::int64_t length = full_length - before - after;
      if (!wanted.empty() || same) {
        length =
            wanted.empty() ? x.shape()[axis + 2] * windows.stride(axis) : wanted[lead + static_cast<std::size_t>(axis)];
        const std::int64_t total = std::max<std::int64_t>(full_length - length, 0);
        if (old && total % 2 != 0) {
          throw Unsupported("opsets below 11 don't say on which side an odd padding is longer");
        }
        before = windows.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
        after = total - before;
      }
      // The engine's op is a gradient, whose windows leave less than a stride of the result over; what lies beyond that
      // (an output_padding from the stride on, a longer output_shape) is 0.
      const std::int64_t covered = windows.stride(axis) * x.shape()[axis + 2] + reach - 1;
      std::int64_t beyond = std::max<std::int64_t>(length + before + after - covered, 0);
      const auto taken_from = [&beyond](std::int64_t& width) {
        const std::int64_t share = std::clamp<std::int64_t>(width, 0, beyond);
        width -= share;
        beyond -= share;
        return share;
      };
      taken_from(after);
      zeros.push_back({0, taken_from(length)});
      taken_from(before);
      lengths.push_back(length);
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
    List result{x.shape()[0], channels};
    result.insert(result.end(), lengths.begin(), lengths.end());
    for (int axis = 0; axis < axes; ++axis) {
      result[result.size() - static_cast<std::size_t>(axes - axis)] += zeros[static_cast<std::size_t>(axis) + 2].after;
    }
    checked_shape(result, x.dtype());
    const auto to_input = axes == 3 ? diptych::conv3d_input_gradient : diptych::conv2d_input_gradient;
    Tensor y = to_input(x, weight, lengths, options, where);
    if (axes == 1) {
      y = squeeze(y, 2, where);
    }
    const bool grows = std::any_of(zeros.begin(), zeros.end(), [](const PadWidth& width) { return width.after > 0; });
    if (grows) {
      y = pad(y, zeros, PadMode::constant, 0, where);
    }
    if (const Tensor bias = optional_input(in, 2); bias.defined()) {
      Shape per_channel = Shape::filled(axes + 1, 1);
      per_channel[0] = channels;
      y = add(y, reshape(bias, per_channel, where), where);
    }
    out[0].tensor = y;
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
  op("Conv", 1, convolution, "1 to 3 spatial axes");
  op("ConvTranspose", 1, transposed_convolution, "1 to 3 spatial axes");
  op("Det", 11, determinant, "up to 256 rows");
  op("Einsum", 12, summation);
  op("Gemm", 1, gemm);
  op("GlobalAveragePool", 1, over_space<mean>);
  op("GlobalMaxPool", 1, over_space<max>);
  op("MatMul", 1, product);
}

}  // namespace diptych::onnx
