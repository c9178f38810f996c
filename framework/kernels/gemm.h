#pragma once

#include "framework/dispatch/call.h"

namespace diptych::kernels {

/// output[..., M, N] = a[..., M, K] b[..., K, N], leading axes broadcast; f32 or f64. It is a single BLAS call if `b`
/// is one matrix and the rows of all matrices of `a` are equally spaced, else one call per matrix. Calls are
/// single-threaded; a transposed view is passed as a transpose flag, any other layout is copied first. Eager and graph
/// make the same calls for the same strides, which is what makes their bits equal.
/// With a `bias` of shape [N] the accumulation starts from it instead of 0.
void gemm(const Operand& a, const Operand& b, const Operand* bias, const Operand& output);

/// The BLAS library and the core type that it selected at run time, for example "OpenBLAS 0.3.21 SkylakeX".
const char* blas_description();

}  // namespace diptych::kernels
