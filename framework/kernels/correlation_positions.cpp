#include <algorithm>
#include <numeric>

#include "framework/kernels/correlation_ways.h"
#include "framework/kernels/finish_rows.h"
#include "framework/kernels/gatherer.h"
#include "framework/kernels/product.h"
#include "framework/kernels/workspace.h"

namespace diptych::kernels {
namespace {

/// packed[output][channel * taps + tap]: used where the weights of consecutive outputs are closer in memory than those
/// of consecutive channels, so that they would be read with long jumps.
template <class T>
struct PackWeights {
  DIPTYCH_INLINE static void run(const Correlation<T>* c, const T* weights, std::int64_t outputs,
                                 std::int64_t first_channel, std::int64_t channels, T* packed, std::int64_t pitch) {
    const std::int64_t taps = c->taps();
    const std::int64_t* offsets = c->tap_offsets.data();
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const T* in = weights + (first_channel + channel) * c->channel_step;
      T* out = packed + channel * taps;
      if (taps == 9) {
        for (std::int64_t output = 0; output < outputs; ++output, in += c->output_step, out += pitch) {
#pragma GCC unroll 9
          for (std::int64_t tap = 0; tap < 9; ++tap) {
            out[tap] = in[offsets[tap]];
          }
        }
      } else {
        for (std::int64_t output = 0; output < outputs; ++output, in += c->output_step, out += pitch) {
          for (std::int64_t tap = 0; tap < taps; ++tap) {
            out[tap] = in[offsets[tap]];
          }
        }
      }
    }
  }
};

}  // namespace

template <class T>
void correlate_positions(const Correlation<T>& c) {
  const std::int64_t most_outputs = std::min(c.outputs, kMostOutputs);
  const Gatherer<T> gatherer(c, positions_of_piece<T>(most_outputs));
  const std::int64_t pitch = product_pitch(gatherer.most_columns());
  const Workspace<T> sums(most_outputs * pitch);
  const std::int64_t taps = c.taps();
  const bool packs = c.output_step > 1 && taps <= Gatherer<T>::kBlock && c.channel_step > c.output_step;
  const std::int64_t packed_pitch = product_pitch(std::min(Gatherer<T>::kBlock + 2 * taps, c.channels * taps));
  const Workspace<T> packed(packs ? most_outputs * packed_pitch : 0);
  const auto pack = PerIsa<PackWeights<T>>::active();
  const auto finish = PerIsa<FinishRows<T>>::active();
  std::vector<const T*> rows;
  std::vector<std::int64_t> at;
  for (std::int64_t first = 0; first < c.outputs; first += kMostOutputs) {
    const std::int64_t outputs = std::min(kMostOutputs, c.outputs - first);
    rows.clear();
    for (std::int64_t output = 0; output < outputs; ++output) {
      rows.push_back(packs ? packed.data() + output * packed_pitch : c.weights + (first + output) * c.output_step);
    }
    gatherer.for_each_piece([&](const Piece& piece) {
      // Where whole vectors fit, the result is computed in its place.
      const std::int64_t columns = gatherer.columns(piece);
      const bool is_dense = piece.images == 1 && columns == piece.positions() && columns % kProductStep == 0 &&
                            c.result_column_step == 1 && c.in_plane.size() == 1 &&
                            (piece.rows == 1 || piece.columns == c.result_row_step);
      T* const out = c.result + piece.image * c.result_image_step + piece.row * c.result_row_step +
                     piece.column * c.result_column_step;
      T* const to = is_dense ? out + c.place_of(first) : sums.data();
      const std::int64_t to_pitch = is_dense ? c.result_plane_step : pitch;
      if (c.channels == 0 || c.bias != nullptr) {
        for (std::int64_t output = 0; output < outputs; ++output) {
          std::fill_n(to + output * to_pitch, whole_vectors(columns),
                      c.bias != nullptr ? c.bias[first + output] : T(0));
        }
      }
      gatherer.for_each_block(piece, [&](std::int64_t begin, const std::vector<const T*>& read) {
        const auto count = static_cast<std::int64_t>(read.size());
        at.clear();
        if (packs) {
          const std::int64_t channel = begin / taps;
          pack(&c, c.weights + first * c.output_step, outputs, channel, (begin + count - 1) / taps + 1 - channel,
               packed.data(), packed_pitch);
          at.resize(static_cast<std::size_t>(count));
          std::iota(at.begin(), at.end(), begin - channel * taps);
        } else {
          for (std::int64_t k = begin; k < begin + count; ++k) {
            at.push_back(k / taps * c.channel_step + c.tap_offsets[static_cast<std::size_t>(k % taps)]);
          }
        }
        product(ProductCall<T>{outputs,
                               columns,
                               count,
                               {rows.data(), at.data(), read.data()},
                               begin > 0 || c.bias != nullptr ? to : nullptr,
                               to_pitch,
                               to,
                               to_pitch});
      });
      const std::int64_t positions = piece.rows * piece.columns;
      for (std::int64_t output = 0; output < outputs && !is_dense; ++output) {
        for (std::int64_t image = 0; image < piece.images; ++image) {
          finish(piece.rows, piece.columns, gatherer.row_step(piece), sums.data() + output * pitch + image * positions,
                 out + image * c.result_image_step + c.place_of(first + output), c.result_row_step,
                 c.result_column_step);
        }
      }
      c.finish(piece, first, outputs);
    });
  }
}

template void correlate_positions(const Correlation<float>&);
template void correlate_positions(const Correlation<double>&);

}  // namespace diptych::kernels
