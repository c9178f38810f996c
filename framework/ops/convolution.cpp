#include "framework/ops/convolution.h"

#include <optional>

#include <fmt/format.h>

#include "framework/kernels/convolution.h"
#include "framework/kernels/dense.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"
#include "framework/ops/window_attributes.h"
#include "framework/ops/window_ops.h"

// With C(x, w) the convolution, linear in both, I(dy, w) and W(x, dy) its transposes in x and in w:
//   <dy, C(x, w)> = <I(dy, w), x> = <W(x, dy), w>
// so each of the three has the other two as its gradients, to any order.

namespace diptych {
namespace {

using namespace ops;

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionAttributes& attributes,
                Location where);
Tensor by_input(const Tensor& dy, const Tensor& weight, std::int64_t height, std::int64_t width,
                const ConvolutionAttributes& attributes, Location where = {});
Tensor by_weight(const Tensor& x, const Tensor& dy, std::int64_t height, std::int64_t width,
                 const ConvolutionAttributes& attributes, Location where = {});

/// The shape for x[N, C, height, width] and weight[O, C / groups, kernel...], each of which may be an input or the
/// result.
kernels::ConvolutionShape convolution_shape(const InferCall& call, const ConvolutionAttributes& attributes,
                                            const Shape& x, const Shape& weight) {
  const std::int64_t groups = attributes.groups;
  if (groups < 1) {
    call.fail_shape(fmt::format("{} groups", groups), "there must be at least one");
  }
  if (weight[0] % groups != 0) {
    call.fail_shape(fmt::format("{} output channels don't divide into {} groups", weight[0], groups),
                    "the first length of the weight must be a multiple of the groups");
  }
  if (x[1] % groups != 0 || x[1] / groups != weight[1]) {
    call.fail_shape(
        fmt::format("the input has {} channels in {} groups, the weight takes {} a group", x[1], groups, weight[1]),
        "the weight's second length must be channels / groups");
  }
  kernels::ConvolutionShape shape{x[0],
                                  groups,
                                  weight[1],
                                  weight[0] / groups,
                                  window_rows(call, attributes, x[2], weight[2]),
                                  window_columns(call, attributes, x[3], weight[3])};
  // BLAS counts rows and columns in 32 bits.
  const auto too_long = [](std::int64_t a, std::int64_t b) { return b != 0 && a > kLongestWindow / b; };
  if (too_long(shape.rows.output, shape.columns.output) || too_long(x[2], x[3]) || weight[0] > kLongestWindow ||
      too_long(weight[2], weight[3]) || too_long(weight[1], weight[2] * weight[3])) {
    call.fail_shape("a plane or a kernel has more than 2^31 elements", "check sizes, padding and strides");
  }
  return shape;
}

void check_operands(const InferCall& call, std::initializer_list<int> ranks) {
  int i = 0;
  for (const int rank : ranks) {
    if (i == static_cast<int>(call.inputs.size())) {
      break;
    }
    check_domain<Domain::floating>(call, call.input(i).dtype);
    if (call.input(i).dtype != call.input(0).dtype) {
      call.fail_dtype("element types differ", "cast one of them");
    }
    if (call.shape(i).rank() != rank) {
      call.fail_shape(fmt::format("input {} has not {} axes", i, rank),
                      "planes are [N, C, H, W], weights [O, C / groups, kh, kw], a bias [O]");
    }
    ++i;
  }
}

kernels::ConvolutionShape shape_of_convolution(const InferCall& call) {
  check_operands(call, {4, 4, 1});
  const auto shape = convolution_shape(call, call.as<ConvolutionAttributes>(), call.shape(0), call.shape(1));
  if (call.inputs.size() > 2 && call.shape(2)[0] != call.shape(1)[0]) {
    call.fail_shape(fmt::format("the bias has {} elements for {} output channels", call.shape(2)[0], call.shape(1)[0]),
                    "give one a channel");
  }
  return shape;
}

Shape result_shape(const kernels::ConvolutionShape& shape) {
  return {shape.batch, shape.groups * shape.outputs, shape.rows.output, shape.columns.output};
}

void check_result(const InferCall& call, const kernels::ConvolutionShape& shape, const Shape& dy) {
  if (dy != result_shape(shape)) {
    call.fail_shape(
        fmt::format("dy {} is not the result of such a convolution, {}", to_string(dy), to_string(result_shape(shape))),
        "give the convolution's own attributes and sizes");
  }
}

kernels::ConvolutionShape shape_of_input_gradient(const InferCall& call, TensorType& output) {
  check_operands(call, {4, 4});
  const auto& attributes = call.as<TransposeAttributes>();
  const Shape& dy = call.shape(0);
  const Shape& weight = call.shape(1);
  if (attributes.groups < 1 || (weight[1] != 0 && attributes.groups > kLongestWindow / weight[1]) ||
      attributes.height < 0 || attributes.height > kLongestWindow || attributes.width < 0 ||
      attributes.width > kLongestWindow) {
    call.fail_shape("groups or sizes are out of range", "give the convolution's own attributes and sizes");
  }
  output = {call.input(0).dtype, {dy[0], attributes.groups * weight[1], attributes.height, attributes.width}};
  check_elements(call, output.shape);
  const auto shape = convolution_shape(call, attributes, output.shape, weight);
  check_result(call, shape, dy);
  return shape;
}

kernels::ConvolutionShape shape_of_weight_gradient(const InferCall& call, TensorType& output) {
  check_operands(call, {4, 4});
  const auto& attributes = call.as<TransposeAttributes>();
  const Shape& x = call.shape(0);
  const Shape& dy = call.shape(1);
  if (attributes.groups < 1 || attributes.height < 1 || attributes.height > kLongestWindow || attributes.width < 1 ||
      attributes.width > kLongestWindow) {
    call.fail_shape("groups or sizes are out of range", "give the convolution's own attributes and sizes");
  }
  output = {call.input(0).dtype, {dy[1], x[1] / attributes.groups, attributes.height, attributes.width}};
  check_elements(call, output.shape);
  const auto shape = convolution_shape(call, attributes, x, output.shape);
  check_result(call, shape, dy);
  return shape;
}

/// For kernels, whose types have already been inferred.
struct Recall {
  std::array<const TensorType*, kMaxInputs> types;
  InferCall call;
  explicit Recall(const KernelCall& kernel) : types{}, call{*kernel.op, {}, kernel.attributes, {}} {
    for (int i = 0; i < kernel.input_count; ++i) {
      types[static_cast<std::size_t>(i)] = kernel.inputs[i].type;
    }
    call.inputs = {types.data(), static_cast<std::size_t>(kernel.input_count)};
  }
};

double convolution_flops(const kernels::ConvolutionShape& shape) {
  return 2.0 * static_cast<double>(result_shape(shape).product()) * static_cast<double>(shape.depth());
}

struct ConvolutionCase {
  Shape x;
  Shape weight;
  ConvolutionAttributes attributes;
};

ConvolutionAttributes attributes_of(std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                                    std::int64_t groups) {
  return {{stride, stride, padding, padding, padding, padding, dilation, dilation}, groups};
}

std::vector<ConvolutionCase> convolution_cases() {
  return {{{2, 3, 5, 6}, {4, 3, 3, 2}, attributes_of(1, 0, 1, 1)},
          {{2, 2, 7, 5}, {3, 2, 3, 3}, attributes_of(2, 1, 1, 1)},
          {{1, 2, 4, 3}, {3, 2, 1, 1}, attributes_of(1, 0, 1, 1)},
          {{1, 4, 6, 6}, {6, 2, 2, 3}, {{2, 1, 1, 0, 2, 1, 1, 2}, 2}},
          {{2, 3, 5, 4}, {6, 1, 3, 3}, attributes_of(1, 1, 1, 3)},  // depthwise, two outputs per channel
          {{1, 10, 3, 3}, {10, 5, 2, 2}, attributes_of(1, 1, 1, 2)},
          {{0, 2, 3, 3}, {2, 2, 2, 2}, attributes_of(1, 0, 1, 1)}};
}

/// The inferred shape of a case's result, for the samples of the transposes.
Shape sample_result(const ConvolutionCase& c) {
  const auto length = [](std::int64_t input, std::int64_t padding, std::int64_t kernel, std::int64_t dilation,
                         std::int64_t stride) { return (input + padding - dilation * (kernel - 1) - 1) / stride + 1; };
  const ConvolutionAttributes& a = c.attributes;
  return {c.x[0], c.weight[0], length(c.x[2], a.pad_top + a.pad_bottom, c.weight[2], a.dilation_h, a.stride_h),
          length(c.x[3], a.pad_left + a.pad_right, c.weight[3], a.dilation_w, a.stride_w)};
}

void convolution_kernel(const KernelCall& call) {
  const kernels::Dense x(call.inputs[0]);
  const kernels::Dense weight(call.inputs[1]);
  std::optional<kernels::Dense> bias;
  if (call.input_count > 2) {
    bias.emplace(call.inputs[2]);
  }
  kernels::convolution(shape_of_convolution(Recall(call).call), call.output.type->dtype, x.data(), weight.data(),
                       bias ? bias->data() : nullptr, call.output.data, call.epilogue, call.packed);
}

/// Of f32 and f64; others are computed in a copy of f32.
constexpr Packing kWeights{
    1U << 1,
    [](const KernelCall& call) {
      const DType dtype = call.output.type->dtype;
      const bool is_wide = dtype == DType::float32 || dtype == DType::float64;
      return is_wide ? kernels::packed_weights_bytes(shape_of_convolution(Recall(call).call), dtype) : std::size_t(0);
    },
    [](const KernelCall& call, void* to) {
      const kernels::Dense weight(call.inputs[1]);
      kernels::pack_weights(shape_of_convolution(Recall(call).call), call.output.type->dtype, weight.data(), to);
    }};

const Op kConv2d{
    contraction_op({.name = "conv2d",
                    .doc = "The 2-d convolution of x[N, C, H, W] with weight[O, C / groups, kh, kw], plus a bias[O]",
                    .inputs = 3,
                    .least_inputs = 2,
                    .attributes = &attribute_type<ConvolutionAttributes>,
                    .infer =
                        [](const InferCall& call, TensorType& output) {
                          output = {call.input(0).dtype, result_shape(shape_of_convolution(call))};
                          check_elements(call, output.shape);
                        },
                    .kernel = kernels::through_float<convolution_kernel>,
                    .packing = &kWeights,
                    .epilogue_axes = 2,
                    .vjp = [](const VjpCall& v) -> Gradients {
                      const auto& a = v.as<ConvolutionAttributes>();
                      const Shape& x = v.input_type(0).shape;
                      const Shape& weight = v.input_type(1).shape;
                      return {v.needs(0) ? by_input(v.cotangent, v.input(1), x[2], x[3], a) : Tensor(),
                              v.needs(1) ? by_weight(v.input(0), v.cotangent, weight[2], weight[3], a) : Tensor(),
                              v.needs(2) ? sum(sum(v.cotangent, {2, 3}), {0}) : Tensor()};
                    },
                    .saves = {.inputs = 3},
                    .jvp = [](const JvpCall& j) -> Tensor {
                      const auto& a = j.as<ConvolutionAttributes>();
                      Tensor total;
                      const auto accumulate = [&](const Tensor& part) { total = total ? add(total, part) : part; };
                      if (j.tangent(0)) {
                        accumulate(convolve(j.tangent(0), j.input(1), {}, a, {}));
                      }
                      if (j.tangent(1)) {
                        accumulate(convolve(j.input(0), j.tangent(1), {}, a, {}));
                      }
                      if (j.input_count > 2 && j.tangent(2)) {
                        accumulate(reshape(j.tangent(2), {j.tangent(2).shape()[0], 1, 1}));
                      }
                      return total;
                    },
                    .flops = [](const InferCall& call,
                                const TensorType& /*output*/) { return convolution_flops(shape_of_convolution(call)); },
                    .samples =
                        [] {
                          std::vector<Sample> samples;
                          for (const DType dtype : kFloats) {
                            for (const ConvolutionCase& c : convolution_cases()) {
                              samples.push_back(with({sample(dtype, c.x), sample(dtype, c.weight)}, c.attributes));
                            }
                            const ConvolutionCase c = convolution_cases()[1];
                            const SampleInput bias = sample(dtype, {c.weight[0]});
                            samples.push_back(with({sample(dtype, c.x), sample(dtype, c.weight), bias}, c.attributes));
                            samples.push_back(with(
                                {transposed(sample(dtype, c.x)), transposed(sample(dtype, c.weight))}, c.attributes));
                          }
                          return samples;
                        },
                    .family = "convolution"})};

std::vector<Sample> transposed_convolution_samples(bool of_weight) {
  std::vector<Sample> samples;
  for (const DType dtype : kFloats) {
    for (const ConvolutionCase& c : convolution_cases()) {
      const Shape& wanted = of_weight ? c.weight : c.x;
      const TransposeAttributes attributes{c.attributes, wanted[2], wanted[3]};
      const SampleInput dy = sample(dtype, sample_result(c));
      samples.push_back(of_weight ? with({sample(dtype, c.x), dy}, attributes)
                                  : with({dy, sample(dtype, c.weight)}, attributes));
    }
  }
  return samples;
}

const Op kInputGradient{contraction_op(
    {.name = "conv2d_input_gradient",
     .doc = "The transpose of conv2d in x: from dy and weight",
     .inputs = 2,
     .attributes = &attribute_type<TransposeAttributes>,
     .infer = [](const InferCall& call, TensorType& output) { shape_of_input_gradient(call, output); },
     .kernel = kernels::through_float<[](const KernelCall& call) {
       TensorType output;
       const kernels::Dense dy(call.inputs[0]);
       const kernels::Dense weight(call.inputs[1]);
       kernels::convolution_input_gradient(shape_of_input_gradient(Recall(call).call, output), call.output.type->dtype,
                                           dy.data(), weight.data(), call.output.data);
     }>,
     .vjp = [](const VjpCall& v) -> Gradients {
       const auto& a = v.as<TransposeAttributes>();
       const Shape& weight = v.input_type(1).shape;
       return {v.needs(0) ? convolve(v.cotangent, v.input(1), {}, a, {}) : Tensor(),
               v.needs(1) ? by_weight(v.cotangent, v.input(0), weight[2], weight[3], a) : Tensor()};
     },
     .saves = {.inputs = 3},
     .linear = 3,
     .flops =
         [](const InferCall& call, const TensorType& /*output*/) {
           TensorType output;
           return convolution_flops(shape_of_input_gradient(call, output));
         },
     .samples = [] { return transposed_convolution_samples(false); },
     .family = "convolution"})};

const Op kWeightGradient{contraction_op(
    {.name = "conv2d_weight_gradient",
     .doc = "The transpose of conv2d in weight: from x and dy",
     .inputs = 2,
     .attributes = &attribute_type<TransposeAttributes>,
     .infer = [](const InferCall& call, TensorType& output) { shape_of_weight_gradient(call, output); },
     .kernel = kernels::through_float<[](const KernelCall& call) {
       TensorType output;
       const kernels::Dense x(call.inputs[0]);
       const kernels::Dense dy(call.inputs[1]);
       kernels::convolution_weight_gradient(shape_of_weight_gradient(Recall(call).call, output),
                                            call.output.type->dtype, x.data(), dy.data(), call.output.data);
     }>,
     .vjp = [](const VjpCall& v) -> Gradients {
       const auto& a = v.as<TransposeAttributes>();
       const Shape& x = v.input_type(0).shape;
       return {v.needs(0) ? by_input(v.input(1), v.cotangent, x[2], x[3], a) : Tensor(),
               v.needs(1) ? convolve(v.input(0), v.cotangent, {}, a, {}) : Tensor()};
     },
     .saves = {.inputs = 3},
     .linear = 3,
     .flops =
         [](const InferCall& call, const TensorType& /*output*/) {
           TensorType output;
           return convolution_flops(shape_of_weight_gradient(call, output));
         },
     .samples = [] { return transposed_convolution_samples(true); },
     .family = "convolution"})};

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionAttributes& attributes,
                Location where) {
  return bias.defined() ? apply_op(kConv2d, &attributes, where, x, weight, bias)
                        : apply_op(kConv2d, &attributes, where, x, weight);
}
Tensor by_input(const Tensor& dy, const Tensor& weight, std::int64_t height, std::int64_t width,
                const ConvolutionAttributes& attributes, Location where) {
  const TransposeAttributes sized{attributes, height, width};
  return apply_op(kInputGradient, &sized, where, dy, weight);
}
Tensor by_weight(const Tensor& x, const Tensor& dy, std::int64_t height, std::int64_t width,
                 const ConvolutionAttributes& attributes, Location where) {
  const TransposeAttributes sized{attributes, height, width};
  return apply_op(kWeightGradient, &sized, where, x, dy);
}

