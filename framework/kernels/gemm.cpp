#include "framework/kernels/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <sys/mman.h>
#include <type_traits>
#include <vector>

#include <cblas.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/attributes.h"
#include "framework/core/error.h"
#include "framework/core/parallel.h"
#include "framework/core/strided_copy.h"
#include "framework/kernels/dense.h"
#include "framework/kernels/matrix_product.h"
#include "framework/kernels/wide_float.h"

/// OpenBLAS starts a thread for each further CPU as it is loaded, before anybody can ask for fewer, and each takes 128
/// MiB of address space; without room for that (ulimit -v) it never comes up. It asks this function of its own for how
/// many, and finds ours first. Where it has no such function, ours is never called.
extern "C" [[gnu::visibility("default")]] int openblas_num_threads_env() { return 1; }

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

  Form(std::int64_t rows, std::int64_t columns, std::int64_t row_step, std::int64_t column_step) {
    std::int64_t distance = 0;
    if ((column_step == 1 || columns == 1) && (row_step >= columns || rows == 1)) {
      distance = rows == 1 ? columns : row_step;
    } else if ((row_step == 1 || rows == 1) && (column_step >= rows || columns == 1)) {
      transpose = CblasTrans;
      distance = columns == 1 ? rows : column_step;
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
  std::int64_t rows, columns, row_step, column_step;
  Strides batch;  ///< in elements; 0 where broadcast
  Dense copy;

  static bool fits(const Operand& operand) {
    const Shape& shape = operand.type->shape;
    const int rank = shape.rank();
    return Form(shape[rank - 2], shape[rank - 1], (*operand.strides)[rank - 2], (*operand.strides)[rank - 1]).fits;
  }

  Stack(const Operand& operand, int batch_rank)
      : Stack(operand, batch_rank, active_gemm() == Gemm::tiles || fits(operand)) {}

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
    row_step = strides[rank - 2];
    column_step = strides[rank - 1];
    batch = Strides::filled(batch_rank, 0);
    const int offset = batch_rank - (rank - 2);
    for (int i = 0; i < rank - 2; ++i) {
      batch[i + offset] = shape[i] == 1 ? 0 : strides[i];
    }
  }
};

/// All but the last two.
Shape leading_axes(const Shape& shape) {
  Shape leading;
  for (int i = 0; i < shape.rank() - 2; ++i) {
    leading.push_back(shape[i]);
  }
  return leading;
}

/// Merges all rows of `a` into one matrix if they are equally spaced and `b` is the same matrix for all of them.
bool flatten(Stack& a, const Stack& b, Shape& batch) {
  std::int64_t rows = a.rows;
  std::int64_t stride = a.row_step;
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
  // For BLAS, column-major matrices don't stack by rows, and it counts in 32 bits.
  if (active_gemm() == Gemm::openblas && rows != a.rows &&
      (!Form(rows, a.columns, stride, a.column_step).fits || (a.column_step != 1 && a.columns != 1) ||
       rows > std::numeric_limits<blasint>::max())) {
    return false;
  }
  a.rows = rows;
  a.row_step = stride;
  batch = Shape();
  return true;
}

/// OpenBLAS asks for the buffer of a thread's products until it gets one: where the address space has no room for it
/// (ulimit -v), it would never return. Throws std::bad_alloc then.
void require_room_for_blas() {
  constexpr std::size_t kBuffer = std::size_t{128} << 20;
  thread_local const bool has_room = [] {
    void* const room = mmap(nullptr, kBuffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
      throw std::bad_alloc();
    }
    return munmap(room, kBuffer) == 0;
  }();
  static_cast<void>(has_room);
}

template <class T>
void call_blas(const Form& a, const Form& b, blasint m, blasint n, blasint k, const T* left, const T* right, T beta,
               T* out) {
  require_room_for_blas();
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, 1, left, a.leading, right, b.leading, beta, out, n);
  } else {
    cblas_dgemm(CblasRowMajor, a.transpose, b.transpose, m, n, k, 1, left, a.leading, right, b.leading, beta, out, n);
  }
}

