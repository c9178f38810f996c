#pragma once

#include "framework/dispatch/op.h"
#include "framework/ops/window_attributes.h"

namespace diptych::ops {

struct ConvolutionAttributes : WindowAttributes {
  std::int64_t groups = 1;
  static constexpr auto fields() {
    return std::tuple_cat(WindowAttributes::fields(), std::tuple(field("groups", &ConvolutionAttributes::groups)));
  }
};

/// For the transposes, whose inputs don't determine the size of the result.
struct TransposeAttributes : ConvolutionAttributes {
  std::int64_t height = 1;
  std::int64_t width = 1;
  static constexpr auto fields() {
    return std::tuple_cat(ConvolutionAttributes::fields(), std::tuple(field("height", &TransposeAttributes::height),
                                                                      field("width", &TransposeAttributes::width)));
  }
};

struct PoolAttributes : WindowAttributes {
  std::int64_t kernel_h = 1;
  std::int64_t kernel_w = 1;
  bool ceil_mode = false;
  bool count_include_pad = true;
  static constexpr auto fields() {
    return std::tuple_cat(
        WindowAttributes::fields(),
        std::tuple(field("kernel_h", &PoolAttributes::kernel_h), field("kernel_w", &PoolAttributes::kernel_w),
                   field("ceil_mode", &PoolAttributes::ceil_mode),
                   field("count_include_pad", &PoolAttributes::count_include_pad)));
  }
};

/// The size of the result of an adaptive pooling.
struct AdaptiveAttributes {
  std::int64_t height = 1;
  std::int64_t width = 1;
  static constexpr auto fields() {
    return std::tuple(field("height", &AdaptiveAttributes::height), field("width", &AdaptiveAttributes::width));
  }
};

/// For the transpose of a mean, whose input doesn't determine the size: `source` is the size of the mean's input.
struct MeanTransposeAttributes : PoolAttributes {
  std::int64_t source_h = 1;
  std::int64_t source_w = 1;
  static constexpr auto fields() {
    return std::tuple_cat(PoolAttributes::fields(), std::tuple(field("source_h", &MeanTransposeAttributes::source_h),
                                                               field("source_w", &MeanTransposeAttributes::source_w)));
  }
};

struct AdaptiveTransposeAttributes : AdaptiveAttributes {
  std::int64_t source_h = 1;
  std::int64_t source_w = 1;
  static constexpr auto fields() {
    return std::tuple_cat(AdaptiveAttributes::fields(),
                          std::tuple(field("source_h", &AdaptiveTransposeAttributes::source_h),
                                     field("source_w", &AdaptiveTransposeAttributes::source_w)));
  }
};

}  // namespace diptych::ops

/// Handles for passes and other code that inspects graphs: `node.op == &op::mul`.
namespace diptych::op {

// matmul.cpp
extern const OpDef& matmul;
extern const OpDef& linear;
extern const OpDef& merged_linear;
// convolution.cpp
extern const OpDef& conv2d;
extern const OpDef& conv2d_input_gradient;
extern const OpDef& conv2d_weight_gradient;
// pooling.cpp
extern const OpDef& max_pool2d;
extern const OpDef& max_pool2d_gather;
extern const OpDef& max_pool2d_backward;
extern const OpDef& adaptive_max_pool2d;
extern const OpDef& adaptive_max_pool2d_gather;
extern const OpDef& adaptive_max_pool2d_backward;
extern const OpDef& avg_pool2d;
extern const OpDef& avg_pool2d_backward;
extern const OpDef& adaptive_avg_pool2d;
extern const OpDef& adaptive_avg_pool2d_backward;

}  // namespace diptych::op
