#pragma once

#include <vector>

#include "framework/core/storage.h"
#include "framework/kernels/correlation.h"
#include "framework/kernels/pieces.h"

namespace diptych::kernels {

/// The values that windows read, one by one: what position p reads as value k, channel by channel and tap by tap, lies
/// at a sum of two offsets, one for p and one for k. Where no window reads padding that is the source itself; else rows
/// of it with zeros around are copied, for a block of values at a time.
///
///      source        position p = (row, column)          value k = (channel, tap (y, x))
///      . . . . . .   row * stride * pitch                channel * plane + y * dilation * pitch
///      . a b . . .     + column * stride                   + x * dilation
///      . c d . . .
template <class T>
class WindowSource {
 public:
  /// Values in a block: those of a sum.
  static constexpr std::int64_t kBlock = kSumBlock;

  /// Whether no window reads padding.
  static bool is_inside(const Correlation<T>& correlation);

  /// Pieces have at most `positions` positions.
  WindowSource(const Correlation<T>& correlation, std::int64_t positions);

  /// Calls `fn(piece)`.
  template <class Fn>
  void for_each_piece(const Fn& fn) const {
    pieces_.for_each(fn);
  }
  std::int64_t most_positions() const { return pieces_.most().positions(); }

  /// The offset of each position.
  std::vector<std::int64_t> positions(const Piece& piece) const;

  /// Calls `fn(first value, origin, offsets of the values)` for each block.
  template <class Fn>
  void for_each_block(const Piece& piece, const Fn& fn) const {
    const std::int64_t depth = correlation_.depth();
    std::vector<std::int64_t> values;
    for (std::int64_t begin = 0; begin < depth; begin += kBlock) {
      values.resize(static_cast<std::size_t>(std::min(kBlock, depth - begin)));
      fn(begin, find_block(piece, begin, values), values);
    }
  }

 private:
  enum class Place : std::uint8_t {
    source,    ///< no window reads padding
    padded,    ///< in copies of rows, with zeros around
    gathered,  ///< each value of each position: where padding or strides would make those copies too large
  };
  /// Of one channel and image of a piece.
  struct Plane {
    std::int64_t rows, pitch, size;
  };
  Plane plane_of(const Piece& piece) const;
  const T* find_block(const Piece& piece, std::int64_t begin, std::vector<std::int64_t>& values) const;
  void copy_padded(const Piece& piece, std::int64_t first_channel, std::int64_t channels) const;
  void gather(const Piece& piece, std::int64_t begin, std::int64_t count) const;
  const T* source_of(const Piece& piece) const { return correlation_.source + piece.image * correlation_.image_step; }

  const Correlation<T>& correlation_;
  Pieces pieces_;
  Place place_;
  StorageRef copies_;
};

}  // namespace diptych::kernels
