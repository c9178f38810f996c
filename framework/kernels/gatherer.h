#pragma once

#include <vector>

#include "framework/core/storage.h"
#include "framework/kernels/correlation.h"
#include "framework/kernels/phased_plane.h"
#include "framework/kernels/pieces.h"

namespace diptych::kernels {

/// The values that the taps read as a matrix ("im2col"), block by block, with one row per channel and tap and one
/// column per position, possibly with extra columns between the rows of a plane. Its rows are runs of padded planes
/// where possible; otherwise they are gathered.
template <class T>
class Gatherer {
 public:
  /// Rows of the matrix in a block: those of a sum.
  static constexpr std::int64_t kBlock = kSumBlock;

  /// Pieces have at most `positions` positions.
  Gatherer(const Correlation<T>& correlation, std::int64_t positions);

  /// Whether the rows for such pieces are runs of padded planes. That saves the copies, and costs the computation of
  /// the columns between the rows, which must be small; for narrow planes it isn't.
  static bool in_runs(const Correlation<T>& correlation, const Piece& piece);
  /// Computed columns, of which the rows of a plane are a part.
  static std::int64_t columns(const Correlation<T>& correlation, const Piece& piece, bool in_runs);

  /// Calls `fn(piece)`.
  template <class Fn>
  void for_each_piece(const Fn& fn) const {
    pieces_.for_each(fn);
  }

  /// Calls `fn(first row, pointers to the rows)` for each block of the piece's matrix.
  template <class Fn>
  void for_each_block(const Piece& piece, const Fn& fn) const {
    const std::int64_t depth = correlation_.depth();
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

  /// The distance from one row of a plane to the next, in columns of the matrix.
  std::int64_t row_step(const Piece& piece) const { return in_runs_ ? layout_of(piece).pitch : piece.columns; }
  std::int64_t most_columns() const { return columns(pieces_.most()); }
  std::int64_t columns(const Piece& piece) const { return columns(correlation_, piece, in_runs_); }

 private:
  void gather(const Piece& piece, std::int64_t begin, std::vector<const T*>& rows) const;
  void find_runs(const Piece& piece, std::int64_t begin, std::vector<const T*>& rows) const;
  PhasedPlane layout_of(const Piece& piece) const { return layout_of(correlation_, piece); }
  static PhasedPlane layout_of(const Correlation<T>& correlation, const Piece& piece) {
    return {correlation.rows.part(piece.row, piece.rows), correlation.columns.part(piece.column, piece.columns)};
  }
  /// Of which a block reads parts.
  static std::int64_t planes(const Correlation<T>& correlation) {
    return std::min(correlation.channels, kBlock / std::max<std::int64_t>(correlation.taps(), 1) + 2);
  }

  const Correlation<T>& correlation_;
  Pieces pieces_;
  bool in_phases_ = false;
  bool in_runs_ = false;
  std::int64_t pitch_ = 0;
  StorageRef gathered_;
  StorageRef phases_;
};

}  // namespace diptych::kernels
