#include "framework/kernels/gemm.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <cblas.h>
#include <fmt/format.h>

#include "framework/kernels/dense.h"

namespace diptych::kernels {
namespace {

// Threads are ours to manage (docs/numerics.md): a BLAS call that splits its work by the number of threads has other
// bits.
const bool kSingleThreaded = [] {
  openblas_set_num_threads(1);
  return true;
}();

struct Matrix {
  const void* data;
  CBLAS_TRANSPOSE transpose;
  blasint leading;
  std::optional<Dense> copy;

  explicit Matrix(const Operand& operand) : data(operand.data), transpose(CblasNoTrans) {
    const std::int64_t rows = operand.type->shape[0];
    const std::int64_t columns = operand.type->shape[1];
    const std::int64_t row_stride = (*operand.strides)[0];
    const std::int64_t column_stride = (*operand.strides)[1];
    if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
      leading = static_cast<blasint>(rows == 1 ? columns : row_stride);
    } else if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
      transpose = CblasTrans;
      leading = static_cast<blasint>(columns == 1 ? rows : column_stride);
    } else {
      copy.emplace(operand);
      data = copy->data();
      leading = static_cast<blasint>(columns);
    }
    leading = std::max<blasint>(leading, 1);
  }
};

}  // namespace

void gemm(const Operand& a, const Operand& b, const Operand& output) {
  const auto m = static_cast<blasint>(a.type->shape[0]);
  const auto k = static_cast<blasint>(a.type->shape[1]);
  const auto n = static_cast<blasint>(b.type->shape[1]);
  if (m == 0 || n == 0) {
    return;
  }
  if (k == 0) {
    std::memset(output.data, 0,
                static_cast<std::size_t>(m) * static_cast<std::size_t>(n) * size_of(output.type->dtype));
    return;
  }
  const Matrix left(a);
  const Matrix right(b);
  if (output.type->dtype == DType::float32) {
    cblas_sgemm(CblasRowMajor, left.transpose, right.transpose, m, n, k, 1.0F, static_cast<const float*>(left.data),
                left.leading, static_cast<const float*>(right.data), right.leading, 0.0F,
                static_cast<float*>(output.data), n);
  } else {
    cblas_dgemm(CblasRowMajor, left.transpose, right.transpose, m, n, k, 1.0, static_cast<const double*>(left.data),
                left.leading, static_cast<const double*>(right.data), right.leading, 0.0,
                static_cast<double*>(output.data), n);
  }
}

const char* blas_description() {
  static const std::string text = [] {
    std::string config = openblas_get_config();
    const std::size_t space = config.find(' ', config.find(' ') + 1);
    return fmt::format("{} {}", config.substr(0, space), openblas_get_corename());
  }();
  return text.c_str();
}

}  // namespace diptych::kernels
