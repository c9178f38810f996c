#pragma once

#include "framework/core/tensor.h"

/// Matrix products for f32, f64 and bf16 (accumulated in f32). Operands may be transposed or strided views: they are
/// read where they lie, and the result is the same.
namespace diptych {

/// x: [..., M, K], y: [..., K, N] -> [..., M, N]; leading axes broadcast. A vector x counts as a row, a vector y as a
/// column, and that axis is dropped from the result: [K] x [K] is a scalar.
Tensor matmul(const Tensor& x, const Tensor& y, Location where = Location::current());
/// x: [B, M, K], y: [B, K, N] -> [B, M, N], without broadcasting.
Tensor bmm(const Tensor& x, const Tensor& y, Location where = Location::current());
/// x: [K], y: [K] -> scalar.
Tensor dot(const Tensor& x, const Tensor& y, Location where = Location::current());
/// x: [M], y: [N] -> [M, N].
Tensor outer(const Tensor& x, const Tensor& y, Location where = Location::current());
/// x: [..., in], weight: [in, out], bias: [out] or undefined -> [..., out]: x weight + bias. One GEMM adds the products
/// to the bias.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Location where = Location::current());

}  // namespace diptych
