#pragma once

#include <cstddef>

#include "framework/core/dtype.h"
#include "framework/dispatch/call.h"
#include "framework/kernels/window.h"

namespace diptych::kernels {

/// A 2-d convolution of x[batch, groups * channels, rows.input, columns.input] with weight[groups * outputs, channels,
/// rows.kernel, columns.kernel]. The arithmetic treats padding cells as zeros: an infinite or NaN weight makes them
/// NaN.
struct ConvolutionShape {
  std::int64_t batch = 0;
  std::int64_t groups = 1;
  std::int64_t channels = 0;  ///< of the input, per group
  std::int64_t outputs = 0;   ///< channels of the output, per group
  WindowAxis rows;
  WindowAxis columns;

  std::int64_t input_plane() const { return rows.input * columns.input; }
  std::int64_t output_plane() const { return rows.output * columns.output; }
  std::int64_t taps() const { return rows.kernel * columns.kernel; }
  /// Number of elements of x that one output reads.
  std::int64_t depth() const { return channels * taps(); }
};

/// Dense f32 or f64; `bias` may be null. Groups with few channels are computed directly, all others as products of the
/// weights and the values that the taps read (correlation.h), in blocks that depend on the shape alone: the same bits
/// on every instruction set. The workspace is bounded, except for a copy of the weights or of dweight. `packed`: null,
/// or what pack_weights() has written. For the `epilogue`, or null, a row is a plane of y.
void convolution(const ConvolutionShape& shape, DType dtype, const void* x, const void* weight, const void* bias,
                 void* y, const Epilogue* epilogue = nullptr, const void* packed = nullptr);
/// The bytes that pack_weights() writes; 0: packing ahead would save less than a fiftieth of the time.
std::size_t packed_weights_bytes(const ConvolutionShape& shape, DType dtype);
/// `to` is aligned to a cache line.
void pack_weights(const ConvolutionShape& shape, DType dtype, const void* weight, void* to);
/// The transpose in x: dx from dy and weight. The arithmetic treats padding cells around dy as zeros, too.
void convolution_input_gradient(const ConvolutionShape& shape, DType dtype, const void* dy, const void* weight,
                                void* dx);
/// The transpose in weight: dweight from x and dy.
void convolution_weight_gradient(const ConvolutionShape& shape, DType dtype, const void* x, const void* dy,
                                 void* dweight);

}  // namespace diptych::kernels
