// Bits as elements of another type, operators on those of integers by tables and arithmetic of bytes, and products
// along an axis.

#include <array>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/io/onnx/operators.h"
#include "framework/ops/bitcast.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

constexpr std::int64_t kBytes = 256;

/// a and b for all pairs of bytes, at 256 a + b.
const Tensor& table_of_and() {
  static const Tensor table = [] {
    Tensor made = Tensor::empty(DType::uint8, {kBytes * kBytes});
    auto* const data = made.mutable_data<std::uint8_t>();
    for (std::int64_t i = 0; i < kBytes * kBytes; ++i) {
      data[i] = static_cast<std::uint8_t>((i / kBytes) & (i % kBytes));
    }
    return made;
  }();
  return table;
}

/// Byte by byte from the lowest on; the bytes of a negative number are those of its two's complement.
Tensor bits_in_both(const Tensor& a, const Tensor& b, std::size_t bytes, Location where) {
  std::array<Tensor, 2> rest{a, b};
  const Tensor base = Tensor::scalar(kBytes);
  Tensor result;
  for (std::size_t i = 0; i < bytes; ++i) {
    std::array<Tensor, 2> low;
    for (std::size_t side = 0; side < 2; ++side) {
      low[side] = remainder(rest[side], base, where);
      rest[side] = quotient(sub(rest[side], low[side], where), base, where);
    }
    const Tensor pair = add(mul(low[0], base, where), low[1], where);
    const Tensor both = cast(take(table_of_and(), contiguous(pair, where), where), DType::int64, where);
    const Tensor placed = i == 0 ? both : mul(both, Tensor::scalar(std::int64_t{1} << (8 * i)), where);
    result = result.defined() ? add(result, placed, where) : placed;
  }
  return result;
}

void check_bits(const Tensor& a, const Tensor& b) {
  if (!is_integral(a.dtype()) || a.dtype() != b.dtype()) {
    throw DTypeError(fmt::format("bits of {} and {}", to_string(a.type()), to_string(b.type())));
  }
}

/// With c the bits in both: c, a + b - c, a + b - 2 c.
template <int sums, int both>
Translation bitwise(NodeView& node) {
  return binary(node, [](const Tensor& a, const Tensor& b, Location where) {
    check_bits(a, b);
    const Tensor left = cast(a, DType::int64, where);
    const Tensor right = cast(b, DType::int64, where);
    const Tensor common = bits_in_both(left, right, size_of(a.dtype()), where);
    const Tensor result = sums == 0
                              ? common
                              : sub(add(left, right, where),
                                    both == 1 ? common : mul(common, Tensor::scalar(std::int64_t{both}), where), where);
    return cast(result, a.dtype(), where);
  });
}

/// -1 - x in two's complement
Tensor bitwise_not(const Tensor& x, Location where) {
  check_bits(x, x);
  return cast(sub(Tensor::scalar(std::int64_t{-1}), cast(x, DType::int64, where), where), x.dtype(), where);
}

/// Each step multiplies by what lies twice as far away as in the step before.
Translation running_products(NodeView& node) {
  const bool exclusive = node.integer("exclusive", 0) != 0;
  const bool reverse = node.integer("reverse", 0) != 0;
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const int axis = axis_of(host_integer(in[1].tensor), in[0].tensor.rank());
            const std::int64_t length = in[0].tensor.shape()[axis];
            /// From `by` elements before, 1 in front of the first.
            const auto shifted = [&](const Tensor& x, std::int64_t by) {
              std::vector<PadWidth> widths(static_cast<std::size_t>(x.rank()));
              widths[static_cast<std::size_t>(axis)].before = by;
              return pad(slice(x, axis, 0, length - by, 1, where), widths, PadMode::constant, 1, where);
            };
            Tensor y = reverse ? flip(in[0].tensor, {axis}, where) : in[0].tensor;
            if (exclusive && length > 0) {
              y = shifted(y, 1);
            }
            for (std::int64_t by = 1; by < length; by *= 2) {
              y = mul(y, shifted(y, by), where);
            }
            out[0].tensor = reverse ? flip(y, {axis}, where) : y;
          },
          {1}};
}

Translation cast_of_bits(NodeView& node) {
  const std::int64_t code = node.integer("to", 0);
  const auto to = dtype_of_code(code);
  if (!to) {
    node.refuse(fmt::format("the engine has no {} tensors", name_of_type(code)));
  }
  return unary(node, [to = *to](const Tensor& x, Location where) { return bitcast(x, to, where); });
}

}  // namespace

void add_bits(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&)) {
    all.push_back({name, first, kNewestOpset, translate, ""});
  };
  op("BitCast", 26, cast_of_bits);
  op("BitwiseAnd", 18, bitwise<0, 1>);
  op("BitwiseNot", 18, plain<bitwise_not>);
  op("BitwiseOr", 18, bitwise<1, 1>);
  op("BitwiseXor", 18, bitwise<1, 2>);
  op("CumProd", 26, running_products);
}

}  // namespace diptych::onnx
