// Quantised tensors: linear quantisation, and products and convolutions of its integers. All are the engine's ops on
// floats that have every integer in question, so what they give is exact up to the one rounding that ONNX prescribes.

#include <limits>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/matmul.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// How scales and zero points lie along a tensor: one for all, one for each place of an axis, or one for each block of
/// places of an axis.
struct Grain {
  std::int64_t axis = 1;
  std::int64_t block = 0;

  Tensor spread(const Tensor& of, const Tensor& x, Location where) const {
    if (of.numel() == 1 && of.rank() <= 1) {
      return reshape(of, {}, where);
    }
    const int place = axis_of(axis, x.rank());
    const std::int64_t length = x.shape()[place];
    if (block > 0) {
      if (of.rank() != x.rank() || of.shape()[place] != (length + block - 1) / block) {
        throw ShapeError(fmt::format("{} in blocks of {} along axis {} of {}", to_string(of.type()), block, place,
                                     to_string(x.type())));
      }
      std::vector<std::int64_t> blocks;
      for (std::int64_t i = 0; i < length; ++i) {
        blocks.push_back(i / block);
      }
      return index_select(of, place, integers(blocks), where);
    }
    if (of.rank() != 1 || of.numel() != length) {
      throw ShapeError(fmt::format("{} along axis {} of {}", to_string(of.type()), place, to_string(x.type())));
    }
    Shape shape = Shape::filled(x.rank(), 1);
    shape[place] = length;
    return reshape(of, shape, where);
  }
};

Tensor in_floats(const Tensor& x, Location where) { return cast(x, DType::float32, where); }

/// The nearest integers of `scaled`, ties to even, plus the zero point (undefined: 0), with the ends of `type` for what
/// lies beyond. f32 has all sums between those of 16 bits.
Tensor quantised(const Tensor& scaled, const Tensor& zero_point, DType type, Location where) {
  if (!is_integral(type) || size_of(type) > 2) {
    throw Unsupported(fmt::format("it quantises to {}; the engine does to 8 and 16 bits", name_of(type)));
  }
  const Tensor whole = round(scaled, where);
  return cast(zero_point.defined() ? add(whole, in_floats(zero_point, where), where) : whole, type, where);
}

/// The attributes of opset 21 and 23; `type`: of the result, if the node says so.
Grain grain_of(NodeView& node) {
  const Grain grain{node.opset() < 13 ? 1 : node.integer("axis", 1),
                    node.opset() < 21 ? 0 : node.integer("block_size", 0)};
  constexpr std::int64_t kFar = std::int64_t{1} << 40U;
  if (grain.block < 0 || grain.block > kFar) {
    node.malformed(fmt::format("its block_size is {}", grain.block));
  }
  return grain;
}

std::optional<DType> wanted_type(NodeView& node) {
  const std::int64_t code = node.integer("output_dtype", 0);
  if (code == 0) {
    return std::nullopt;
  }
  const auto type = dtype_of_code(code);
  if (!type) {
    node.refuse(fmt::format("the engine has no {} tensors", name_of_type(code)));
  }
  return type;
}

Translation quantize_linear(NodeView& node) {
  const Grain grain = grain_of(node);
  const std::optional<DType> type = wanted_type(node);
  node.ignore("saturate");  // only for 8-bit floats, which the engine doesn't have
  if (node.integer("precision", 0) > 1) {
    node.refuse("it divides in another type than f32 (precision)");
  }
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const Tensor zero_point = optional_input(in, 2);
    const DType result = zero_point.defined() ? zero_point.dtype() : type.value_or(DType::uint8);
    const Tensor scale = in_floats(grain.spread(in[1].tensor, x, where), where);
    out[0].tensor = quantised(div(in_floats(x, where), scale, where),
                              zero_point.defined() ? grain.spread(zero_point, x, where) : Tensor(), result, where);
  }};
}

/// (x - zero point) scale
Translation dequantize_linear(NodeView& node) {
  const Grain grain = grain_of(node);
  const std::optional<DType> type = wanted_type(node);
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    Tensor whole = cast(x, DType::int32, where);
    if (const Tensor zero_point = optional_input(in, 2); zero_point.defined()) {
      whole = sub(whole, cast(grain.spread(zero_point, x, where), DType::int32, where), where);
    }
    const Tensor scale = grain.spread(in[1].tensor, x, where);
    out[0].tensor =
        cast(mul(in_floats(whole, where), in_floats(scale, where), where), type.value_or(scale.dtype()), where);
  }};
}

