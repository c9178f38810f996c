#include "framework/io/onnx/storage_types.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/storage_types.h"

namespace diptych::onnx {
namespace {

/// How an operator deals with u64, for which i64 stands.
enum class Unsigned : std::uint8_t {
  refused,
  bits,     ///< its result has the same bits either way: sums and products
  ordered,  ///< it compares: with numbers in the same order
  own       ///< the engine's op takes u64
};

struct Rule {
  std::string_view op;
  bool moves = false;  ///< takes every type as it is
  Unsigned as_unsigned = Unsigned::refused;
  std::uint32_t other_outputs = 0;  ///< bit i: output i has a type of its own (indices, statistics in f32)
};

constexpr Rule moves(std::string_view op) { return {op, true}; }
constexpr Rule by(Unsigned way, std::string_view op, std::uint32_t other_outputs = 0) {
  return {op, false, way, other_outputs};
}

/// By name. Operators that aren't listed compute, on all types but u64.
constexpr std::array kRules{
    by(Unsigned::own, "Add"),
    by(Unsigned::ordered, "ArgMax", 1),
    by(Unsigned::ordered, "ArgMin", 1),
    moves("Bernoulli"),
    moves("BitCast"),
    moves("BitShift"),
    by(Unsigned::bits, "BitwiseAnd"),
    by(Unsigned::bits, "BitwiseNot"),
    by(Unsigned::bits, "BitwiseOr"),
    by(Unsigned::bits, "BitwiseXor"),
    moves("Cast"),
    moves("CastLike"),
    by(Unsigned::own, "Clip"),
    moves("Compress"),
    moves("Concat"),
    moves("ConcatFromSequence"),
    moves("ConstantOfShape"),
    moves("ConvInteger"),
    by(Unsigned::bits, "CumProd"),
    by(Unsigned::bits, "CumSum"),
    moves("DepthToSpace"),
    moves("DequantizeLinear"),
    by(Unsigned::own, "Div"),
    moves("DynamicQuantizeLinear"),
    by(Unsigned::bits, "Einsum"),
    by(Unsigned::own, "Equal"),
    moves("Expand"),
    moves("Flatten"),
    moves("Gather"),
    moves("GatherElements"),
    moves("GatherND"),
    by(Unsigned::bits, "Gemm"),
    by(Unsigned::own, "Greater"),
    by(Unsigned::own, "GreaterOrEqual"),
    moves("Identity"),
    moves("If"),
    by(Unsigned::refused, "LayerNormalization", 6),
    by(Unsigned::own, "Less"),
    by(Unsigned::own, "LessOrEqual"),
    moves("LinearAttention"),
    moves("Loop"),
    by(Unsigned::bits, "MatMul"),
    moves("MatMulInteger"),
    by(Unsigned::own, "Max"),
    by(Unsigned::refused, "MaxPool", 2),
    by(Unsigned::own, "Min"),
    by(Unsigned::own, "Mod"),
    by(Unsigned::own, "Mul"),
    moves("NonZero"),
    moves("OneHot"),
    moves("Optional"),
    moves("OptionalGetElement"),
    moves("Pad"),
    by(Unsigned::own, "Pow"),
    moves("QLinearConv"),
    moves("QLinearMatMul"),
    moves("QuantizeLinear"),
    moves("RandomNormalLike"),
    moves("RandomUniformLike"),
    by(Unsigned::ordered, "ReduceMax"),
    by(Unsigned::ordered, "ReduceMin"),
    by(Unsigned::bits, "ReduceProd"),
    by(Unsigned::bits, "ReduceSum"),
    by(Unsigned::bits, "ReduceSumSquare"),
    moves("Reshape"),
    moves("ReverseSequence"),
    moves("Scan"),
    moves("Scatter"),
    moves("ScatterElements"),
    moves("ScatterND"),
    moves("SequenceAt"),
    moves("SequenceConstruct"),
    moves("SequenceErase"),
    moves("SequenceInsert"),
    moves("SequenceMap"),
    moves("Slice"),
    moves("SpaceToDepth"),
    moves("Split"),
    moves("SplitToSequence"),
    moves("Squeeze"),
    by(Unsigned::own, "Sub"),
    by(Unsigned::bits, "Sum"),
    moves("Tile"),
    by(Unsigned::ordered, "TopK", 2),
    moves("Transpose"),
    moves("Trilu"),
    by(Unsigned::bits, "Unique", 14),
    moves("Unsqueeze"),
    moves("Where"),
};

Rule rule_of(std::string_view op) {
  const auto found = std::lower_bound(kRules.begin(), kRules.end(), op,
                                      [](const Rule& rule, std::string_view wanted) { return rule.op < wanted; });
  return found != kRules.end() && found->op == op ? *found : Rule{op};
}

/// One call of an operator that computes.
class Conversion {
 public:
  Conversion(const Rule& rule, Inputs in, Location where) : rule_(rule), where_(where) {
    if (!in.empty() && in[0].tensor.defined()) {
      type_ = in[0].tensor.dtype();
    }
  }

  Value converted(const Value& value) const {
    if (!value.tensor.defined()) {
      return value;
    }
    const KnownScope scope(value.known);
    return {computed(value.tensor), value.known, value.items};
  }

  Tensor result(const Tensor& tensor, std::size_t output) const {
    if (!tensor.defined() || ((rule_.other_outputs >> output) & 1U) != 0) {
      return tensor;
    }
    if (!is_storage(type_) || is_own(type_) || tensor.dtype() != compute_type(type_)) {
      return tensor;
    }
    const bool is_ordered = type_ == DType::uint64 && rule_.as_unsigned == Unsigned::ordered;
    return is_ordered ? ops::from_ordered(tensor, where_) : cast(tensor, type_, where_);
  }

 private:
  bool is_own(DType dtype) const { return dtype == DType::uint64 && rule_.as_unsigned == Unsigned::own; }

  Tensor computed(const Tensor& tensor) const {
    const DType dtype = tensor.dtype();
    if (is_own(dtype)) {
      return tensor;
    }
    if (dtype == DType::uint64 && rule_.as_unsigned == Unsigned::refused) {
      throw Unsupported(fmt::format("the engine doesn't compute it on {}", to_string(tensor.type())));
    }
    return dtype == DType::uint64 && rule_.as_unsigned == Unsigned::ordered ? ops::ordered(tensor, where_)
                                                                            : ops::computing(tensor, where_);
  }

  Rule rule_;
  Location where_;
  DType type_ = DType::boolean;  ///< of the first input, from which the results have theirs
};

}  // namespace

Translation for_storage_types(std::string_view op, Translation translation) {
  const Rule rule = rule_of(op);
  if (translation.by_type || rule.moves) {
    return translation;
  }
  const auto concerns = [](const Value& value) { return value.tensor.defined() && is_storage(value.tensor.dtype()); };
  translation.run = [rule, concerns, run = std::move(translation.run)](Inputs in, Outputs out, Location where) {
    if (std::none_of(in.begin(), in.end(), concerns)) {
      return run(in, out, where);
    }
    const Conversion conversion(rule, in, where);
    std::vector<Value> inputs;
    for (const Value& value : in) {
      inputs.push_back(conversion.converted(value));
    }
    run(inputs, out, where);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].tensor = conversion.result(out[i].tensor, i);
    }
  };
  return translation;
}

}  // namespace diptych::onnx
