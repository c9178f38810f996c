#pragma once

#include "framework/kernels/convolution.h"

namespace diptych::kernels {

/// Whether groups have so few channels (as in depthwise convolutions above all) that a matrix product would be mostly
/// packing.
bool direct_convolution_fits(const ConvolutionShape& shape);

/// As in convolution.h; T is float or double. The bits are the same on every instruction set.
template <class T>
void direct_convolution(const ConvolutionShape& shape, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void direct_input_gradient(const ConvolutionShape& shape, const T* dy, const T* weight, T* dx);
template <class T>
void direct_weight_gradient(const ConvolutionShape& shape, const T* x, const T* dy, T* dweight);

}  // namespace diptych::kernels
