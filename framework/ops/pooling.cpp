#include "framework/ops/pooling.h"

#include "framework/kernels/dense.h"
#include "framework/kernels/pooling.h"
#include "framework/ops/define.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"
#include "framework/ops/window_attributes.h"
#include "framework/ops/window_ops.h"

// A mean is linear, so its gradient is its transpose. A maximum is linear while the winners stay the same: gather takes
// the winners' elements, backward is its transpose, and both are their own derivatives in the other input.

namespace diptych {
namespace {

using namespace ops;

template <class A>
constexpr bool is_adaptive = std::is_base_of_v<AdaptiveAttributes, A>;

kernels::PoolShape pool_shape(const InferCall& call, const PoolAttributes& a, const Shape& x) {
  kernels::PoolShape shape{x[0] * x[1], window_rows(call, a, x[2], a.kernel_h, a.ceil_mode),
                           window_columns(call, a, x[3], a.kernel_w, a.ceil_mode)};
  if (std::max(a.pad_top, a.pad_bottom) > a.kernel_h / 2 || std::max(a.pad_left, a.pad_right) > a.kernel_w / 2) {
    call.fail_shape("the padding is over half of the kernel", "pad at most kernel / 2 on each side");
  }
  shape.count_padding = a.count_include_pad;
  shape.after_rows = a.pad_bottom;
  shape.after_columns = a.pad_right;
  return shape;
}

kernels::PoolShape pool_shape(const InferCall& call, const AdaptiveAttributes& a, const Shape& x) {
  if (a.height < 0 || a.width < 0 || a.height > kLongestWindow || a.width > kLongestWindow) {
    call.fail_shape("the output size is out of range", "lengths must be at least 0 and below 2^31");
  }
  if (std::max(x[2], x[3]) > kLongestWindow || (x[2] == 0 && a.height > 0) || (x[3] == 0 && a.width > 0)) {
    call.fail_shape("there is no element to take, or too many", "the pooled axes must not be empty");
  }
  return {x[0] * x[1], {x[2], a.height}, {x[3], a.width}, /*adaptive=*/true};
}

/// For ops that pool their input 0.
template <class A>
kernels::PoolShape shape_of_pool(const InferCall& call, TensorType& output) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  const Shape& x = call.shape(0);
  if (x.rank() != 4) {
    call.fail_shape("the input has not 4 axes", "planes are [N, C, H, W]");
  }
  const kernels::PoolShape shape = pool_shape(call, call.as<A>(), x);
  output = {call.input(0).dtype, {x[0], x[1], shape.rows.output, shape.columns.output}};
  check_elements(call, output.shape);
  return shape;
}

template <class A>
kernels::PoolShape shape_of_mean(const InferCall& call, TensorType& output) {
  if constexpr (!is_adaptive<A>) {
    if (call.as<A>().dilation_h != 1 || call.as<A>().dilation_w != 1) {
      call.fail_shape("a mean's windows have no dilation", "leave the dilation at 1");
    }
  }
  return shape_of_pool<A>(call, output);
}

template <class A>
kernels::PoolShape shape_of_gather(const InferCall& call, TensorType& output) {
  const kernels::PoolShape shape = shape_of_pool<A>(call, output);
  if (call.input(1) != call.input(0)) {
    call.fail_shape("x and source differ in type", "give them the same shape and element type");
  }
  return shape;
}

template <class A>
kernels::PoolShape shape_of_scatter(const InferCall& call, TensorType& output) {
  const kernels::PoolShape shape = shape_of_pool<A>(call, output);
  if (call.input(1) != output) {
    call.fail_shape(fmt::format("dy is not of the pooling's result, {}", to_string(output)),
                    "give the pooling's own attributes and sizes");
  }
  output = call.input(0);
  return shape;
}

template <class A>
kernels::PoolShape shape_of_mean_scatter(const InferCall& call, TensorType& output) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  const A& a = call.as<A>();
  const Shape& dy = call.shape(0);
  if constexpr (!is_adaptive<A>) {
    if (a.dilation_h != 1 || a.dilation_w != 1) {
      call.fail_shape("a mean's windows have no dilation", "leave the dilation at 1");
    }
  }
  if (dy.rank() != 4 || a.source_h < 0 || a.source_w < 0 || a.source_h > kLongestWindow ||
      a.source_w > kLongestWindow) {
    call.fail_shape("dy has not 4 axes, or the source's size is out of range", "planes are [N, C, H, W]");
  }
  output = {call.input(0).dtype, {dy[0], dy[1], a.source_h, a.source_w}};
  check_elements(call, output.shape);
  const kernels::PoolShape shape = pool_shape(call, a, output.shape);
  if (shape.rows.output != dy[2] || shape.columns.output != dy[3]) {
    call.fail_shape(fmt::format("dy is not of the pooling's result, whose planes are [{},{}]", shape.rows.output,
                                shape.columns.output),
                    "give the pooling's own attributes and sizes");
  }
  return shape;
}

