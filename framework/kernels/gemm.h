#pragma once

#include <array>
#include <string_view>

#include "framework/dispatch/op.h"

namespace diptych::kernels {

/// What multiplies matrices, in eager and graph alike.
enum class Gemm : unsigned char {
  tiles,     ///< ours (matrix_product.h): the bits depend on the shapes and the elements alone
  openblas,  ///< its bits depend on the strides of the inputs too, and on the core type that it selects
};

inline constexpr int kGemmCount = 2;
inline constexpr std::array<std::string_view, kGemmCount> kGemmNames = {"tiles", "openblas"};

namespace detail {
Gemm initial_gemm();
inline Gemm active_gemm = initial_gemm();
}  // namespace detail

/// The default, or the one named by the environment variable DIPTYCH_GEMM.
inline Gemm active_gemm() { return detail::active_gemm; }
/// Must not be called while ops run on other threads, nor between the compilation of a graph and its calls.
inline void set_gemm(Gemm gemm) { detail::active_gemm = gemm; }

/// By its name; throws Error for another one.
Gemm gemm_named(std::string_view name);

/// output[..., M, N] = a[..., M, K] b[..., K, N], leading axes broadcast; f32 or f64. It is a single product if `b` is
/// one matrix and the rows of all matrices of `a` are equally spaced, else one for each matrix. A call of OpenBLAS
/// runs on one thread.
/// Each element is a sum of products as multiply() of matrix_product.h defines it. By OpenBLAS, a transposed view is
/// passed as a transpose flag, any other layout is copied first; eager and graph make the same calls for the same
/// strides, which is what makes their bits equal.
/// With a `bias` of shape [N] the sum starts from it instead of 0. `packed`: null, or `b` as pack_right() has written
/// it. `epilogue`: null, or what is done to the rows of all matrices, as one matrix.
void gemm(const Operand& a, const Operand& b, const Operand* bias, const Operand& output, const void* packed = nullptr,
          const Epilogue* epilogue = nullptr);

/// output[..., M, N0 + N1 ...] = [a w0 + bias0, a w1 + bias1, ...] side by side, each as gemm() computes it by our
/// tiles, of the inputs a, w0, w1, ..., bias0, bias1, ...: a matrix [K, Ni] and a row [Ni] each, or no rows at all; f32
/// or f64.
void merged_gemm(const KernelCall& call);

/// The right side of products with its two inputs, for graphs that read the same one again and again.
extern const Packing kRightSide;
/// All matrices and biases of merged_gemm().
extern const Packing kRightSides;

/// The BLAS library and the core type that it selected at run time, for example "OpenBLAS 0.3.21 SkylakeX".
const char* blas_description();

}  // namespace diptych::kernels