/// To u8, with the scale that spans the elements and 0.
Translation dynamic_quantize_linear(NodeView& node) {
  node.check_inputs(1, 1);
  return {[](Inputs in, Outputs out, Location location) {
    const Tensor& x = in[0].tensor;
    const Tensor zero = scalar_like(x, 0, location);
    const Tensor low = minimum(min(x, {}, false, location), zero, location);
    const Tensor range = sub(maximum(max(x, {}, false, location), zero, location), low, location);
    // Of zeros alone any scale will do; ONNX's reference takes a range of 1.
    const Tensor some = where(equal(range, zero, location), scalar_like(x, 1, location), range, location);
    const Tensor scale = div(some, scalar_like(x, 255, location), location);
    const Tensor zero_point = quantised(div(neg(low, location), scale, location), Tensor(), DType::uint8, location);
    out[0].tensor = quantised(div(x, scale, location), zero_point, DType::uint8, location);
    if (out.size() > 1) {
      out[1].tensor = scale;
    }
    if (out.size() > 2) {
      out[2].tensor = zero_point;
    }
  }};
}

/// A float that has every sum of `terms` products of two differences of 8-bit integers, which are at most 255.
DType exact_type(std::int64_t terms) {
  constexpr std::int64_t kLargest = 65025;  // 255^2
  return terms <= (std::int64_t{1} << 24U) / kLargest ? DType::float32 : DType::float64;
}

/// Numbers of each row, column or channel so that they broadcast; `axes`: those from theirs on.
Tensor along(const Tensor& numbers, int axes, Location where) {
  if (numbers.numel() == 1) {
    return reshape(numbers, {}, where);
  }
  if (numbers.rank() != 1) {
    return numbers;
  }
  if (axes < 1) {
    throw ShapeError(fmt::format("{} along a tensor without axes", to_string(numbers.type())));
  }
  Shape shape = Shape::filled(axes, 1);
  shape[0] = numbers.numel();
  return reshape(numbers, shape, where);
}

/// x minus its zero point, or zero points; see along().
Tensor centred(const Tensor& x, const Tensor& zero_point, int axes, DType type, Location where) {
  if (!is_integral(x.dtype()) || size_of(x.dtype()) != 1) {
    throw Unsupported(fmt::format("{} isn't of 8-bit integers", to_string(x.type())));
  }
  const Tensor whole = cast(x, type, where);
  return zero_point.defined() ? sub(whole, cast(along(zero_point, axes, where), type, where), where) : whole;
}

/// Sums of products, as f32 or f64 that are whole; a product for each row of `a` and column of `b`.
Tensor whole_product(const Tensor& a, const Tensor& a_zero, const Tensor& b, const Tensor& b_zero, Location where) {
  const DType type = exact_type(a.rank() > 0 ? a.shape().back() : 1);
  return matmul(centred(a, a_zero, 2, type, where), centred(b, b_zero, 1, type, where), where);
}

/// As i32, which wraps around.
Tensor as_sums(const Tensor& whole, Location where) {
  return cast(cast(whole, DType::int64, where), DType::int32, where);
}

Translation matmul_integer(NodeView& node) {
  node.check_inputs(2, 4);
  return {[](Inputs in, Outputs out, Location where) {
    out[0].tensor =
        as_sums(whole_product(in[0].tensor, optional_input(in, 2), in[1].tensor, optional_input(in, 3), where), where);
  }};
}

/// The sums in f32, times the scales of both operands over that of the result.
Tensor requantised(const Tensor& sums, const Tensor& a_scale, const Tensor& b_scale, Inputs in, Location where) {
  const Tensor scale = mul(in_floats(a_scale, where), in_floats(b_scale, where), where);
  const Tensor factor = div(scale, in_floats(reshape(in[6].tensor, {}, where), where), where);
  const Tensor scaled = mul(in_floats(sums, where), factor, where);
  return quantised(scaled, reshape(in[7].tensor, {}, where), in[7].tensor.dtype(), where);
}