/// Repeats the inference, for a kernel.
using ShapeOf = kernels::PoolShape (*)(const InferCall&, TensorType&);
template <ShapeOf shape_of>
kernels::PoolShape recall(const KernelCall& kernel) {
  std::array<const TensorType*, 2> types{};
  for (int i = 0; i < kernel.input_count; ++i) {
    types[static_cast<std::size_t>(i)] = kernel.inputs[i].type;
  }
  TensorType output;
  return shape_of({*kernel.op, {types.data(), static_cast<std::size_t>(kernel.input_count)}, kernel.attributes, {}},
                  output);
}
template <ShapeOf shape_of>
void infer(const InferCall& call, TensorType& output) {
  shape_of(call, output);
}

template <ShapeOf shape_of, auto run>
void unary_kernel(const KernelCall& call) {
  const kernels::Dense x(call.inputs[0]);
  run(recall<shape_of>(call), call.output.type->dtype, x.data(), call.output.data);
}
template <ShapeOf shape_of, auto run>
void binary_kernel(const KernelCall& call) {
  const kernels::Dense x(call.inputs[0]);
  const kernels::Dense other(call.inputs[1]);
  run(recall<shape_of>(call), call.output.type->dtype, x.data(), other.data(), call.output.data);
}

template <ShapeOf shape_of>
double pool_flops(const InferCall& call, const TensorType& /*output*/) {
  TensorType output;
  const kernels::PoolShape shape = shape_of(call, output);
  const double taps = shape.adaptive
                          ? static_cast<double>(shape.input_plane()) /
                                static_cast<double>(std::max<std::int64_t>(shape.output_plane(), 1))
                          : static_cast<double>(shape.rows.kernel) * static_cast<double>(shape.columns.kernel);
  return taps * static_cast<double>(shape.planes * shape.output_plane());
}

PoolAttributes pool_of(std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t dilation = 1) {
  return {{stride, stride, padding, padding, padding, padding, dilation, dilation}, kernel, kernel};
}

template <class A>
struct PoolCase {
  Shape x;
  Shape y;
  A attributes;
};
/// Windows that are adjacent, overlapping, dilated (max only), spaced apart, uneven, and in ceil mode.
template <class A>
std::vector<PoolCase<A>> pool_cases(bool dilated) {
  if constexpr (is_adaptive<A>) {
    (void)dilated;
    return {{{2, 2, 5, 7}, {2, 2, 2, 3}, {2, 3}},
            {{1, 2, 3, 4}, {1, 2, 1, 1}, {1, 1}},
            {{1, 1, 2, 3}, {1, 1, 4, 2}, {4, 2}},
            {{0, 2, 3, 3}, {0, 2, 2, 2}, {2, 2}}};
  } else {
    PoolAttributes ceiling = pool_of(3, 2, 1);
    ceiling.ceil_mode = true;
    ceiling.count_include_pad = false;
    const PoolAttributes uneven{{1, 2, 1, 0, 0, 1, 1, 1}, 2, 3};
    std::vector<PoolCase<A>> cases = {
        {{1, 2, 4, 6}, {1, 2, 2, 3}, pool_of(2, 2, 0)}, {{2, 1, 5, 8}, {2, 1, 3, 4}, pool_of(3, 2, 1)},
        {{1, 2, 6, 8}, {1, 2, 4, 5}, ceiling},          {{1, 1, 4, 5}, {1, 1, 4, 2}, uneven},
        {{1, 1, 7, 7}, {1, 1, 3, 3}, pool_of(1, 3, 0)}, {{0, 2, 4, 4}, {0, 2, 2, 2}, pool_of(2, 2, 0)}};
    if (dilated) {
      cases.push_back({{1, 2, 9, 7}, {1, 2, 4, 3}, pool_of(3, 2, 1, 2)});
    }
    return cases;
  }
}

enum class Inputs : std::uint8_t { x, x_of_mean, x_and_source, x_and_dy };

