#include "framework/kernels/correlation.h"

#include <algorithm>

#include "framework/core/parallel.h"
#include "framework/kernels/correlation_ways.h"
#include "framework/kernels/gatherer.h"
#include "framework/kernels/product.h"
#include "framework/kernels/window_source.h"
#include "framework/kernels/workspace.h"

namespace diptych::kernels {
namespace {

template <class T>
Correlation<T> images_of(Correlation<T> c, std::int64_t first, std::int64_t count) {
  c.source += first * c.image_step;
  c.result += first * c.result_image_step;
  c.epilogue_row += first * c.epilogue_rows_of_image;
  c.batch = count;
  return c;
}
template <class T>
Correlation<T> rows_of(Correlation<T> c, std::int64_t first, std::int64_t count) {
  c.rows = c.rows.part(first, count);
  c.result += first * c.result_row_step;
  c.epilogue_column += first * c.result_row_step;
  return c;
}
template <class T>
Correlation<T> outputs_of(Correlation<T> c, std::int64_t first, std::int64_t count) {
  c.weights += first * c.output_step;
  c.bias = c.bias != nullptr ? c.bias + first : nullptr;
  c.first_output += first;
  c.epilogue_row += first;
  c.outputs = count;
  return c;
}

template <class T>
std::int64_t all_positions(const Correlation<T>& c) {
  return c.batch * c.rows.output * c.columns.output;
}

// What the ways take for one position of the result, in nanoseconds on one thread, about: products, of vectors that
// may not be full, and elements that are copied. What counts is how they compare.
constexpr double kOfProduct = 0.01;
constexpr double kOfCopy = 0.1;
constexpr double kOfGathered = 0.7;  // element by element: from windows with larger strides

template <class T>
double cost_of_positions(const Correlation<T>& c) {
  const Pieces pieces(c.batch, c.rows.output, c.columns.output,
                      positions_of_piece<T>(std::min(c.outputs, kMostOutputs)), kProductStep);
  const Piece& piece = pieces.most();
  const bool in_runs = Gatherer<T>::in_runs(c, piece);
  const std::int64_t columns = Gatherer<T>::columns(c, piece, in_runs);
  const double computed = static_cast<double>(whole_vectors(columns)) / static_cast<double>(piece.positions());
  const bool in_place = piece.images == 1 && columns == piece.positions() && columns % kProductStep == 0;
  const double read =
      static_cast<double>(in_runs ? c.channels : c.depth()) * (c.columns.stride > 2 ? kOfGathered : kOfCopy);
  return kOfProduct * computed * static_cast<double>(c.depth() * c.outputs) + read +
         (in_place ? 0 : kOfCopy * static_cast<double>(c.outputs));
}

template <class T>
double cost_of_outputs(const Correlation<T>& c) {
  const std::int64_t padded = WindowSource<T>::is_inside(c) ? 0 : c.channels;
  return kOfProduct * static_cast<double>(c.depth() * whole_vectors(c.outputs)) +
         kOfCopy * static_cast<double>(c.outputs + padded);
}

/// Of one that is_pointwise().
template <class T>
double cost_in_place(const Correlation<T>& c) {
  // Tiles of rows take less time than those that read lists, and what is copied stays in the first caches. Measured
  // with AVX2 (docs/kernels.md), and the same on every machine, as is what graphs keep.
  constexpr double kOfTile = 0.9 * kOfProduct;
  constexpr double kOfPanel = 0.03;
  const std::int64_t plane = c.rows.output * c.columns.output;
  // Each image copies the weights anew, if it copies them.
  const double of_weight = (kOfTile * static_cast<double>(whole_vectors(plane)) + kOfCopy) / static_cast<double>(plane);
  return of_weight * static_cast<double>(c.channels * c.outputs) + kOfPanel * static_cast<double>(c.channels);
}

template <class T>
double cost_of_packing(const Correlation<T>& c) {
  constexpr double kOfWeight = 0.25;
  // One thread packs, while the others wait.
  return kOfWeight * static_cast<double>(thread_count() * c.depth() * c.outputs) /
         static_cast<double>(all_positions(c));
}

/// Without weights that are packed.
template <class T>
double cost_unpacked(const Correlation<T>& c) {
  return is_pointwise(c) ? std::min(cost_of_positions(c), cost_in_place(c)) : cost_of_positions(c);
}

template <class T>
bool packs_now(const Correlation<T>& c) {
  return c.outputs >= kProductStep && cost_of_packing(c) + cost_of_outputs(c) < cost_unpacked(c);
}

/// Whether the weights of an output follow each other as its values do.
template <class T>
bool is_dense(const Correlation<T>& c) {
  for (std::size_t tap = 0; tap < c.tap_offsets.size(); ++tap) {
    if (c.tap_offsets[tap] != static_cast<std::int64_t>(tap)) {
      return false;
    }
  }
  return c.channel_step == c.taps();
}

template <class T>
void divide(const Correlation<T>& c) {
  const bool in_place = c.packed.columns == 0 && is_pointwise(c) && cost_in_place(c) <= cost_of_positions(c);
  const auto correlate_part = c.packed.columns > 0 ? correlate_outputs<T>
                              : in_place           ? correlate_in_place<T>
                                                   : correlate_positions<T>;
  const std::int64_t positions = c.rows.output * c.columns.output;
  const double nanoseconds = nanoseconds_of_product<T>(c.outputs, c.batch * positions, c.channels * c.taps());
  if (nanoseconds == 0 || !is_worth_dividing(1, nanoseconds)) {
    correlate_part(c);
    return;
  }
  const std::int64_t threads = thread_count();
  const auto run = [&](std::int64_t all, std::int64_t parts, std::int64_t whole,
                       Correlation<T> (*part)(Correlation<T>, std::int64_t, std::int64_t)) {
    const std::int64_t step = ((all + parts - 1) / parts + whole - 1) / whole * whole;
    parts = (all + step - 1) / step;
    parallel_for(parts, nanoseconds / static_cast<double>(parts), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        correlate_part(part(c, i * step, std::min(step, all - i * step)));
      }
    });
  };
  // By images; by rows of the result, where each thread reads all weights; or by outputs, where each gathers the whole
  // source: whichever is less. In place each product is divided, if that pays.
  const bool divides_products = in_place && is_worth_dividing(1, nanoseconds / static_cast<double>(c.batch));
  if (are_enough(c.batch) || (in_place && !divides_products)) {
    run(c.batch, 2 * threads, 1, images_of<T>);
  } else if (in_place) {
    correlate_part(c);
  } else if (c.rows.output >= threads && positions >= c.outputs) {
    run(c.rows.output, threads, 1, rows_of<T>);
  } else {
    run(c.outputs, threads, c.packed.columns > 0 ? kProductStep : 1, outputs_of<T>);
  }
}

}  // namespace