/// Calls multiply(left, right, pair) for each pair of matrices; on several threads if there are enough pairs for them.
template <class T, class Multiply>
void for_each_pair(const Stack& a, const Stack& b, const Shape& batch, const Multiply& multiply) {
  const auto run = [&](std::int64_t first, std::int64_t last) {
    std::int64_t index[kMaxRank] = {};
    const auto* left = reinterpret_cast<const T*>(a.data);
    const auto* right = reinterpret_cast<const T*>(b.data);
    std::int64_t rest = first;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      index[axis] = rest % batch[axis];
      rest /= batch[axis];
      left += a.batch[axis] * index[axis];
      right += b.batch[axis] * index[axis];
    }
    for (std::int64_t pair = first; pair < last; ++pair) {
      multiply(left, right, pair);
      for (int axis = batch.rank() - 1; axis >= 0; --axis) {
        const bool wraps = ++index[axis] == batch[axis];
        const std::int64_t steps = wraps ? 1 - batch[axis] : 1;
        left += a.batch[axis] * steps;
        right += b.batch[axis] * steps;
        if (!wraps) {
          break;
        }
        index[axis] = 0;
      }
    }
  };
  const std::int64_t pairs = batch.product();
  if (active_gemm() == Gemm::tiles && are_enough(pairs)) {
    parallel_for(pairs, nanoseconds_of_product<T>(a.rows, b.columns, a.columns), run);
  } else {
    run(0,
        pairs);  // each product is divided; OpenBLAS, whose own threads some builds set up by thread, stays on this one
  }
}

template <class T>
void multiply_tiles(const Stack& a, const Stack& b, const Shape& batch, const T* bias, const void* packed,
                    const Result<T>& out) {
  if (packed != nullptr) {
    const auto right = PackedMatrix<T>::packed(b.rows, b.columns, static_cast<const T*>(packed));
    for_each_pair<T>(a, b, batch, [&](const T* left, const T* /*the same*/, std::int64_t pair) {
      multiply(Matrix<T>{left, a.rows, a.columns, a.row_step, a.column_step}, right, bias, out.part(pair * a.rows, 0));
    });
    return;
  }
  for_each_pair<T>(a, b, batch, [&](const T* left, const T* right, std::int64_t pair) {
    multiply(Matrix<T>{left, a.rows, a.columns, a.row_step, a.column_step},
             Matrix<T>{right, b.rows, b.columns, b.row_step, b.column_step}, bias, out.part(pair * a.rows, 0));
  });
}

template <class T>
void multiply_blas(const Stack& a, const Stack& b, const Shape& batch, bool adds, T* out) {
  const Form left(a.rows, a.columns, a.row_step, a.column_step);
  const Form right(b.rows, b.columns, b.row_step, b.column_step);
  const auto m = static_cast<blasint>(a.rows);
  const auto k = static_cast<blasint>(a.columns);
  const auto n = static_cast<blasint>(b.columns);
  for_each_pair<T>(a, b, batch, [&](const T* a_data, const T* b_data, std::int64_t pair) {
    call_blas<T>(left, right, m, n, k, a_data, b_data, adds ? T(1) : T(0), out + pair * a.rows * b.columns);
  });
}

/// Writes the bias to every row, to which the products are then added.
void fill_rows(const Operand& bias, const Operand& output) {
  const Shape& shape = output.type->shape;
  const std::int64_t columns = shape.back();
  const Shape flat{shape.product() / columns, columns};
  strided_copy(flat, size_of(output.type->dtype), bias.data, {0, (*bias.strides)[0]}, output.data,
               contiguous_strides(flat));
}

template <class T>
void multiply(const Stack& a, const Stack& b, const Shape& batch, const Operand* bias, const Operand& output,
              const void* packed, const Epilogue* epilogue) {
  const Result<T> out{static_cast<T*>(output.data), b.columns, epilogue};
  if (active_gemm() == Gemm::openblas) {
    if (bias != nullptr) {
      fill_rows(*bias, output);
    }
    multiply_blas(a, b, batch, bias != nullptr, out.data);
    out.finish(0, batch.product() * a.rows, 0, b.columns);
    return;
  }
  const Dense start = bias != nullptr ? Dense(*bias) : Dense();
  multiply_tiles(a, b, batch, static_cast<const T*>(start.data()), packed, out);
}