template <class A, Inputs inputs>
std::vector<Sample> pool_samples() {
  std::vector<Sample> samples;
  for (const DType dtype : kFloats) {
    for (const PoolCase<A>& c : pool_cases<A>(inputs != Inputs::x_of_mean)) {
      const SampleInput x = sample(dtype, c.x);
      const SampleInput y = sample(dtype, c.y);
      if constexpr (inputs == Inputs::x || inputs == Inputs::x_of_mean) {
        samples.push_back(with({x}, c.attributes));
        samples.push_back(with({transposed(x)}, c.attributes));
      } else if constexpr (inputs == Inputs::x_and_source) {
        samples.push_back(with({x, x}, c.attributes));
      } else {
        samples.push_back(with({x, y}, c.attributes));
      }
    }
  }
  return samples;
}

template <class A, class Transpose>
std::vector<Sample> transposed_pool_samples() {
  std::vector<Sample> samples;
  for (const DType dtype : kFloats) {
    for (const PoolCase<A>& c : pool_cases<A>(false)) {
      samples.push_back(with({sample(dtype, c.y)}, Transpose{c.attributes, c.x[2], c.x[3]}));
    }
  }
  return samples;
}

template <class A>
Tensor max_gather(const Tensor& x, const Tensor& source, const A& attributes);
template <class A>
Tensor max_backward(const Tensor& x, const Tensor& dy, const A& attributes);

template <class A>
OpDef max_definition(const char* name, const char* doc) {
  return window_op(
      {.name = name,
       .doc = doc,
       .inputs = 1,
       .attributes = &attribute_type<A>,
       .infer = infer<shape_of_pool<A>>,
       .kernel = kernels::through_float<unary_kernel<shape_of_pool<A>, kernels::max_pool>>,
       .vjp = [](const VjpCall& v) -> Gradients { return {max_backward(v.input(0), v.cotangent, v.as<A>())}; },
       .saves = {.inputs = 1},
       .jvp = [](const JvpCall& j) -> Tensor {
         return j.tangent(0) ? max_gather(j.input(0), j.tangent(0), j.as<A>()) : Tensor();
       },
       .flops = pool_flops<shape_of_pool<A>>,
       .samples = pool_samples<A, Inputs::x>,
       .family = "pooling"});
}
template <class A>
OpDef gather_definition(const char* name, const char* doc) {
  return window_op({.name = name,
                    .doc = doc,
                    .inputs = 2,
                    .attributes = &attribute_type<A>,
                    .infer = infer<shape_of_gather<A>>,
                    .kernel = kernels::through_float<binary_kernel<shape_of_gather<A>, kernels::max_pool_gather>>,
                    .vjp = [](const VjpCall& v) -> Gradients {
                      return {Tensor(), v.needs(1) ? max_backward(v.input(0), v.cotangent, v.as<A>()) : Tensor()};
                    },
                    .saves = {.inputs = 1},
                    .jvp = [](const JvpCall& j) -> Tensor {
                      return j.tangent(1) ? max_gather(j.input(0), j.tangent(1), j.as<A>()) : Tensor();
                    },
                    .flops = pool_flops<shape_of_pool<A>>,
                    .samples = pool_samples<A, Inputs::x_and_source>,
                    .family = "pooling"});
}
template <class A>
OpDef backward_definition(const char* name, const char* doc) {
  return window_op({.name = name,
                    .doc = doc,
                    .inputs = 2,
                    .attributes = &attribute_type<A>,
                    .infer = infer<shape_of_scatter<A>>,
                    .kernel = kernels::through_float<binary_kernel<shape_of_scatter<A>, kernels::max_pool_scatter>>,
                    .vjp = [](const VjpCall& v) -> Gradients {
                      return {Tensor(), v.needs(1) ? max_gather(v.input(0), v.cotangent, v.as<A>()) : Tensor()};
                    },
                    .saves = {.inputs = 1},
                    .jvp = [](const JvpCall& j) -> Tensor {
                      return j.tangent(1) ? max_backward(j.input(0), j.tangent(1), j.as<A>()) : Tensor();
                    },
                    .flops = pool_flops<shape_of_pool<A>>,
                    .samples = pool_samples<A, Inputs::x_and_dy>,
                    .family = "pooling"});
}

template <class A>
Tensor mean_of(const Tensor& x, const A& attributes);
template <class A, class Transpose>
Tensor mean_backward(const Tensor& dy, const A& attributes, const Shape& x);

