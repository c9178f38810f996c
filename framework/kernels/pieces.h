#pragma once

#include <algorithm>
#include <cstdint>

namespace diptych::kernels {

/// Positions of planes that are computed together: whole images, rows of one image, or part of one row.
struct Piece {
  std::int64_t image = 0;
  std::int64_t images = 1;
  std::int64_t row = 0;
  std::int64_t rows = 1;
  std::int64_t column = 0;
  std::int64_t columns = 1;

  std::int64_t positions() const { return images * rows * columns; }
};

/// The planes of a batch as pieces of at most so many positions.
class Pieces {
 public:
  /// Rounds down to whole vectors of `step` positions where that costs less than half of the rows.
  Pieces(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t positions, std::int64_t step)
      : batch_(batch), height_(height), width_(width), most_(largest(batch, height, width, positions, step)) {}

  const Piece& most() const { return most_; }

  /// Calls `fn(piece)`.
  template <class Fn>
  void for_each(const Fn& fn) const {
    for (std::int64_t image = 0; image < batch_; image += most_.images) {
      for (std::int64_t row = 0; row < height_; row += most_.rows) {
        for (std::int64_t column = 0; column < width_; column += most_.columns) {
          fn(Piece{image, std::min(most_.images, batch_ - image), row, std::min(most_.rows, height_ - row), column,
                   std::min(most_.columns, width_ - column)});
        }
      }
    }
  }

 private:
  static Piece largest(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t positions,
                       std::int64_t step) {
    const std::int64_t plane = height * width;
    if (plane <= positions) {
      const std::int64_t images = positions / std::max<std::int64_t>(plane, 1);
      return {0, std::clamp<std::int64_t>(images, 1, std::max<std::int64_t>(batch, 1)), 0, height, 0, width};
    }
    if (width > positions) {
      return {0, 1, 0, 1, 0, positions};
    }
    std::int64_t rows = positions / width;
    for (std::int64_t fewer = rows; 2 * fewer > rows; --fewer) {
      if (fewer * width % step == 0) {
        rows = fewer;
        break;
      }
    }
    return {0, 1, 0, rows, 0, width};
  }

  std::int64_t batch_, height_, width_;
  Piece most_;
};

}  // namespace diptych::kernels