ConvolutionAttributes attributes_of(const ConvolutionOptions& options, int axes, const char* op, Location where) {
  return {window_attributes(options.stride, options.padding, options.dilation, axes, op, where), options.groups};
}

/// Promotes the inputs to one floating type; an undefined one stays undefined.

Tensor convolve_as(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionAttributes& attributes,
                   Location where) {
  const DType common = common_type({&x, &weight, &bias});
  return convolve(as_type(x, common, where), as_type(weight, common, where), as_type(bias, common, where), attributes,
                  where);
}

}  // namespace

namespace op {
const OpDef& conv2d = *kConv2d;
const OpDef& conv2d_input_gradient = *kInputGradient;
const OpDef& conv2d_weight_gradient = *kWeightGradient;
}  // namespace op

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Location where) {
  return convolve_as(x, weight, bias, attributes_of(options, 2, "conv2d", where), where);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& options, Location where) {
  if (x.rank() != 3 || weight.rank() != 3) {
    throw ShapeError(fmt::format("conv1d: {} x {}", to_string(x.type()), to_string(weight.type())), where,
                     "the input is [N, C, L], the weight [O, C / groups, k]");
  }
  return squeeze(convolve_as(unsqueeze(x, 2, where), unsqueeze(weight, 2, where), bias,
                             attributes_of(options, 1, "conv1d", where), where),
                 2, where);
}

Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& weight, const Dims& input_size,
                             const Conv2dOptions& options, Location where) {
  constexpr const char* kName = "conv2d_input_gradient";
  const WindowSize size = window_size(input_size, 2, "input_size", kName, where);
  const DType common = common_type({&dy, &weight});
  return by_input(as_type(dy, common, where), as_type(weight, common, where), size.h, size.w,
                  attributes_of(options, 2, kName, where), where);
}

Tensor conv2d_weight_gradient(const Tensor& x, const Tensor& dy, const Dims& kernel_size, const Conv2dOptions& options,
                              Location where) {
  constexpr const char* kName = "conv2d_weight_gradient";
  const WindowSize size = window_size(kernel_size, 2, "kernel_size", kName, where);
  const DType common = common_type({&x, &dy});
  return by_weight(as_type(x, common, where), as_type(dy, common, where), size.h, size.w,
                   attributes_of(options, 2, kName, where), where);
}

}  // namespace diptych
