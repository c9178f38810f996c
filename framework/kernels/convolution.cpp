#include "framework/kernels/convolution.h"

#include <cblas.h>

#include "framework/core/storage.h"
#include "framework/kernels/direct_convolution.h"
#include "framework/kernels/isa.h"

namespace diptych::kernels {
namespace {

// Workspace of one matrix product at most. A plane is cut into pieces that stay in the second-level cache, unless they
// would be too narrow for a good product.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{8} << 20;
constexpr std::int64_t kPieceBytes = std::int64_t{512} << 10;
constexpr std::int64_t kNarrow = 256;
// Below this many outputs in a plane several images share a product: the weights are then packed once for all of them.
constexpr std::int64_t kSmallPlane = 256;
constexpr std::int64_t kSharedColumns = 1024;

void gemm(CBLAS_TRANSPOSE left, CBLAS_TRANSPOSE right, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
          std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, left, right, static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k),
              1.0F, a, static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}
void gemm(CBLAS_TRANSPOSE left, CBLAS_TRANSPOSE right, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
          std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  cblas_dgemm(CblasRowMajor, left, right, static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k),
              1.0, a, static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

/// Whole images, or a run of positions in the output plane of one.
struct Piece {
  std::int64_t image = 0;
  std::int64_t images = 1;
  std::int64_t position = 0;
  std::int64_t positions = 0;

  std::int64_t columns() const { return images * positions; }
};

/// Where output `position`s of a piece find their inputs: one call per row of the gathered matrix and output row.
/// `visit(source row or null, first column of the piece, outputs [begin, end) of the row)`.
template <class Visit>
DIPTYCH_INLINE void for_each_row(const ConvolutionShape& shape, const Piece& piece, std::int64_t tap_row,
                                 const Visit& visit) {
  const WindowAxis& rows = shape.rows;
  const std::int64_t width = shape.columns.output;
  const std::int64_t last = piece.position + piece.positions;
  for (std::int64_t position = piece.position; position < last;) {
    const std::int64_t row = position / width;
    const std::int64_t begin = position - row * width;
    const std::int64_t end = std::min(width, begin + last - position);
    const std::int64_t source = row * rows.stride + tap_row * rows.dilation - rows.before;
    visit(source >= 0 && source < rows.input ? source : -1, position - piece.position, begin, end);
    position += end - begin;
  }
}

/// Row (channel, tap) of `gathered` has what that tap reads, a column an output position.
template <class T>
struct Gather {
  DIPTYCH_INLINE static void run(const ConvolutionShape* shape, const Piece* piece, const T* x, T* gathered) {
    const WindowAxis& columns = shape->columns;
    const std::int64_t image_stride = shape->groups * shape->channels * shape->input_plane();
    for (std::int64_t channel = 0; channel < shape->channels; ++channel) {
      for (std::int64_t tap_row = 0; tap_row < shape->rows.kernel; ++tap_row) {
        for (std::int64_t tap = 0; tap < columns.kernel; ++tap) {
          const WindowAxis::Range inside = columns.inside(tap);
          const std::int64_t shift = tap * columns.dilation - columns.before;
          for (std::int64_t image = 0; image < piece->images; ++image, gathered += piece->positions) {
            const T* plane = x + (piece->image + image) * image_stride + channel * shape->input_plane();
            for_each_row(
                *shape, *piece, tap_row,
                [&](std::int64_t source, std::int64_t at, std::int64_t begin, std::int64_t end)
                    __attribute__((always_inline)) {
                      T* out = gathered + at - begin;
                      const std::int64_t low = source < 0 ? end : std::clamp(inside.begin, begin, end);
                      const std::int64_t high = source < 0 ? end : std::clamp(inside.end, low, end);
                      for (std::int64_t i = begin; i < low; ++i) {
                        out[i] = T(0);
                      }
                      const T* in = plane + source * columns.input + shift;
                      if (columns.stride == 1) {
                        for (std::int64_t i = low; i < high; ++i) {
                          out[i] = in[i];
                        }
                      } else {
                        for (std::int64_t i = low; i < high; ++i) {
                          out[i] = in[i * columns.stride];
                        }
                      }
                      for (std::int64_t i = high; i < end; ++i) {
                        out[i] = T(0);
                      }
                    });
          }
        }
      }
    }
  }
};

/// The transpose of Gather: adds every element of `gathered` to the input that it came from.
template <class T>
struct ScatterAdd {
  DIPTYCH_INLINE static void run(const ConvolutionShape* shape, const Piece* piece, const T* gathered, T* dx) {
    const WindowAxis& columns = shape->columns;
    const std::int64_t image_stride = shape->groups * shape->channels * shape->input_plane();
    for (std::int64_t channel = 0; channel < shape->channels; ++channel) {
      for (std::int64_t tap_row = 0; tap_row < shape->rows.kernel; ++tap_row) {
        for (std::int64_t tap = 0; tap < columns.kernel; ++tap) {
          const WindowAxis::Range inside = columns.inside(tap);
          const std::int64_t shift = tap * columns.dilation - columns.before;
          for (std::int64_t image = 0; image < piece->images; ++image, gathered += piece->positions) {
            T* plane = dx + (piece->image + image) * image_stride + channel * shape->input_plane();
            for_each_row(
                *shape, *piece, tap_row,
                [&](std::int64_t source, std::int64_t at, std::int64_t begin, std::int64_t end)
                    __attribute__((always_inline)) {
                      if (source < 0) {
                        return;
                      }
                      const T* in = gathered + at - begin;
                      T* out = plane + source * columns.input + shift;
                      const std::int64_t low = std::clamp(inside.begin, begin, end);
                      const std::int64_t high = std::clamp(inside.end, low, end);
                      if (columns.stride == 1) {
#pragma GCC ivdep
                        for (std::int64_t i = low; i < high; ++i) {
                          out[i] += in[i];
                        }
                      } else {
#pragma GCC ivdep
                        for (std::int64_t i = low; i < high; ++i) {
                          out[i * columns.stride] += in[i];
                        }
                      }
                    });
          }
        }
      }
    }
  }
};

/// How one call is cut into products, and the workspace that they share.
template <class T>
class Products {
 public:
  explicit Products(const ConvolutionShape& shape) : shape_(shape) {
    const auto axis_is_trivial = [](const WindowAxis& axis) {
      return axis.kernel == 1 && axis.stride == 1 && axis.before == 0 && axis.input == axis.output;
    };
    const std::int64_t plane = shape.output_plane();
    const std::int64_t depth = std::max<std::int64_t>(shape.depth(), 1);
    const std::int64_t most = std::max<std::int64_t>(kWorkspaceBytes / static_cast<std::int64_t>(sizeof(T)) / depth, 1);
    if (plane <= kSmallPlane && 2 * plane <= most) {
      images_ = std::clamp<std::int64_t>(std::min(most, kSharedColumns) / std::max<std::int64_t>(plane, 1), 1,
                                         std::max<std::int64_t>(shape.batch, 1));
    }
    pointwise_ = images_ == 1 && axis_is_trivial(shape.rows) && axis_is_trivial(shape.columns);
    positions_ = plane;
    const std::int64_t cached = kPieceBytes / static_cast<std::int64_t>(sizeof(T)) / depth;
    const std::int64_t piece = std::min(std::max(cached, kNarrow), most);
    if (!pointwise_ && plane > piece) {
      const std::int64_t width = shape.columns.output;
      positions_ = piece > width ? piece / width * width : piece;
    }
    if (!pointwise_) {
      gathered_ = allocate_storage(bytes(depth));
    }
    if (images_ > 1) {
      joined_ = allocate_storage(bytes(shape.outputs));
    }
  }

  /// Calls `fn(piece)`; the last pieces may be smaller.
  template <class Fn>
  void for_each_piece(const Fn& fn) const {
    for (std::int64_t image = 0; image < shape_.batch; image += images_) {
      for (std::int64_t position = 0; position < shape_.output_plane(); position += positions_) {
        fn(Piece{image, std::min(images_, shape_.batch - image), position,
                 std::min(positions_, shape_.output_plane() - position)});
      }
    }
  }

  /// A matrix and the elements from one of its rows to the next.
  template <class E>
  struct Matrix {
    E* data;
    std::int64_t leading;
  };

  /// [depth, columns] of one group; `x` starts at the group.
  Matrix<const T> gather(const Piece& piece, const T* x) const {
    if (pointwise_) {
      return {x + piece.image * shape_.groups * shape_.channels * shape_.input_plane(), shape_.input_plane()};
    }
    PerIsa<Gather<T>>::active()(&shape_, &piece, x, gathered());
    return {gathered(), piece.columns()};
  }
  /// Where the product for scatter() goes.
  Matrix<T> scatter_target(const Piece& piece, T* dx) const {
    if (pointwise_) {
      return {dx + piece.image * shape_.groups * shape_.channels * shape_.input_plane(), shape_.input_plane()};
    }
    return {gathered(), piece.columns()};
  }
  void scatter(const Piece& piece, T* dx) const {
    if (!pointwise_) {
      PerIsa<ScatterAdd<T>>::active()(&shape_, &piece, gathered(), dx);
    }
  }

  /// [outputs, columns] of one group; `y` starts at the group.
  template <class E>
  Matrix<E> outputs(const Piece& piece, E* y) const {
    if (images_ > 1) {
      return {static_cast<T*>(joined_->data()), piece.columns()};
    }
    return {y + piece.image * output_stride() + piece.position, shape_.output_plane()};
  }
  /// Between the images of a shared product and where they belong.
  void join(const Piece& piece, const T* y) const {
    for_each_line(piece, [&](T* joined, std::int64_t at) { std::copy_n(y + at, piece.positions, joined); });
  }
  void part(const Piece& piece, T* y) const {
    for_each_line(piece, [&](const T* joined, std::int64_t at) { std::copy_n(joined, piece.positions, y + at); });
  }

  bool pointwise() const { return pointwise_; }

 private:
  std::size_t bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(rows * images_ * positions_) * sizeof(T);
  }
  T* gathered() const { return static_cast<T*>(gathered_->data()); }
  std::int64_t output_stride() const { return shape_.groups * shape_.outputs * shape_.output_plane(); }
  template <class Fn>
  void for_each_line(const Piece& piece, const Fn& fn) const {
    if (images_ == 1) {
      return;
    }
    T* joined = static_cast<T*>(joined_->data());
    for (std::int64_t output = 0; output < shape_.outputs; ++output) {
      for (std::int64_t image = 0; image < piece.images; ++image, joined += piece.positions) {
        fn(joined, (piece.image + image) * output_stride() + output * shape_.output_plane());
      }
    }
  }

  const ConvolutionShape& shape_;
  std::int64_t images_ = 1;
  std::int64_t positions_ = 0;
  bool pointwise_ = false;
  StorageRef gathered_;
  StorageRef joined_;
};

template <class T>
void forward(const ConvolutionShape& shape, const T* x, const T* weight, const T* bias, T* y) {
  const std::int64_t depth = shape.depth();
  const Products<T> products(shape);
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    const T* input = x + group * shape.channels * shape.input_plane();
    T* output = y + group * shape.outputs * shape.output_plane();
    products.for_each_piece([&](const Piece& piece) {
      const auto out = products.outputs(piece, output);
      if (bias != nullptr || depth == 0) {
        for (std::int64_t i = 0; i < shape.outputs; ++i) {
          std::fill_n(out.data + i * out.leading, piece.columns(),
                      bias != nullptr ? bias[group * shape.outputs + i] : T(0));
        }
      }
      if (depth > 0) {
        const auto in = products.gather(piece, input);
        gemm(CblasNoTrans, CblasNoTrans, shape.outputs, piece.columns(), depth, weight + group * shape.outputs * depth,
             depth, in.data, in.leading, bias != nullptr ? T(1) : T(0), out.data, out.leading);
      }
      products.part(piece, output);
    });
  }
}