template <class A, class Transpose>
OpDef mean_definition(const char* name, const char* doc) {
  return window_op({.name = name,
                    .doc = doc,
                    .inputs = 1,
                    .attributes = &attribute_type<A>,
                    .infer = infer<shape_of_mean<A>>,
                    .kernel = kernels::through_float<unary_kernel<shape_of_mean<A>, kernels::mean_pool>>,
                    .vjp = [](const VjpCall& v) -> Gradients {
                      return {mean_backward<A, Transpose>(v.cotangent, v.as<A>(), v.input_type(0).shape)};
                    },
                    .linear = 1,
                    .flops = pool_flops<shape_of_mean<A>>,
                    .samples = pool_samples<A, Inputs::x_of_mean>,
                    .family = "pooling"});
}
template <class A, class Transpose>
OpDef mean_backward_definition(const char* name, const char* doc) {
  return window_op(
      {.name = name,
       .doc = doc,
       .inputs = 1,
       .attributes = &attribute_type<Transpose>,
       .infer = infer<shape_of_mean_scatter<Transpose>>,
       .kernel = kernels::through_float<unary_kernel<shape_of_mean_scatter<Transpose>, kernels::mean_pool_scatter>>,
       .vjp = [](const VjpCall& v) -> Gradients { return {mean_of<A>(v.cotangent, v.as<Transpose>())}; },
       .linear = 1,
       .flops = pool_flops<shape_of_mean_scatter<Transpose>>,
       .samples = transposed_pool_samples<A, Transpose>,
       .family = "pooling"});
}

const Op kMaxPool(max_definition<PoolAttributes>("max_pool2d", "The largest element of each window of x[N, C, H, W]"));
const Op kMaxPoolGather(gather_definition<PoolAttributes>("max_pool2d_gather",
                                                          "Elements of source where max_pool2d of x takes its own"));
const Op kMaxPoolBackward(backward_definition<PoolAttributes>("max_pool2d_backward",
                                                              "The gradient of max_pool2d by x, from x and dy"));
const Op kAdaptiveMax(max_definition<AdaptiveAttributes>("adaptive_max_pool2d",
                                                         "The largest element of each of height x width windows"));
const Op kAdaptiveMaxGather(gather_definition<AdaptiveAttributes>(
    "adaptive_max_pool2d_gather", "Elements of source where adaptive_max_pool2d of x takes its own"));
const Op kAdaptiveMaxBackward(backward_definition<AdaptiveAttributes>(
    "adaptive_max_pool2d_backward", "The gradient of adaptive_max_pool2d by x, from x and dy"));
const Op kAvgPool(mean_definition<PoolAttributes, MeanTransposeAttributes>("avg_pool2d",
                                                                           "The mean of each window of x[N, C, H, W]"));
const Op kAvgPoolBackward(mean_backward_definition<PoolAttributes, MeanTransposeAttributes>(
    "avg_pool2d_backward", "The transpose of avg_pool2d: its gradient from dy"));
const Op kAdaptiveAvg(mean_definition<AdaptiveAttributes, AdaptiveTransposeAttributes>(
    "adaptive_avg_pool2d", "The mean of each of height x width windows"));
const Op kAdaptiveAvgBackward(mean_backward_definition<AdaptiveAttributes, AdaptiveTransposeAttributes>(
    "adaptive_avg_pool2d_backward", "The transpose of adaptive_avg_pool2d: its gradient from dy"));

template <class A>
Tensor max_gather(const Tensor& x, const Tensor& source, const A& attributes) {
  return apply_op(is_adaptive<A> ? kAdaptiveMaxGather : kMaxPoolGather, &attributes, {}, x, source);
}
template <class A>
Tensor max_backward(const Tensor& x, const Tensor& dy, const A& attributes) {
  return apply_op(is_adaptive<A> ? kAdaptiveMaxBackward : kMaxPoolBackward, &attributes, {}, x, dy);
}
template <class A>
Tensor mean_of(const Tensor& x, const A& attributes) {
  return apply_op(is_adaptive<A> ? kAdaptiveAvg : kAvgPool, &attributes, {}, x);
}
template <class A, class Transpose>
Tensor mean_backward(const Tensor& dy, const A& attributes, const Shape& x) {
  const Transpose sized{attributes, x[2], x[3]};
  return apply_op(is_adaptive<A> ? kAdaptiveAvgBackward : kAvgPoolBackward, &sized, {}, dy);
}

PoolAttributes attributes_of(const Op& op, const Dims& kernel_size, const PoolOptions& options, int axes,
                             Location where) {
  const WindowSize kernel = window_size(kernel_size, axes, "kernel_size", op->name, where);
  return {window_attributes(options.stride.empty() ? kernel_size : options.stride, options.padding, options.dilation,
                            axes, op->name, where),
          kernel.h, kernel.w, options.ceil_mode, options.count_include_pad};
}
Tensor pool(const Op& op, const Tensor& x, const Dims& kernel_size, const PoolOptions& options, int axes,
            Location where) {
  const PoolAttributes attributes = attributes_of(op, kernel_size, options, axes, where);
  return apply_op(op, &attributes, where, x);
}

