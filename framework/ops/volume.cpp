// Convolutions of volumes, as sums of those of planes. With the depth in front, the planes that one plane of the kernel
// meets are a slice; with depth and batch merged they are one conv2d, whose kernels and gradients serve both.

#include <fmt/format.h>

#include "framework/ops/convolution.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

/// The graph has a convolution for each plane of the kernel.
constexpr std::int64_t kDeepestKernel = 1024;
/// Products of two of these with a stride don't overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 31;

/// Windows along the depth, and the options for the planes.
struct Depth {
  std::int64_t stride = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;
  std::int64_t dilation = 1;
  Conv2dOptions planes;
};

std::int64_t entry(const Dims& list, int index, const char* what, Location where) {
  if (list.rank() != 1 && list.rank() != 3) {
    throw ShapeError(fmt::format("conv3d: {} numbers of {}", list.rank(), what), where,
                     "give one for all axes, or one per axis");
  }
  return list[list.rank() == 1 ? 0 : index];
}

Depth depth_of(const ConvolutionOptions& options, const Tensor& weight, Location where) {
  Dims padding = options.padding;
  if (padding.rank() != 6) {
    padding = {};
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t width = entry(options.padding, axis, "padding", where);
      padding.push_back(width);
      padding.push_back(width);
    }
  }
  const Depth depth{entry(options.stride, 0, "stride", where),
                    padding[0],
                    padding[1],
                    entry(options.dilation, 0, "dilation", where),
                    {{entry(options.stride, 1, "stride", where), entry(options.stride, 2, "stride", where)},
                     {padding[2], padding[3], padding[4], padding[5]},
                     {entry(options.dilation, 1, "dilation", where), entry(options.dilation, 2, "dilation", where)},
                     options.groups}};
  if (weight.rank() != 5 || weight.shape()[2] < 1 || weight.shape()[2] > kDeepestKernel) {
    throw ShapeError(fmt::format("conv3d: a weight {}", to_string(weight.type())), where,
                     fmt::format("it is [O, C / groups, kd, kh, kw], with kd from 1 to {}", kDeepestKernel));
  }
  for (const std::int64_t value : {depth.stride - 1, depth.before, depth.after, depth.dilation - 1}) {
    if (value < 0 || value > kFar) {
      throw ShapeError("conv3d: a stride, dilation or padding of the depth is out of range", where,
                       "strides and dilations are from 1, paddings from 0");
    }
  }
  return depth;
}

void check_volume(const Tensor& x, Location where) {
  if (x.rank() != 5) {
    throw ShapeError(fmt::format("conv3d: {} has not 5 axes", to_string(x.type())), where,
                     "volumes are [N, C, D, H, W]");
  }
}

/// [N, C, D, H, W] -> [D, N, C, H, W], dense, so that slices of it are views with merged axes.
Tensor depth_first(const Tensor& x, Location where) { return contiguous(permute(x, {2, 0, 1, 3, 4}, where), where); }

/// [D, N, ...] -> [D * N, ...]
Tensor merged(const Tensor& x, Location where) {
  const Shape& s = x.shape();
  return reshape(x, {s[0] * s[1], s[2], s[3], s[4]}, where);
}
/// [D * N, C, H, W] -> [D, N, C, H, W]
Tensor parted(const Tensor& x, std::int64_t depth, std::int64_t batch, Location where) {
  const Shape& s = x.shape();
  return reshape(x, {depth, batch, s[1], s[2], s[3]}, where);
}

/// Zeros before, between and after the planes of x[D, ...]: `length` of them, the first plane at `first`.
Tensor spread(const Tensor& x, std::int64_t stride, std::int64_t first, std::int64_t length, Location where) {
  const Shape& s = x.shape();
  Tensor planes = x;
  if (stride > 1 && s[0] > 1) {
    planes = pad(unsqueeze(x, 1, where), {{}, {0, stride - 1}, {}, {}, {}, {}}, PadMode::constant, 0, where);
    planes = reshape(planes, {s[0] * stride, s[1], s[2], s[3], s[4]}, where);
    planes = slice(planes, 0, 0, (s[0] - 1) * stride + 1, 1, where);
  }
  const std::int64_t rest = length - first - planes.shape()[0];
  if (rest < 0) {
    throw ShapeError(fmt::format("conv3d: a gradient of {} planes doesn't fit into {}", s[0], length), where,
                     "give the size and options of the convolution");
  }
  return pad(planes, {{first, rest}, {}, {}, {}, {}}, PadMode::constant, 0, where);
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionOptions& options,
              Location where) {
  check_volume(x, where);
  const Depth depth = depth_of(options, weight, where);
  const std::int64_t kernel = weight.shape()[2];
  const std::int64_t room = x.shape()[2] + depth.before + depth.after - depth.dilation * (kernel - 1) - 1;
  if (room < 0) {
    throw ShapeError(
        fmt::format("conv3d: a kernel {} doesn't fit into {}", to_string(weight.type()), to_string(x.type())), where,
        "pad the input, or use a smaller kernel or dilation");
  }
  const std::int64_t planes = room / depth.stride + 1;
  Tensor source = depth_first(x, where);
  if (depth.before + depth.after > 0) {
    source = pad(source, {{depth.before, depth.after}, {}, {}, {}, {}}, PadMode::constant, 0, where);
  }
  Tensor total;
  for (std::int64_t k = 0; k < kernel; ++k) {
    const std::int64_t first = k * depth.dilation;
    const Tensor met = slice(source, 0, first, first + (planes - 1) * depth.stride + 1, depth.stride, where);
    const Tensor part =
        conv2d(merged(met, where), select(weight, 2, k, where), k == 0 ? bias : Tensor(), depth.planes, where);
    total = total.defined() ? add(total, part, where) : part;
  }
  return permute(parted(total, planes, x.shape()[0], where), {1, 2, 0, 3, 4}, where);
}

Tensor conv3d_input_gradient(const Tensor& dy, const Tensor& weight, const Dims& input_size,
                             const ConvolutionOptions& options, Location where) {
  check_volume(dy, where);
  const Depth depth = depth_of(options, weight, where);
  if (input_size.rank() != 3 || input_size[0] < 0 || input_size[0] > kFar) {
    throw ShapeError("conv3d_input_gradient: the input's size is out of range", where, "it is {D, H, W}");
  }
  const std::int64_t length = input_size[0] + depth.before + depth.after;
  const Tensor planes = merged(depth_first(dy, where), where);
  Tensor total;
  for (std::int64_t k = 0; k < weight.shape()[2]; ++k) {
    const Tensor part =
        conv2d_input_gradient(planes, select(weight, 2, k, where), {input_size[1], input_size[2]}, depth.planes, where);
    const Tensor placed =
        spread(parted(part, dy.shape()[2], dy.shape()[0], where), depth.stride, k * depth.dilation, length, where);
    total = total.defined() ? add(total, placed, where) : placed;
  }
  const Tensor inside = slice(total, 0, depth.before, depth.before + input_size[0], 1, where);
  return permute(inside, {1, 2, 0, 3, 4}, where);
}

}  // namespace diptych