template <class T>
void input_gradient(const ConvolutionShape& shape, const T* dy, const T* weight, T* dx) {
  const std::int64_t depth = shape.depth();
  const Products<T> products(shape);
  if (!products.pointwise() || shape.outputs == 0) {
    std::fill_n(dx, shape.batch * shape.groups * shape.channels * shape.input_plane(), T(0));
  }
  if (shape.outputs == 0) {
    return;
  }
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    const T* output = dy + group * shape.outputs * shape.output_plane();
    T* input = dx + group * shape.channels * shape.input_plane();
    products.for_each_piece([&](const Piece& piece) {
      products.join(piece, output);
      const auto out = products.outputs(piece, output);
      const auto in = products.scatter_target(piece, input);
      gemm(CblasTrans, CblasNoTrans, depth, piece.columns(), shape.outputs, weight + group * shape.outputs * depth,
           depth, out.data, out.leading, T(0), in.data, in.leading);
      products.scatter(piece, input);
    });
  }
}

template <class T>
void weight_gradient(const ConvolutionShape& shape, const T* x, const T* dy, T* dweight) {
  const std::int64_t depth = shape.depth();
  if (shape.batch * shape.output_plane() == 0) {
    std::fill_n(dweight, shape.groups * shape.outputs * depth, T(0));
    return;
  }
  const Products<T> products(shape);
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    const T* input = x + group * shape.channels * shape.input_plane();
    const T* output = dy + group * shape.outputs * shape.output_plane();
    T beta = T(0);
    products.for_each_piece([&](const Piece& piece) {
      products.join(piece, output);
      const auto out = products.outputs(piece, output);
      const auto in = products.gather(piece, input);
      gemm(CblasNoTrans, CblasTrans, shape.outputs, depth, piece.columns(), out.data, out.leading, in.data, in.leading,
           beta, dweight + group * shape.outputs * depth, depth);
      beta = T(1);
    });
  }
}

