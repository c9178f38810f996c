#include "framework/ops/matmul.h"

#include <limits>

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/kernels/gemm.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/lengths.h"
#include "framework/ops/matrices.h"
#include "framework/ops/view.h"
#include "framework/ops/window_ops.h"

namespace diptych {
namespace {

using namespace ops;

void check_matrices(const InferCall& call) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.input(static_cast<int>(i)).dtype != call.input(0).dtype) {
      call.fail_dtype("element types differ", "cast one of them");
    }
  }
  const Shape& a = call.shape(0);
  const Shape& b = call.shape(1);
  if (a.rank() < 2 || b.rank() < 2) {
    call.fail_shape("needs two matrices", "reshape or unsqueeze the inputs to two axes at least");
  }
  for (const Shape* shape : {&a, &b}) {
    for (const std::int64_t length : *shape) {
      if (length > std::numeric_limits<std::int32_t>::max()) {
        call.fail_shape("a length exceeds the 32 bits of BLAS", "split the matrix");
      }
    }
  }
  const std::int64_t rows = rows_of(b);
  if (a.back() != rows) {
    const bool fits_transposed = a.back() == b.back() || rows_of(a) == rows;
    call.fail_shape(
        fmt::format("inner dimensions differ ({} vs {})", a.back(), rows),
        fits_transposed ? "transpose one of them?" : "the columns of the first must be the rows of the second");
  }
}

void check_count(const InferCall& call, const TensorType& output) {
  if (!element_count(output.shape)) [[unlikely]] {
    call.fail_shape("the result has too many elements", "");
  }
}

void infer_matmul(const InferCall& call, TensorType& output) {
  check_matrices(call);
  const Shape& a = call.shape(0);
  const Shape& b = call.shape(1);
  output.dtype = call.input(0).dtype;
  output.shape = Shape();
  if ((a.rank() > 2 || b.rank() > 2) && !broadcast(batch_of(a), batch_of(b), output.shape)) {
    call.fail_shape("the leading axes don't broadcast",
                    "align them from the right: lengths must be equal, or one of them 1");
  }
  output.shape.push_back(rows_of(a));
  output.shape.push_back(b.back());
  check_count(call, output);
}

double matmul_flops(const InferCall& call, const TensorType& output) {
  return 2.0 * static_cast<double>(call.shape(0).back()) * static_cast<double>(output.shape.product());
}

/// The rows of all matrices as one matrix.
Tensor stacked_rows(const Tensor& x) {
  if (x.rank() == 2) {
    return x;
  }
  return reshape(x, {batch_of(x.shape()).product() * rows_of(x.shape()), x.shape().back()});
}

/// [..., M, N] -> [M, ... N]: the matrices side by side.
Tensor side_by_side(const Tensor& x) {
  Axes axes{x.rank() - 2};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis != x.rank() - 2) {
      axes.push_back(axis);
    }
  }
  const std::int64_t rows = rows_of(x.shape());
  return reshape(permute(x, axes), {rows, batch_of(x.shape()).product() * x.shape().back()});
}

bool is_one_matrix(const Shape& shape) { return batch_of(shape).product() == 1; }

/// x^T cotangent, where a single `y` is multiplied with all matrices of `x`: one GEMM instead of one per matrix and a
/// sum.
Tensor gradient_of_weight(const Tensor& x, const Tensor& cotangent) {
  return matmul(transpose(stacked_rows(x)), stacked_rows(cotangent));
}

Gradients matmul_gradients(const VjpCall& v) {
  const Tensor& g = v.cotangent;
  Gradients gradients;
  const bool one_x = is_one_matrix(v.input_type(0).shape);
  const bool one_y = is_one_matrix(v.input_type(1).shape);
  if (v.needs(0)) {
    gradients[0] = one_x && !one_y ? matmul(side_by_side(g), transpose(side_by_side(v.input(1))))
                                   : matmul(g, transpose(v.input(1)));
  }
  if (v.needs(1)) {
    gradients[1] = one_y && !one_x ? gradient_of_weight(v.input(0), g) : matmul(transpose(v.input(0)), g);
  }
  return gradients;
}

std::vector<Sample> matmul_samples() {
  std::vector<Sample> samples;
  for (DType dtype : kFloats) {
    const auto pair = [&](SampleInput a, SampleInput b) { samples.push_back({{std::move(a), std::move(b)}, {}}); };
    const auto in = [&](const Shape& shape) { return sample(dtype, shape); };
    pair(in({5, 7}), in({7, 3}));
    pair(transposed(in({5, 7})), in({7, 3}));
    pair(in({5, 7}), transposed(in({7, 3})));
    pair(in({1, 4}), in({4, 1}));
    pair(in({2, 0}), in({0, 3}));
    pair(in({33, 40}), in({40, 65}));
    pair(in({2, 3, 4}), in({4, 5}));
    pair(in({3, 4}), in({2, 4, 5}));
    pair(in({2, 1, 3, 4}), in({5, 4, 2}));
    pair(transposed(in({2, 3, 4})), transposed(in({2, 4, 5})));
    pair(in({1, 3, 4}), in({1, 1, 4, 5}));
    pair(in({0, 3, 4}), in({4, 5}));
  }
  return samples;
}

