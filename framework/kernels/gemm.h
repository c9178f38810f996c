#pragma once

#include "framework/ops/op.h"

namespace diptych::kernels {

/// output[M, N] = a[M, K] b[K, N] by one single-threaded BLAS call; a transposed view is passed as a transpose flag,
/// any other stride pattern is copied first. Eager and graph make the same call for the same strides, which is what
/// makes their bits equal. `a` and `b` are two-dimensional f32 or f64.
void gemm(const Operand& a, const Operand& b, const Operand& output);

/// The BLAS library and the core that it picked at run time, for example "OpenBLAS 0.3.21 SkylakeX".
const char* blas_description();

}  // namespace diptych::kernels