/// Not for empty results, whose shapes may be anything.
template <class Fn>
void with_type(DType dtype, std::int64_t elements, const Fn& fn) {
  if (elements == 0) {
    return;
  }
  if (dtype == DType::float32) {
    fn.template operator()<float>();
  } else {
    fn.template operator()<double>();
  }
}

}  // namespace

void convolution(const ConvolutionShape& shape, DType dtype, const void* x, const void* weight, const void* bias,
                 void* y) {
  with_type(dtype, shape.batch * shape.groups * shape.outputs * shape.output_plane(), [&]<class T>() {
    const auto run = direct_convolution_fits(shape) ? direct_convolution<T> : forward<T>;
    run(shape, static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<const T*>(bias),
        static_cast<T*>(y));
  });
}

void convolution_input_gradient(const ConvolutionShape& shape, DType dtype, const void* dy, const void* weight,
                                void* dx) {
  with_type(dtype, shape.batch * shape.groups * shape.channels * shape.input_plane(), [&]<class T>() {
    const auto run = direct_convolution_fits(shape) ? direct_input_gradient<T> : input_gradient<T>;
    run(shape, static_cast<const T*>(dy), static_cast<const T*>(weight), static_cast<T*>(dx));
  });
}

void convolution_weight_gradient(const ConvolutionShape& shape, DType dtype, const void* x, const void* dy,
                                 void* dweight) {
  with_type(dtype, shape.groups * shape.outputs * shape.depth(), [&]<class T>() {
    const auto run = direct_convolution_fits(shape) ? direct_weight_gradient<T> : weight_gradient<T>;
    run(shape, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dweight));
  });
}

}  // namespace diptych::kernels