template <class T>
void correlate(const Correlation<T>& c) {
  if (c.outputs * all_positions(c) == 0) {
    return;
  }
  if (c.packed.columns > 0 || !packs_now(c)) {
    divide(c);
    return;
  }
  const Workspace<T> weights(PackedMatrix<T>::size(c.depth(), c.outputs));
  Correlation<T> packed = c;
  packed.packed = pack_weights(c, weights.data());
  divide(packed);
}

template <class T>
std::int64_t packed_weights_size(const Correlation<T>& c) {
  constexpr double kLeast = 0.02;
  if (c.outputs < kProductStep || all_positions(c) == 0) {
    return 0;
  }
  const double now = std::min(cost_unpacked(c), cost_of_outputs(c) + cost_of_packing(c));
  return cost_of_outputs(c) < (1 - kLeast) * now ? PackedMatrix<T>::size(c.depth(), c.outputs) : 0;
}

template <class T>
PackedMatrix<T> pack_weights(const Correlation<T>& c, T* to) {
  if (is_dense(c)) {
    return PackedMatrix<T>::pack(Matrix<T>{c.weights, c.depth(), c.outputs, 1, c.output_step}, to);
  }
  if (c.taps() == 1) {
    return PackedMatrix<T>::pack(
        Matrix<T>{c.weights + c.tap_offsets[0], c.channels, c.outputs, c.channel_step, c.output_step}, to);
  }
  const auto packed = PackedMatrix<T>::packed(c.depth(), c.outputs, to);
  for (std::int64_t first = 0; first < c.outputs; first += packed.width) {
    for (std::int64_t channel = 0; channel < c.channels; ++channel) {
      for (const std::int64_t offset : c.tap_offsets) {
        const T* const from = c.weights + channel * c.channel_step + offset + first * c.output_step;
        for (std::int64_t output = 0; output < packed.width; ++output) {
          to[output] = first + output < c.outputs ? from[output * c.output_step] : T(0);
        }
        to += packed.pitch;
      }
    }
  }
  return packed;
}

template std::int64_t packed_weights_size(const Correlation<float>&);
template std::int64_t packed_weights_size(const Correlation<double>&);
template PackedMatrix<float> pack_weights(const Correlation<float>&, float*);
template PackedMatrix<double> pack_weights(const Correlation<double>&, double*);
template void correlate(const Correlation<float>&);
template void correlate(const Correlation<double>&);

}  // namespace diptych::kernels
