#include "framework/kernels/gemm.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include <cblas.h>
#include <fmt/format.h>

#include "framework/core/strided_copy.h"
#include "framework/kernels/dense.h"

namespace diptych::kernels {
namespace {

// The engine manages threads itself (docs/numerics.md): the bits of a BLAS call that splits its work depend on the
// number of threads.
const bool kSingleThreaded = [] {
  openblas_set_num_threads(1);
  return true;
}();

/// How a matrix with given strides is described to BLAS.
struct Form {
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
  blasint leading = 1;
  bool fits = true;  ///< false: neither rows nor columns are dense

  Form(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
    std::int64_t distance = 0;
    if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
      distance = rows == 1 ? columns : row_stride;
    } else if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
      transpose = CblasTrans;
      distance = columns == 1 ? rows : column_stride;
    } else {
      fits = false;
    }
    fits = fits && distance <= std::numeric_limits<blasint>::max();
    leading = static_cast<blasint>(std::max<std::int64_t>(fits ? distance : columns, 1));
  }
};

/// A stack of matrices, given by the strides of the last two axes and of the output's batch axes.
struct Stack {
  const std::byte* data;
  std::int64_t rows, columns, row_stride, column_stride;
  Strides batch;  ///< in elements; 0 where broadcast
  Dense copy;

  static bool fits(const Operand& operand) {
    const Shape& shape = operand.type->shape;
    const int rank = shape.rank();
    return Form(shape[rank - 2], shape[rank - 1], (*operand.strides)[rank - 2], (*operand.strides)[rank - 1]).fits;
  }

  Stack(const Operand& operand, int batch_rank) : Stack(operand, batch_rank, fits(operand)) {}

 private:
  Stack(const Operand& operand, int batch_rank, bool as_it_lies)
      : data(static_cast<const std::byte*>(operand.data)),
        copy(as_it_lies ? Operand{operand.data, operand.type, operand.strides, true} : operand) {
    const Shape& shape = operand.type->shape;
    const int rank = shape.rank();
    const Strides strides = as_it_lies ? *operand.strides : contiguous_strides(shape);
    data = static_cast<const std::byte*>(copy.data());
    rows = shape[rank - 2];
    columns = shape[rank - 1];
    row_stride = strides[rank - 2];
    column_stride = strides[rank - 1];
    batch = Strides::filled(batch_rank, 0);
    const int offset = batch_rank - (rank - 2);
    for (int i = 0; i < rank - 2; ++i) {
      batch[i + offset] = shape[i] == 1 ? 0 : strides[i];
    }
  }
};

/// Merges all rows of `a` into one matrix if they are equally spaced and `b` is the same matrix for all of them.
bool flatten(Stack& a, const Stack& b, Shape& batch) {
  std::int64_t rows = a.rows;
  std::int64_t stride = a.row_stride;
  for (int i = batch.rank() - 1; i >= 0; --i) {
    if (batch[i] == 1) {
      continue;
    }
    if (b.batch[i] != 0 || (rows != 1 && a.batch[i] != stride * rows)) {
      return false;
    }
    stride = rows == 1 ? a.batch[i] : stride;
    rows *= batch[i];
  }
  // Column-major matrices don't stack by rows, and BLAS counts in 32 bits.
  if (rows != a.rows && (!Form(rows, a.columns, stride, a.column_stride).fits ||
                         (a.column_stride != 1 && a.columns != 1) || rows > std::numeric_limits<blasint>::max())) {
    return false;
  }
  a.rows = rows;
  a.row_stride = stride;
  batch = Shape();
  return true;
}

template <class T>
void multiply(const Form& a, const Form& b, blasint m, blasint n, blasint k, const void* left, const void* right,
              T beta, void* out) {
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, 1, static_cast<const T*>(left), a.leading,
                static_cast<const T*>(right), b.leading, beta, static_cast<T*>(out), n);
  } else {
    cblas_dgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, 1, static_cast<const T*>(left), a.leading,
                static_cast<const T*>(right), b.leading, beta, static_cast<T*>(out), n);
  }
}

template <class T>
void multiply_stacks(const Stack& a, const Stack& b, const Shape& batch, T beta, std::byte* out) {
  const Form left(a.rows, a.columns, a.row_stride, a.column_stride);
  const Form right(b.rows, b.columns, b.row_stride, b.column_stride);
  const auto m = static_cast<blasint>(a.rows);
  const auto k = static_cast<blasint>(a.columns);
  const auto n = static_cast<blasint>(b.columns);
  const auto* a_data = reinterpret_cast<const T*>(a.data);
  const auto* b_data = reinterpret_cast<const T*>(b.data);
  auto* result = reinterpret_cast<T*>(out);
  std::int64_t index[kMaxRank] = {};
  for (;;) {
    multiply<T>(left, right, m, n, k, a_data, b_data, beta, result);
    result += static_cast<std::int64_t>(m) * n;
    int axis = batch.rank() - 1;
    for (;; --axis) {
      if (axis < 0) {
        return;
      }
      const bool wraps = ++index[axis] == batch[axis];
      const std::int64_t steps = wraps ? 1 - batch[axis] : 1;
      a_data += a.batch[axis] * steps;
      b_data += b.batch[axis] * steps;
      if (!wraps) {
        break;
      }
      index[axis] = 0;
    }
  }
}

/// Writes the bias to every row, to which the products are then added.
void fill_rows(const Operand& bias, const Operand& output) {
  const Shape& shape = output.type->shape;
  const std::int64_t columns = shape.back();
  const Shape flat{shape.product() / columns, columns};
  strided_copy(flat, size_of(output.type->dtype), bias.data, {0, (*bias.strides)[0]}, output.data,
               contiguous_strides(flat));
}

}  // namespace

void gemm(const Operand& a, const Operand& b, const Operand* bias, const Operand& output) {
  const Shape& shape = output.type->shape;
  if (shape.contains(0)) {
    return;
  }
  if (bias != nullptr) {
    fill_rows(*bias, output);
  }
  if (a.type->shape.back() == 0) {
    if (bias == nullptr) {
      std::memset(output.data, 0, static_cast<std::size_t>(shape.product()) * size_of(output.type->dtype));
    }
    return;
  }
  Shape batch;
  for (int i = 0; i < shape.rank() - 2; ++i) {
    batch.push_back(shape[i]);
  }
  Stack left(a, batch.rank());
  const Stack right(b, batch.rank());
  if (batch.rank() > 0) {
    flatten(left, right, batch);
  }
  auto* out = static_cast<std::byte*>(output.data);
  if (output.type->dtype == DType::float32) {
    multiply_stacks<float>(left, right, batch, bias != nullptr ? 1.0F : 0.0F, out);
  } else {
    multiply_stacks<double>(left, right, batch, bias != nullptr ? 1.0 : 0.0, out);
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