template <class T>
Matrix<T> matrix_of(const Operand& operand) {
  const Shape& shape = operand.type->shape;
  const int rank = shape.rank();
  return {static_cast<const T*>(operand.data), shape[rank - 2], shape[rank - 1], (*operand.strides)[rank - 2],
          (*operand.strides)[rank - 1]};
}

std::size_t packed_size(const KernelCall& call) {
  const Operand& right = call.inputs[1];
  const Shape& shape = right.type->shape;
  const Shape& output = call.output.type->shape;
  const DType dtype = call.output.type->dtype;
  const bool is_wide = dtype == DType::float32 || dtype == DType::float64;
  const bool is_one_matrix = shape.product() == shape[shape.rank() - 2] * shape.back();
  if (active_gemm() != Gemm::tiles || !is_wide || !is_one_matrix || shape.contains(0) || output.contains(0)) {
    return 0;
  }
  std::int64_t elements = 0;
  visit_wide_float(dtype, [&]<class T>() {
    const Matrix<T> b = matrix_of<T>(right);
    elements =
        PackedMatrix<T>::pays_ahead(b, output.product() / b.columns) ? PackedMatrix<T>::size(b.rows, b.columns) : 0;
  });
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

void pack_right(const KernelCall& call, void* to) {
  visit_wide_float(call.output.type->dtype,
                   [&]<class T>() { PackedMatrix<T>::pack(matrix_of<T>(call.inputs[1]), static_cast<T*>(to)); });
}

/// The inputs of merged_linear.
struct Merged {
  const Operand& left;
  std::span<const Operand> weights;
  std::span<const Operand> biases;

  explicit Merged(const KernelCall& call) : left(call.inputs[0]) {
    const std::span rest(call.inputs + 1, static_cast<std::size_t>(call.input_count) - 1);
    const auto first_bias =
        std::find_if(rest.begin(), rest.end(), [](const Operand& input) { return input.type->shape.rank() == 1; });
    weights = rest.first(static_cast<std::size_t>(first_bias - rest.begin()));
    biases = rest.subspan(weights.size());
  }
  std::int64_t depth() const { return left.type->shape.back(); }
};

std::size_t packed_sizes(const KernelCall& call) {
  const TensorType& output = *call.output.type;
  const bool is_wide = output.dtype == DType::float32 || output.dtype == DType::float64;
  const Merged merged(call);
  if (active_gemm() != Gemm::tiles || !is_wide || output.shape.contains(0) || merged.depth() == 0) {
    return 0;
  }
  const std::int64_t columns = output.shape.back();
  std::int64_t elements = merged.biases.empty() ? 0 : columns;
  visit_wide_float(output.dtype, [&]<class T>() { elements += PackedMatrix<T>::size(merged.depth(), columns); });
  return static_cast<std::size_t>(elements) * size_of(output.dtype);
}

/// The biases stand behind the matrices.
void pack_side_by_side(const KernelCall& call, void* to) {
  const Merged merged(call);
  const std::int64_t depth = merged.depth();
  const std::int64_t columns = call.output.type->shape.back();
  visit_wide_float(call.output.type->dtype, [&]<class T>() {
    std::vector<T> whole(static_cast<std::size_t>(depth * columns));
    T* const biases = static_cast<T*>(to) + PackedMatrix<T>::size(depth, columns);
    std::int64_t column = 0;
    for (std::size_t i = 0; i < merged.weights.size(); ++i) {
      const Shape& shape = merged.weights[i].type->shape;
      strided_copy(shape, sizeof(T), merged.weights[i].data, *merged.weights[i].strides, whole.data() + column,
                   {columns, 1});
      if (!merged.biases.empty()) {
        strided_copy({shape.back()}, sizeof(T), merged.biases[i].data, *merged.biases[i].strides, biases + column, {1});
      }
      column += shape.back();
    }
    PackedMatrix<T>::pack(Matrix<T>{whole.data(), depth, columns, columns, 1}, static_cast<T*>(to));
  });
}

template <class T>
void multiply_merged(const Merged& merged, const Shape& leading, const Result<T>& out, const void* packed) {
  Stack left(merged.left, leading.rank());
  Shape batch = leading;
  Stack whole(merged.weights[0], leading.rank());  // but for its elements
  whole.columns = out.pitch;
  flatten(left, whole, batch);
  if (packed != nullptr) {
    const T* const biases = static_cast<const T*>(packed) + PackedMatrix<T>::size(whole.rows, whole.columns);
    multiply_tiles<T>(left, whole, batch, merged.biases.empty() ? nullptr : biases, packed, out);
    return;
  }
  std::int64_t column = 0;
  for (std::size_t i = 0; i < merged.weights.size(); ++i) {
    const Stack right(merged.weights[i], leading.rank());
    const Dense bias = merged.biases.empty() ? Dense() : Dense(merged.biases[i]);
    multiply_tiles<T>(left, right, batch, static_cast<const T*>(bias.data()), nullptr, out.part(0, column));
    column += right.columns;
  }
}

}  // namespace

