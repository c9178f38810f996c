#pragma once

#include <vector>

#include "framework/core/storage.h"
#include "framework/dispatch/call.h"
#include "framework/kernels/matrix_product.h"
#include "framework/kernels/phased_plane.h"
#include "framework/kernels/product.h"

namespace diptych::kernels {

/// An uninitialised workspace.
template <class T>
class Workspace {
 public:
  explicit Workspace(std::int64_t size) : storage_(allocate_storage(static_cast<std::size_t>(size) * sizeof(T))) {}
  T* data() const { return static_cast<T*>(storage_->data()); }

 private:
  StorageRef storage_;
};

/// result[image][output][position] = bias + the sum over channels and taps of weights * source, as multiply() of
/// matrix_product.h defines it. The source may be x and
/// the result y of a convolution, or dy and one phase of dx: the steps define the layout of each.
template <class T>
struct Correlation {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  WindowAxis rows;
  WindowAxis columns;
  const T* source = nullptr;
  std::int64_t image_step = 0;
  std::int64_t plane_step = 0;

  std::int64_t outputs = 0;
  const T* weights = nullptr;
  std::int64_t output_step = 0;
  std::int64_t channel_step = 0;
  std::vector<std::int64_t> tap_offsets;  ///< row by row
  const T* bias = nullptr;

  T* result = nullptr;
  std::int64_t first_output = 0;             ///< the output that the first weights are of
  std::vector<std::int64_t> in_plane = {0};  ///< where outputs begin that take turns in one plane of the result
  std::int64_t result_image_step = 0;
  std::int64_t result_plane_step = 0;
  std::int64_t result_row_step = 0;
  std::int64_t result_column_step = 1;

  const Epilogue* epilogue = nullptr;  ///< of dense planes, which are its rows
  std::int64_t epilogue_row = 0, epilogue_column = 0;
  std::int64_t epilogue_rows_of_image = 0;

  std::int64_t taps() const { return rows.kernel * columns.kernel; }
  /// Where the result of an output begins.
  std::int64_t place_of(std::int64_t output) const {
    const auto turns = static_cast<std::int64_t>(in_plane.size());
    const std::int64_t at = first_output + output;
    return at / turns * result_plane_step + in_plane[static_cast<std::size_t>(at % turns)];
  }
};

template <class T>
void correlate(const Correlation<T>& correlation);

/// Positions of the result that are computed together: whole images, rows of one image, or part of one row.
struct Piece {
  std::int64_t image = 0;
  std::int64_t images = 1;
  std::int64_t row = 0;
  std::int64_t rows = 1;
  std::int64_t column = 0;
  std::int64_t columns = 1;

  std::int64_t positions() const { return images * rows * columns; }
};

/// The values that the taps read as a matrix ("im2col"), block by block, with one row per channel and tap and one
/// column per position. Its rows are runs of padded planes where possible; otherwise they are gathered.
template <class T>
class Gatherer {
 public:
  /// Rows of the matrix in a block: those of a sum.
  static constexpr std::int64_t kBlock = kSumBlock;

  enum class Columns {
    dense,   ///< column p is position p, possibly with extra columns between the rows of a plane
    sparse,  ///< the columns that at() gives
  };

  /// Pieces have at most `positions` positions.
  Gatherer(const Correlation<T>& correlation, std::int64_t positions, Columns columns);

  /// Calls `fn(piece)`.
  template <class Fn>
  void for_each_piece(const Fn& fn) const {
    const std::int64_t height = correlation_.rows.output;
    const std::int64_t width = correlation_.columns.output;
    for (std::int64_t image = 0; image < correlation_.batch; image += most_.images) {
      for (std::int64_t row = 0; row < height; row += most_.rows) {
        for (std::int64_t column = 0; column < width; column += most_.columns) {
          fn(Piece{image, std::min(most_.images, correlation_.batch - image), row, std::min(most_.rows, height - row),
                   column, std::min(most_.columns, width - column)});
        }
      }
    }
  }

  /// Calls `fn(first row, pointers to the rows)` for each block of the piece's matrix.
  template <class Fn>
  void for_each_block(const Piece& piece, const Fn& fn) const {
    const std::int64_t depth = correlation_.channels * correlation_.taps();
    std::vector<const T*> rows;
    for (std::int64_t begin = 0; begin < depth; begin += kBlock) {
      rows.resize(static_cast<std::size_t>(std::min(kBlock, depth - begin)));
      if (in_runs_) {
        find_runs(piece, begin, rows);
      } else {
        gather(piece, begin, rows);
      }
      fn(begin, rows);
    }
  }

  std::int64_t most_positions() const { return most_.positions(); }
  /// The distance from one row of a plane to the next, in columns of the matrix.
  std::int64_t row_step(const Piece& piece) const { return in_runs_ ? layout_of(piece).pitch : piece.columns; }
  std::int64_t most_columns() const { return columns(most_); }
  std::int64_t columns(const Piece& piece) const {
    return in_runs_ ? (piece.rows - 1) * row_step(piece) + piece.columns : piece.positions();
  }
  /// The column of each position.
  std::vector<std::int64_t> at(const Piece& piece) const;

 private:
  void gather(const Piece& piece, std::int64_t begin, std::vector<const T*>& rows) const;
  void find_runs(const Piece& piece, std::int64_t begin, std::vector<const T*>& rows) const;
  PhasedPlane layout_of(const Piece& piece) const;

  const Correlation<T>& correlation_;
  Piece most_;
  bool in_phases_ = false;
  bool in_runs_ = false;
  std::int64_t pitch_ = 0;
  StorageRef gathered_;
  StorageRef phases_;
};

}  // namespace diptych::kernels
