#pragma once

#include <vector>

#include "framework/dispatch/call.h"
#include "framework/kernels/matrix_product.h"
#include "framework/kernels/pieces.h"
#include "framework/kernels/window.h"

namespace diptych::kernels {

/// result[image][output][position] = bias + the sum over channels and taps of weights * source, as multiply() of
/// matrix_product.h defines it. The source may be x and the result y of a convolution, or dy and one phase of dx: the
/// steps define the layout of each.
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
  /// The outputs may be a part of all, from this one on; of packed weights, a multiple of kProductStep.
  std::int64_t first_output = 0;
  const T* weights = nullptr;
  std::int64_t output_step = 0;
  std::int64_t channel_step = 0;
  std::vector<std::int64_t> tap_offsets;  ///< row by row
  const T* bias = nullptr;

  T* result = nullptr;
  std::vector<std::int64_t> in_plane = {0};  ///< where outputs begin that take turns in one plane of the result
  std::int64_t result_image_step = 0;
  std::int64_t result_plane_step = 0;
  std::int64_t result_row_step = 0;
  std::int64_t result_column_step = 1;

  /// The weights of all outputs as the right side of products, by pack_weights(); without columns: not made ahead.
  PackedMatrix<T> packed;

  const Epilogue* epilogue = nullptr;  ///< of dense planes, which are its rows
  std::int64_t epilogue_row = 0, epilogue_column = 0;
  std::int64_t epilogue_rows_of_image = 0;

  std::int64_t taps() const { return rows.kernel * columns.kernel; }
  std::int64_t depth() const { return channels * taps(); }
  /// Calls the epilogue, if there is one, for outputs of a piece that are complete.
  void finish(const Piece& piece, std::int64_t first, std::int64_t count) const {
    for (std::int64_t image = piece.image; epilogue != nullptr && image < piece.image + piece.images; ++image) {
      (*epilogue)(epilogue_row + image * epilogue_rows_of_image + first, count,
                  epilogue_column + piece.row * result_row_step + piece.column, piece.rows * piece.columns);
    }
  }
  /// Where the result of an output begins.
  std::int64_t place_of(std::int64_t output) const {
    const auto turns = static_cast<std::int64_t>(in_plane.size());
    const std::int64_t at = first_output + output;
    return at / turns * result_plane_step + in_plane[static_cast<std::size_t>(at % turns)];
  }
};

/// One of three ways, with the same bits: outputs in vectors, which read the weights packed and each value of the
/// source alone, where it lies; positions in vectors, which read each weight alone, and the source gathered; or, for
/// one tap at stride 1 without padding, products of whole planes, where they lie. The first does without gathering and
/// without the rests of vectors that small planes have, but needs 16 outputs or more, and packing.
template <class T>
void correlate(const Correlation<T>& correlation);

/// How many elements pack_weights() writes. 0: vectors of outputs aren't the better way, or correlate() itself packs
/// for at most a fiftieth of its time.
template <class T>
std::int64_t packed_weights_size(const Correlation<T>& correlation);
/// `to` is aligned to a cache line.
template <class T>
PackedMatrix<T> pack_weights(const Correlation<T>& correlation, T* to);

}  // namespace diptych::kernels