const Packing kRightSide{1U << 1, packed_size, pack_right};
const Packing kRightSides{~1U, packed_sizes, pack_side_by_side};

void gemm(const Operand& a, const Operand& b, const Operand* bias, const Operand& output, const void* packed,
          const Epilogue* epilogue) {
  const Shape& shape = output.type->shape;
  if (shape.contains(0)) {
    return;
  }
  if (a.type->shape.back() == 0) {
    if (bias != nullptr) {
      fill_rows(*bias, output);
    } else {
      std::memset(output.data, 0, static_cast<std::size_t>(shape.product()) * size_of(output.type->dtype));
    }
    if (epilogue != nullptr) {
      (*epilogue)(0, shape.product() / shape.back(), 0, shape.back());
    }
    return;
  }
  Shape batch = leading_axes(shape);
  Stack left(a, batch.rank());
  const Stack right(b, batch.rank());
  if (batch.rank() > 0) {
    flatten(left, right, batch);
  }
  visit_wide_float(output.type->dtype,
                   [&]<class T>() { multiply<T>(left, right, batch, bias, output, packed, epilogue); });
}

void merged_gemm(const KernelCall& call) {
  const Shape& shape = call.output.type->shape;
  if (shape.contains(0)) {
    return;
  }
  const Merged merged(call);
  if (merged.depth() == 0) {
    std::memset(call.output.data, 0, static_cast<std::size_t>(shape.product()) * size_of(call.output.type->dtype));
    std::int64_t column = 0;
    for (const Operand& bias : merged.biases) {
      const std::size_t size = size_of(call.output.type->dtype);
      const Shape part{shape.product() / shape.back(), bias.type->shape.back()};
      strided_copy(part, size, bias.data, {0, (*bias.strides)[0]},
                   static_cast<std::byte*>(call.output.data) + static_cast<std::size_t>(column) * size,
                   {shape.back(), 1});
      column += part.back();
    }
    return;
  }
  const Shape leading = leading_axes(shape);
  visit_wide_float(call.output.type->dtype, [&]<class T>() {
    multiply_merged<T>(merged, leading, Result<T>{static_cast<T*>(call.output.data), shape.back()}, call.packed);
  });
}

Gemm gemm_named(std::string_view name) {
  const auto found = std::find(kGemmNames.begin(), kGemmNames.end(), name);
  if (found == kGemmNames.end()) {
    throw Error(fmt::format("nothing called {} multiplies matrices; choose from: {}", quote(name),
                            fmt::join(kGemmNames, ", ")));
  }
  return static_cast<Gemm>(found - kGemmNames.begin());
}

namespace detail {
Gemm initial_gemm() {
  const char* wanted = std::getenv("DIPTYCH_GEMM");  // an unknown name selects the default; `diptych doctor` shows it
  return wanted != nullptr && kGemmNames[static_cast<std::size_t>(Gemm::openblas)] == wanted ? Gemm::openblas
                                                                                             : Gemm::tiles;
}
}  // namespace detail

const char* blas_description() {
  static const std::string text = [] {
    std::string config = openblas_get_config();
    const std::size_t space = config.find(' ', config.find(' ') + 1);
    return fmt::format("{} {}", config.substr(0, space), openblas_get_corename());
  }();
  return text.c_str();
}

}  // namespace diptych::kernels