Tensor adapt(const Op& op, const Tensor& x, const Dims& output_size, int axes, Location where) {
  const WindowSize size = window_size(output_size, axes, "output_size", op->name, where);
  const AdaptiveAttributes attributes{size.h, size.w};
  return apply_op(op, &attributes, where, x);
}

/// Runs a one-dimensional pooling as a two-dimensional one whose first axis has length 1.
template <class Fn>
Tensor in_one_dimension(const Tensor& x, const char* op, Location where, const Fn& fn) {
  if (x.rank() != 3) {
    throw ShapeError(fmt::format("{}: {} has not 3 axes", op, to_string(x.type())), where, "the input is [N, C, L]");
  }
  return squeeze(fn(unsqueeze(x, 2, where)), 2, where);
}

}  // namespace

namespace op {
const OpDef& max_pool2d = *kMaxPool;
const OpDef& max_pool2d_gather = *kMaxPoolGather;
const OpDef& max_pool2d_backward = *kMaxPoolBackward;
const OpDef& adaptive_max_pool2d = *kAdaptiveMax;
const OpDef& adaptive_max_pool2d_gather = *kAdaptiveMaxGather;
const OpDef& adaptive_max_pool2d_backward = *kAdaptiveMaxBackward;
const OpDef& avg_pool2d = *kAvgPool;
const OpDef& avg_pool2d_backward = *kAvgPoolBackward;
const OpDef& adaptive_avg_pool2d = *kAdaptiveAvg;
const OpDef& adaptive_avg_pool2d_backward = *kAdaptiveAvgBackward;
}  // namespace op

Tensor max_pool2d(const Tensor& x, const Dims& kernel_size, const PoolOptions& options, Location where) {
  return pool(kMaxPool, x, kernel_size, options, 2, where);
}
Tensor max_pool1d(const Tensor& x, const Dims& kernel_size, const PoolOptions& options, Location where) {
  return in_one_dimension(x, "max_pool1d", where,
                          [&](const Tensor& planes) { return pool(kMaxPool, planes, kernel_size, options, 1, where); });
}
Tensor max_pool2d_gather(const Tensor& x, const Tensor& source, const Dims& kernel_size, const PoolOptions& options,
                         Location where) {
  const PoolAttributes attributes = attributes_of(kMaxPoolGather, kernel_size, options, 2, where);
  return apply_op(kMaxPoolGather, &attributes, where, x, source);
}
Tensor avg_pool2d(const Tensor& x, const Dims& kernel_size, const PoolOptions& options, Location where) {
  return pool(kAvgPool, x, kernel_size, options, 2, where);
}
Tensor avg_pool1d(const Tensor& x, const Dims& kernel_size, const PoolOptions& options, Location where) {
  return in_one_dimension(x, "avg_pool1d", where,
                          [&](const Tensor& planes) { return pool(kAvgPool, planes, kernel_size, options, 1, where); });
}

Tensor adaptive_max_pool2d(const Tensor& x, const Dims& output_size, Location where) {
  return adapt(kAdaptiveMax, x, output_size, 2, where);
}
Tensor adaptive_max_pool1d(const Tensor& x, const Dims& output_size, Location where) {
  return in_one_dimension(x, "adaptive_max_pool1d", where,
                          [&](const Tensor& planes) { return adapt(kAdaptiveMax, planes, output_size, 1, where); });
}
Tensor adaptive_avg_pool2d(const Tensor& x, const Dims& output_size, Location where) {
  return adapt(kAdaptiveAvg, x, output_size, 2, where);
}
Tensor adaptive_avg_pool1d(const Tensor& x, const Dims& output_size, Location where) {
  return in_one_dimension(x, "adaptive_avg_pool1d", where,
                          [&](const Tensor& planes) { return adapt(kAdaptiveAvg, planes, output_size, 1, where); });
}

Tensor global_max_pool2d(const Tensor& x, Location where) { return adaptive_max_pool2d(x, {1}, where); }
Tensor global_max_pool1d(const Tensor& x, Location where) { return adaptive_max_pool1d(x, {1}, where); }
Tensor global_avg_pool2d(const Tensor& x, Location where) { return mean(x, {-2, -1}, true, where); }
Tensor global_avg_pool1d(const Tensor& x, Location where) { return mean(x, {-1}, true, where); }

}  // namespace diptych