const Op kMatmul{contraction_op({.name = "matmul",
                                 .doc = "The matrix product; leading axes broadcast",
                                 .inputs = 2,
                                 .infer = infer_matmul,
                                 .kernel = kernels::through_float<[](const KernelCall& call) {
                                   kernels::gemm(call.inputs[0], call.inputs[1], nullptr, call.output, call.packed,
                                                 call.epilogue);
                                 }>,
                                 .packing = &kernels::kRightSide,
                                 .epilogue_axes = 1,
                                 .vjp = matmul_gradients,
                                 .saves = {.inputs = 3},
                                 .linear = 3,
                                 .flops = matmul_flops,
                                 .samples = matmul_samples,
                                 .family = "matmul"})};

void infer_linear(const InferCall& call, TensorType& output) {
  check_matrices(call);
  if (call.shape(1).rank() != 2) {
    call.fail_shape("the weight is not a matrix", "give a weight of [in, out]");
  }
  const std::int64_t columns = call.shape(1).back();
  if (call.inputs.size() > 2 && call.shape(2) != Shape{columns}) {
    call.fail_shape("the bias doesn't fit the weight", fmt::format("give a bias of [{}]", columns));
  }
  output = call.input(0);
  output.shape[output.shape.rank() - 1] = columns;
  check_count(call, output);
}

std::vector<Sample> linear_samples() {
  std::vector<Sample> samples;
  for (DType dtype : kFloats) {
    const auto in = [&](const Shape& shape) { return sample(dtype, shape); };
    samples.push_back({{in({5, 7}), in({7, 3}), in({3})}, {}});
    samples.push_back({{in({2, 3, 4}), transposed(in({4, 5})), in({5})}, {}});
    samples.push_back({{transposed(in({2, 3, 4})), in({4, 5}), in({5})}, {}});
    samples.push_back({{in({2, 3, 4}), in({4, 5})}, {}});
    samples.push_back({{in({2, 0}), in({0, 3}), in({3})}, {}});
    samples.push_back({{in({0, 4}), in({4, 3}), in({3})}, {}});
    samples.push_back({{in({3, 450}), in({450, 20}), in({20})}, {}});
  }
  return samples;
}

const Op kLinear{contraction_op(
    {.name = "linear",
     .doc = "x weight + bias; the products are added to the bias",
     .inputs = 3,
     .least_inputs = 2,
     .infer = infer_linear,
     .kernel = kernels::through_float<[](const KernelCall& call) {
       kernels::gemm(call.inputs[0], call.inputs[1], call.input_count > 2 ? &call.inputs[2] : nullptr, call.output,
                     call.packed, call.epilogue);
     }>,
     .packing = &kernels::kRightSide,
     .epilogue_axes = 1,
     .vjp = [](const VjpCall& v) -> Gradients {
       return {v.needs(0) ? matmul(v.cotangent, transpose(v.input(1))) : Tensor(),
               v.needs(1) ? gradient_of_weight(v.input(0), v.cotangent) : Tensor(),
               v.cotangent};  // the engine sums it to the bias
     },
     .saves = {.inputs = 3},
     .jvp = [](const JvpCall& j) -> Tensor {
       Tensor total;
       const auto add_part = [&](const Tensor& part) { total = total.defined() ? add(total, part) : part; };
       if (j.tangent(0).defined()) {
         add_part(linear(j.tangent(0), j.input(1)));
       }
       if (j.tangent(1).defined()) {
         add_part(linear(j.input(0), j.tangent(1)));
       }
       if (j.input_count > 2 && j.tangent(2).defined()) {
         add_part(j.tangent(2));
       }
       return total;
     },
     .flops = matmul_flops,
     .samples = linear_samples,
     .family = "matmul"})};

void infer_merged(const InferCall& call, TensorType& output) {
  check_matrices(call);
  const std::size_t count = call.inputs.size() - 1;
  const bool has_bias = call.shape(static_cast<int>(count)).rank() == 1;
  const auto weights = static_cast<int>(has_bias ? count / 2 : count);
  output = call.input(0);
  std::int64_t& columns = output.shape[output.shape.rank() - 1];
  columns = 0;
  for (int i = 1; i <= weights; ++i) {
    const Shape& weight = call.shape(i);
    if (weight.rank() != 2 || weight[0] != call.shape(0).back() || (has_bias && count % 2 != 0)) {
      call.fail_shape("needs matrices of [in, out]", "give as many biases as weights, or none");
    }
    if (has_bias && call.shape(weights + i) != Shape{weight.back()}) {
      call.fail_shape("a bias doesn't fit its weight", fmt::format("give a bias of [{}]", weight.back()));
    }
    columns += weight.back();
  }
  check_count(call, output);
}

