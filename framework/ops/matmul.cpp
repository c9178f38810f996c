#include "framework/ops/matmul.h"

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/kernels/gemm.h"
#include "framework/ops/define.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

void infer_matmul(const InferCall& call, TensorType& output) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  if (call.input(0).dtype != call.input(1).dtype) {
    call.fail_dtype("element types differ", "cast one of them");
  }
  const Shape& a = call.shape(0);
  const Shape& b = call.shape(1);
  if (a.rank() != 2 || b.rank() != 2) {
    call.fail_shape("needs two matrices", "reshape or squeeze the inputs to two axes");
  }
  if (a[1] != b[0]) {
    const bool fits_transposed = a[1] == b[1] || a[0] == b[0];
    call.fail_shape(
        fmt::format("inner dimensions differ ({} vs {})", a[1], b[0]),
        fits_transposed ? "transpose one of them?" : "the columns of the first must be the rows of the second");
  }
  output.dtype = call.input(0).dtype;
  output.shape = Shape{a[0], b[1]};
}

const Op kMatmul{{.name = "matmul",
                  .doc = "The matrix product",
                  .inputs = 2,
                  .infer = infer_matmul,
                  .kernel = kernels::through_float<[](const KernelCall& call) {
                    kernels::gemm(call.inputs[0], call.inputs[1], call.output);
                  }>,
                  .vjp = [](const VjpCall& v) -> Gradients {
                    return {v.needs(0) ? matmul(v.cotangent, transpose(v.input(1))) : Tensor(),
                            v.needs(1) ? matmul(transpose(v.input(0)), v.cotangent) : Tensor()};
                  },
                  .saves = {.inputs = 3},
                  .linear = 3,
                  .layout_sensitive = true,
                  .flops =
                      [](const InferCall& call, const TensorType& output) {
                        return 2.0 * static_cast<double>(call.shape(0)[1]) *
                               static_cast<double>(output.shape.product());
                      },
                  .samples =
                      [] {
                        std::vector<Sample> samples;
                        for (DType dtype : kFloats) {
                          const auto pair = [&](SampleInput a, SampleInput b) {
                            samples.push_back({{std::move(a), std::move(b)}, {}});
                          };
                          pair(sample(dtype, {5, 7}), sample(dtype, {7, 3}));
                          pair(transposed(sample(dtype, {5, 7})), sample(dtype, {7, 3}));
                          pair(sample(dtype, {5, 7}), transposed(sample(dtype, {7, 3})));
                          pair(sample(dtype, {1, 4}), sample(dtype, {4, 1}));
                          pair(sample(dtype, {2, 0}), sample(dtype, {0, 3}));
                          pair(sample(dtype, {33, 40}), sample(dtype, {40, 65}));
                        }
                        return samples;
                      },
                  .family = "matmul"}};

}  // namespace

Tensor matmul(const Tensor& x, const Tensor& y, Location where) { return apply_op(kMatmul, nullptr, where, x, y); }

}  // namespace diptych
