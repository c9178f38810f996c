#include "framework/nn/convolution.h"

#include "framework/nn/check.h"
#include "framework/nn/init.h"

namespace diptych::nn {
namespace {

/// [outputs, inputs / groups, kernel...]
Shape weight_shape(const char* module, std::int64_t inputs, std::int64_t outputs, const Dims& kernel,
                   std::int64_t groups) {
  detail::checked_length(module, "inputs", inputs);
  detail::checked_length(module, "outputs", outputs);
  detail::checked_length(module, "groups", groups);
  if (inputs % groups != 0 || outputs % groups != 0) {
    throw Error(fmt::format("{}: {} inputs and {} outputs can't be cut into {} groups; choose a divisor of both",
                            module, inputs, outputs, groups));
  }
  Shape shape{outputs, inputs / groups};
  for (const std::int64_t length : kernel) {
    shape.push_back(detail::checked_length(module, "the kernel size", length));
  }
  return shape;
}

init::Fans fans_of(const Shape& weight, std::int64_t groups) {
  const std::int64_t kernel = weight.product() / (weight[0] * weight[1]);
  return {weight[1] * kernel, weight[0] * kernel / groups};
}

Dims square(const Dims& kernel) { return kernel.rank() == 1 ? Dims{kernel[0], kernel[0]} : kernel; }

}  // namespace

Conv2d::Conv2d(std::int64_t inputs, std::int64_t outputs, const Dims& kernel_size, Rng& rng, const ConvOptions& options)
    : options_(options) {
  const Shape shape = weight_shape("Conv2d", inputs, outputs, square(kernel_size), options.groups);
  if (shape.rank() != 4) {
    throw Error(fmt::format("Conv2d: a kernel has 1 or 2 lengths, not {}", kernel_size.rank()));
  }
  const init::Fans fans = fans_of(shape, options.groups);
  weight = parameter("weight", init::by_name(options.init, rng, shape, fans, options.dtype));
  if (options.bias) {
    bias = parameter("bias", init::by_name(options.bias_init, rng, {outputs}, fans, options.dtype));
  }
}
Tensor Conv2d::forward(const Tensor& x) { return conv2d(x, weight, bias.value_or_none(), options_, caller()); }

Conv1d::Conv1d(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel_size, Rng& rng,
               const ConvOptions& options)
    : options_(options) {
  const Shape shape = weight_shape("Conv1d", inputs, outputs, {kernel_size}, options.groups);
  const init::Fans fans = fans_of(shape, options.groups);
  weight = parameter("weight", init::by_name(options.init, rng, shape, fans, options.dtype));
  if (options.bias) {
    bias = parameter("bias", init::by_name(options.bias_init, rng, {outputs}, fans, options.dtype));
  }
}
Tensor Conv1d::forward(const Tensor& x) { return conv1d(x, weight, bias.value_or_none(), options_, caller()); }

}  // namespace diptych::nn
