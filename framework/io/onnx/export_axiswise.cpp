// What ops are in ONNX that work along axes: layouts, indices, reductions, rows, products and windows.

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "framework/io/onnx/exporter.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing_ops.h"
#include "framework/ops/reduction_ops.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/shape.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/window_ops.h"

namespace diptych::onnx {
namespace {

using List = std::vector<std::int64_t>;

List list_of(const auto& lengths) { return {lengths.begin(), lengths.end()}; }

std::map<std::string, AttributeValue> axis_attribute(std::int64_t axis) { return {{"axis", AttributeValue(axis)}}; }

void reduce(Call& call, const std::string& op, const std::string& output) {
  const auto& [reduced, keepdims] = call.as<ops::ReduceAttributes>();
  List axes = list_of(reduced);
  if (axes.empty()) {
    for (int i = 0; i < call.types[0].shape.rank(); ++i) {
      axes.push_back(i);
    }
  }
  std::map<std::string, AttributeValue> attributes{{"keepdims", AttributeValue(std::int64_t{keepdims})}};
  if (axes.empty()) {
    call.out.emit("Identity", call.inputs, output);
  } else if (op == "ReduceSum" || call.out.opset() >= 18) {
    call.out.emit(op, {call.inputs[0], call.out.integers(axes)}, output, attributes);
  } else {
    attributes["axes"] = AttributeValue(axes);
    call.out.emit(op, {call.inputs[0]}, output, attributes);
  }
}

/// x W + b
void linear(Call& call) {
  if (call.types[0].shape.rank() == 2) {
    call.out.emit("Gemm", call.inputs, call.result);
    return;
  }
  if (call.inputs.size() < 3) {
    call.out.emit("MatMul", call.inputs, call.result);
    return;
  }
  call.out.emit("Add", {call.out.emit("MatMul", {call.inputs[0], call.inputs[1]}), call.inputs[2]}, call.result);
}

void reshape(Call& call) {
  call.out.emit("Reshape", {call.inputs[0], call.out.integers(list_of(call.type.shape))}, call.result,
                {{"allowzero", AttributeValue(std::int64_t{call.type.shape.contains(0)})}});
}
void permute(Call& call) {
  call.out.emit("Transpose", call.inputs, call.result,
                {{"perm", AttributeValue(list_of(call.as<ops::AxesAttributes>().axes))}});
}
void expand(Call& call) {
  call.out.emit("Expand", {call.inputs[0], call.out.integers(list_of(call.type.shape))}, call.result);
}

void slice(Call& call) {
  auto [axis, start, stop, step] = call.as<ops::SliceAttributes>();
  if (step < 0 && stop < 0) {
    stop = std::numeric_limits<std::int64_t>::min() / 2;  // down to the first element
  }
  call.out.emit("Slice",
                {call.inputs[0], call.out.integers({start}), call.out.integers({stop}), call.out.integers({axis}),
                 call.out.integers({step})},
                call.result);
}

void flip(Call& call) {
  const List axes = list_of(call.as<ops::AxesAttributes>().axes);
  call.out.emit("Slice",
                {call.inputs[0], call.out.integers(List(axes.size(), -1)),
                 call.out.integers(List(axes.size(), std::numeric_limits<std::int64_t>::min() / 2)),
                 call.out.integers(axes), call.out.integers(List(axes.size(), -1))},
                call.result);
}

void concat(Call& call) {
  call.out.emit("Concat", call.inputs, call.result, axis_attribute(call.as<ops::AxisAttributes>().axis));
}

template <bool upper>
void triangle(Call& call) {
  call.out.emit("Trilu",
                {call.inputs[0], call.out.constant(Tensor::scalar(call.as<ops::DiagonalAttributes>().diagonal))},
                call.result, {{"upper", AttributeValue(std::int64_t{upper})}});
}

void pad(Call& call) {
  const auto& [before, after, value] = call.as<ops::PadAttributes>();
  List widths = list_of(before);
  widths.insert(widths.end(), after.begin(), after.end());
  call.out.emit("Pad", {call.inputs[0], call.out.integers(widths), scalar(call, value)}, call.result);
}

template <const char* name>
void last_axis(Call& call) {
  call.out.emit(name, call.inputs, call.result, axis_attribute(-1));
}

/// softmax(scale scores + mask), step by step; `mask`: which input it is, if there is one.
void emit_softmax(Call& call, std::string scores, const Shape& shape, std::size_t mask, const std::string& result) {
  const DType dtype = call.type.dtype;
  const auto& [scale, is_causal] = call.as<ops::SoftmaxAttributes>();
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  if (scale != 1) {
    scores = call.out.emit("Mul", {scores, scalar(call, scale)});
  }
  if (call.inputs.size() > mask) {
    scores = call.types[mask].dtype == DType::boolean
                 ? call.out.emit("Where", {call.inputs[mask], scores, scalar(call, kHidden)})
                 : call.out.emit("Add", {scores, call.inputs[mask]});
  }
  if (is_causal) {
    const Shape plane{shape[shape.rank() - 2], shape.back()};
    const Tensor above = triu(full(plane, 1), 1);
    const Tensor hidden = where(equal(above, full_like(above, 0)), full(plane, 0, dtype), full(plane, kHidden, dtype));
    scores = call.out.emit("Add", {scores, call.out.constant(hidden)});
  }
  call.out.emit("Softmax", {scores}, result, axis_attribute(-1));
}

void masked_softmax(Call& call) { emit_softmax(call, call.inputs[0], call.types[0].shape, 1, call.result); }

void attention(Call& call) {
  const Shape& k = call.types[1].shape;
  const int rank = k.rank();
  List axes;
  for (int axis = 0; axis < rank - 2; ++axis) {
    axes.push_back(axis);
  }
  axes.push_back(rank - 1);
  axes.push_back(rank - 2);
  const std::string transposed = call.out.emit("Transpose", {call.inputs[1]}, {{"perm", AttributeValue(axes)}});
  Shape scores = call.types[0].shape;
  scores[rank - 1] = k[rank - 2];
  const std::string weights = call.out.fresh(call.result + "_weights");
  emit_softmax(call, call.out.emit("MatMul", {call.inputs[0], transposed}), scores, 3, weights);
  call.out.emit("MatMul", {weights, call.inputs[2]}, call.result);
}

void index_select(Call& call) {
  call.out.emit("Gather", call.inputs, call.result, axis_attribute(call.as<ops::AxisAttributes>().axis));
}
void embedding(Call& call) { call.out.emit("Gather", {call.inputs[1], call.inputs[0]}, call.result); }
void gather(Call& call) {
  call.out.emit("GatherElements", call.inputs, call.result, axis_attribute(call.as<ops::AxisAttributes>().axis));
}

void normalise_indices(Call& call) {
  const auto& [lengths, from_end] = call.as<ops::IndexAttributes>();
  if (!from_end) {
    call.out.emit("Identity", call.inputs, call.result);
    return;
  }
  const std::string& indices = call.inputs[0];
  const std::string ends = call.out.emit("Add", {indices, call.out.integers({lengths.begin(), lengths.end()})});
  call.out.emit("Where", {call.out.emit("Less", {indices, scalar(call, 0)}), ends, indices}, call.result);
}

void one_hot(Call& call) {
  const Tensor values = cast(Tensor::from({0.0F, 1.0F}, {2}), call.type.dtype);
  call.out.emit("OneHot",
                {call.inputs[0], call.out.constant(Tensor::scalar(call.as<ops::OneHotAttributes>().depth)),
                 call.out.constant(values)},
                call.result);
}

void layer_norm(Call& call) {
  const auto& [axes, eps] = call.as<ops::TrailingAttributes>();
  const int rank = call.types[0].shape.rank();
  Shape shape;
  for (int i = rank - static_cast<int>(axes); i < rank; ++i) {
    shape.push_back(call.types[0].shape[i]);
  }
  std::vector<std::string> inputs = call.inputs;
  if (inputs.size() < 2) {
    inputs.push_back(call.out.constant(full(shape, 1, call.type.dtype)));
  }
  call.out.emit("LayerNormalization", inputs, call.result,
                {{"axis", AttributeValue(-axes)}, {"epsilon", AttributeValue(eps)}});
}

std::map<std::string, AttributeValue> window_attributes(const ops::WindowAttributes& a) {
  return {{"strides", AttributeValue(List{a.stride_h, a.stride_w})},
          {"dilations", AttributeValue(List{a.dilation_h, a.dilation_w})},
          {"pads", AttributeValue(List{a.pad_top, a.pad_left, a.pad_bottom, a.pad_right})}};
}

void conv2d(Call& call) {
  const auto& convolution = call.as<ops::ConvolutionAttributes>();
  auto attributes = window_attributes(convolution);
  attributes["group"] = AttributeValue(convolution.groups);
  call.out.emit("Conv", call.inputs, call.result, attributes);
}

template <bool largest>
void pool(Call& call) {
  const auto& pooling = call.as<ops::PoolAttributes>();
  auto attributes = window_attributes(pooling);
  attributes["kernel_shape"] = AttributeValue(List{pooling.kernel_h, pooling.kernel_w});
  attributes["ceil_mode"] = AttributeValue(std::int64_t{pooling.ceil_mode});
  if (!largest) {
    attributes.erase("dilations");
    attributes["count_include_pad"] = AttributeValue(std::int64_t{pooling.count_include_pad});
  }
  call.out.emit(largest ? "MaxPool" : "AveragePool", call.inputs, call.result, attributes);
}

/// To one place, or where all windows have one size.
template <bool largest>
void adaptive_pool(Call& call) {
  const Shape& from = call.types[0].shape;
  const Shape& to = call.type.shape;
  if (to[2] == 1 && to[3] == 1) {
    call.out.emit(largest ? "GlobalMaxPool" : "GlobalAveragePool", call.inputs, call.result);
    return;
  }
  if (from[2] % to[2] != 0 || from[3] % to[3] != 0) {
    Exporter::refuse(call.node, "has windows of different sizes: ONNX has no such pooling");
  }
  const List window{from[2] / to[2], from[3] / to[3]};
  call.out.emit(largest ? "MaxPool" : "AveragePool", call.inputs, call.result,
                {{"kernel_shape", AttributeValue(window)}, {"strides", AttributeValue(window)}});
}

template <const char* name>
void reduced(Call& call) {
  reduce(call, name, call.result);
}
/// Sums of integers are i64 in the engine.
void summed(Call& call) {
  const DType from = call.types[0].dtype;
  if (from != call.type.dtype) {
    call.inputs[0] = call.out.emit("Cast", call.inputs, {{"to", AttributeValue(code_of(call.type.dtype))}});
  }
  reduce(call, "ReduceSum", call.result);
}

template <const char* name>
void export_position(Call& call) {
  call.out.emit(
      name, call.inputs, call.result,
      {{"axis", AttributeValue(call.as<ops::AxisAttributes>().axis)}, {"keepdims", AttributeValue(std::int64_t{0})}});
}

void cumsum(Call& call) {
  const auto& [axis, exclusive, reverse] = call.as<ops::ScanAttributes>();
  call.out.emit(
      "CumSum", {call.inputs[0], call.out.constant(Tensor::scalar(axis))}, call.result,
      {{"exclusive", AttributeValue(std::int64_t{exclusive})}, {"reverse", AttributeValue(std::int64_t{reverse})}});
}

// Names as template arguments need linkage.
#define DIPTYCH_ONNX_NAME(name) constexpr char k##name[] = #name
DIPTYCH_ONNX_NAME(ArgMax);
DIPTYCH_ONNX_NAME(ArgMin);
DIPTYCH_ONNX_NAME(LogSoftmax);
DIPTYCH_ONNX_NAME(MatMul);
DIPTYCH_ONNX_NAME(ReduceLogSumExp);
DIPTYCH_ONNX_NAME(ReduceMax);
DIPTYCH_ONNX_NAME(ReduceMin);
DIPTYCH_ONNX_NAME(ReduceProd);
DIPTYCH_ONNX_NAME(Softmax);
#undef DIPTYCH_ONNX_NAME

}  // namespace

void add_axiswise(Emitters& all) {
  all.insert({
      {&op::adaptive_avg_pool2d, adaptive_pool<false>},
      {&op::adaptive_max_pool2d, adaptive_pool<true>},
      {&op::argmax, export_position<kArgMax>},
      {&op::argmin, export_position<kArgMin>},
      {&op::attention, attention},
      {&op::avg_pool2d, pool<false>},
      {&op::concat, concat},
      {&op::conv2d, conv2d},
      {&op::cumsum, cumsum},
      {&op::embedding, embedding},
      {&op::expand, expand},
      {&op::flip, flip},
      {&op::gather, gather},
      {&op::index_select, index_select},
      {&op::layer_norm, layer_norm},
      {&op::linear, linear},
      {&op::log_softmax, last_axis<kLogSoftmax>},
      {&op::logsumexp, reduced<kReduceLogSumExp>},
      {&op::masked_softmax, masked_softmax},
      {&op::matmul, same<kMatMul>},
      {&op::max, reduced<kReduceMax>},
      {&op::max_pool2d, pool<true>},
      {&op::min, reduced<kReduceMin>},
      {&op::normalise_indices, normalise_indices},
      {&op::one_hot, one_hot},
      {&op::pad, pad},
      {&op::permute, permute},
      {&op::prod, reduced<kReduceProd>},
      {&op::reshape, reshape},
      {&op::slice, slice},
      {&op::softmax, last_axis<kSoftmax>},
      {&op::sum, summed},
      {&op::tril, triangle<false>},
      {&op::triu, triangle<true>},
  });
}

}  // namespace diptych::onnx