/// a, its scale and zero point; b, its scale and zero point; the result's scale and zero point.
Translation qlinear_matmul(NodeView& node) {
  node.check_inputs(8, 8);
  return {[](Inputs in, Outputs out, Location where) {
    const Tensor whole = whole_product(in[0].tensor, in[2].tensor, in[3].tensor, in[5].tensor, where);
    out[0].tensor = requantised(whole, along(in[1].tensor, 2, where), along(in[4].tensor, 1, where), in, where);
  }};
}

/// A convolution of whole numbers. Padding is 0 after the zero point is taken away.
struct WholeConvolution {
  Translation convolution;

  Tensor operator()(const Tensor& x, const Tensor& x_zero, const Tensor& weight, const Tensor& weight_zero,
                    Location where) const {
    std::int64_t terms = 1;
    for (int axis = 1; axis < weight.rank(); ++axis) {
      terms *= weight.shape()[axis];
    }
    const DType type = exact_type(terms);
    const std::array<Value, 2> operands{
        {{centred(x, x_zero, x.rank(), type, where)}, {centred(weight, weight_zero, weight.rank(), type, where)}}};
    std::array<Value, 1> result;
    convolution.run(operands, result, where);
    return result[0].tensor;
  }
};

Translation conv_integer(NodeView& node) {
  const WholeConvolution convolve{convolution_of_two(node)};
  node.check_inputs(2, 4);
  return {[convolve](Inputs in, Outputs out, Location where) {
    const Tensor x_zero = optional_input(in, 2);
    if (x_zero.defined() && x_zero.numel() != 1) {
      throw Unsupported(fmt::format("a zero point {} of the input", to_string(x_zero.type())));
    }
    out[0].tensor = as_sums(convolve(in[0].tensor, x_zero, in[1].tensor, optional_input(in, 3), where), where);
  }};
}

/// As qlinear_matmul, with scales of output channels; and a bias in i32, in units of both scales.
Translation qlinear_conv(NodeView& node) {
  const WholeConvolution convolve{convolution_of_two(node)};
  node.check_inputs(8, 9);
  return {[convolve](Inputs in, Outputs out, Location where) {
    Tensor whole = convolve(in[0].tensor, in[2].tensor, in[3].tensor, in[5].tensor, where);
    const int channels_on = whole.rank() - 1;  // axes from that of the channels on
    if (const Tensor bias = optional_input(in, 8); bias.defined()) {
      whole =
          add(cast(whole, DType::float64, where), cast(along(bias, channels_on, where), DType::float64, where), where);
    }
    out[0].tensor =
        requantised(whole, reshape(in[1].tensor, {}, where), along(in[4].tensor, channels_on, where), in, where);
  }};
}

/// x 2^y, or x / 2^y rounded down; 0 if y is the number of bits or more.
Translation bit_shift(NodeView& node) {
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    node.malformed("its direction is neither LEFT nor RIGHT");
  }
  return binary(node, [left = direction == "LEFT"](const Tensor& x, const Tensor& y, Location location) {
    if (!is_integral(x.dtype()) || is_signed_integral(x.dtype()) || x.dtype() != y.dtype()) {
      throw DTypeError(fmt::format("{} and {}", to_string(x.type()), to_string(y.type())));
    }
    const auto bits = static_cast<double>(8 * size_of(x.dtype()));
    const Tensor power =
        pow(scalar_like(x, 2, location), Term(minimum(y, scalar_like(x, bits - 1, location), location), location));
    const Tensor shifted = left ? mul(x, power, location) : quotient(x, power, location);
    return where(less(y, scalar_like(y, bits, location), location), shifted, scalar_like(x, 0, location), location);
  });
}

}  // namespace

void add_quantised(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&), const char* limits = "") {
    all.push_back({name, first, kNewestOpset, translate, limits});
  };
  op("BitShift", 11, bit_shift);
  op("ConvInteger", 10, conv_integer);
  op("DequantizeLinear", 10, dequantize_linear, "of 8, 16 and 32 bits");
  op("DynamicQuantizeLinear", 11, dynamic_quantize_linear);
  op("MatMulInteger", 10, matmul_integer);
  op("QLinearConv", 10, qlinear_conv);
  op("QLinearMatMul", 10, qlinear_matmul);
  op("QuantizeLinear", 10, quantize_linear, "to 8 and 16 bits");
}

}  // namespace diptych::onnx