const Op kMergedLinear{contraction_op(
    {.name = "merged_linear",
     .doc = "Products of x with several weights side by side, plus as many biases: x, weights, biases or none",
     .inputs = kMaxInputs,
     .least_inputs = 2,
     .infer = infer_merged,
     .kernel = kernels::through_float<kernels::merged_gemm>,
     .packing = &kernels::kRightSides,
     .flops = matmul_flops,
     .samples =
         [] {
           std::vector<Sample> samples;
           for (DType dtype : kFloats) {
             const auto in = [&](const Shape& shape) { return sample(dtype, shape); };
             samples.push_back({{in({5, 7}), in({7, 3}), in({7, 16})}, {}});
             samples.push_back({{in({2, 3, 4}), transposed(in({4, 5})), in({4, 1}), in({5}), in({1})}, {}});
             samples.push_back({{transposed(in({2, 3, 4})), in({4, 5}), in({5})}, {}});
             samples.push_back({{in({4, 0}), in({0, 3}), in({0, 2}), in({3}), in({2})}, {}});
             samples.push_back({{in({3, 300}), in({300, 20}), in({300, 33}), in({300, 7})}, {}});
           }
           return samples;
         },
     .family = "matmul"})};

Tensor as(DType dtype, const Tensor& x, Location where) { return x.dtype() == dtype ? x : cast(x, dtype, where); }

void check_rank(const char* op, const Tensor& x, int rank, Location where) {
  if (x.rank() != rank) {
    throw ShapeError(fmt::format("{}: {} has not {} {}", op, to_string(x.type()), rank, rank == 1 ? "axis" : "axes"),
                     where, "matmul() takes other shapes");
  }
}

}  // namespace

namespace op {
const OpDef& matmul = *kMatmul;
const OpDef& linear = *kLinear;
const OpDef& merged_linear = *kMergedLinear;
}  // namespace op

Tensor matmul(const Tensor& x, const Tensor& y, Location where) {
  const DType dtype = x.dtype() == y.dtype() ? x.dtype() : promote(x.dtype(), y.dtype());
  const bool row = x.rank() == 1;
  const bool column = y.rank() == 1;
  if (!row && !column && x.dtype() == y.dtype()) [[likely]] {
    return apply_op(kMatmul, nullptr, where, x, y);
  }
  const Tensor left = as(dtype, row ? unsqueeze(x, 0, where) : x, where);
  const Tensor right = as(dtype, column ? unsqueeze(y, 1, where) : y, where);
  const Tensor product = apply_op(kMatmul, nullptr, where, left, right);
  Shape shape;
  for (int i = 0; i < product.rank(); ++i) {
    if (!(row && i == product.rank() - 2) && !(column && i == product.rank() - 1)) {
      shape.push_back(product.shape()[i]);
    }
  }
  return shape.rank() == product.rank() ? product : reshape(product, shape, where);
}

Tensor bmm(const Tensor& x, const Tensor& y, Location where) {
  check_rank("bmm", x, 3, where);
  check_rank("bmm", y, 3, where);
  if (x.shape()[0] != y.shape()[0]) {
    throw ShapeError(fmt::format("bmm: batches differ: {} x {}", to_string(x.type()), to_string(y.type())), where,
                     "matmul() broadcasts them");
  }
  return matmul(x, y, where);
}

Tensor dot(const Tensor& x, const Tensor& y, Location where) {
  check_rank("dot", x, 1, where);
  check_rank("dot", y, 1, where);
  return matmul(x, y, where);
}

Tensor outer(const Tensor& x, const Tensor& y, Location where) {
  check_rank("outer", x, 1, where);
  check_rank("outer", y, 1, where);
  return mul(unsqueeze(x, 1, where), y, where);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Location where) {
  DType dtype = promote(x.dtype(), weight.dtype());
  if (x.rank() == 1) {
    const Tensor row = linear(unsqueeze(x, 0, where), weight, bias, where);
    return squeeze(row, 0, where);
  }
  if (!bias.defined()) {
    return apply_op(kLinear, nullptr, where, as(dtype, x, where), as(dtype, weight, where));
  }
  dtype = promote(dtype, bias.dtype());
  return apply_op(kLinear, nullptr, where, as(dtype, x, where), as(dtype, weight, where), as(dtype, bias, where));
}

}  // namespace diptych
