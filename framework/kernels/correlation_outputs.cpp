#include <algorithm>

#include "framework/core/transpose.h"
#include "framework/kernels/correlation_ways.h"
#include "framework/kernels/finish_rows.h"
#include "framework/kernels/product.h"
#include "framework/kernels/window_source.h"
#include "framework/kernels/workspace.h"

namespace diptych::kernels {
namespace {

/// A piece of the result as it is computed: [positions, outputs].
template <class T>
class OutputVectors {
 public:
  OutputVectors(const Correlation<T>& c, std::int64_t first, std::int64_t outputs)
      : c_(c),
        first_(first),
        outputs_(outputs),
        source_(c, positions_of_piece<T>(outputs)),
        pitch_(product_pitch(outputs)),
        workspace_(pitch_ + source_.most_positions() * (pitch_ + (is_scattered() ? outputs : 0))),
        start_(workspace_.data()),
        sums_(start_ + pitch_),
        turned_(sums_ + source_.most_positions() * pitch_) {
    std::fill_n(start_, pitch_, T(0));
    if (c.bias != nullptr) {
      std::copy_n(c.bias + first, outputs, start_);
    }
  }

  void run() {
    source_.for_each_piece([&](const Piece& piece) {
      const std::vector<std::int64_t> positions = source_.positions(piece);
      left_.resize(positions.size());
      if (c_.depth() == 0) {
        for (std::int64_t i = 0; i < piece.positions(); ++i) {
          std::copy_n(start_, outputs_, sums_ + i * pitch_);
        }
      }
      source_.for_each_block(piece, [&](std::int64_t begin, const T* origin, const std::vector<std::int64_t>& values) {
        std::transform(positions.begin(), positions.end(), left_.begin(), [=](std::int64_t at) { return origin + at; });
        add_block(begin, values);
      });
      store(piece);
      c_.finish(piece, first_, outputs_);
    });
  }

 private:
  /// Of value k for output `output` of these.
  const T* weights_at(std::int64_t k, std::int64_t output) const {
    return c_.packed.lies_at(k, c_.first_output + first_ + output);
  }

  void add_block(std::int64_t begin, const std::vector<std::int64_t>& values) {
    const bool is_far = c_.depth() * outputs_ >= kFar;
    const auto depth = static_cast<std::int64_t>(values.size());
    const bool is_first = begin == 0;
    for (std::int64_t output = 0; output < outputs_;) {
      const std::int64_t count =
          std::min(c_.packed.rest_of_panel(c_.first_output + first_ + output), outputs_ - output);
      const std::int64_t next = output + count;
      const bool ends = next == outputs_;
      const std::int64_t next_k = !ends ? begin : begin + depth < c_.depth() ? begin + depth : 0;
      T* const to = sums_ + output;
      const bool starts = !is_first || c_.bias != nullptr;
      product(ProductCall<T, ListedLeft<T>>{static_cast<std::int64_t>(left_.size()),
                                            count,
                                            depth,
                                            {left_.data(), values.data(), weights_at(begin, output), c_.packed.pitch},
                                            !starts    ? nullptr
                                            : is_first ? start_ + output
                                                       : to,
                                            is_first ? 0 : pitch_,
                                            to,
                                            pitch_,
                                            {is_far, is_far ? weights_at(next_k, ends ? 0 : next) : nullptr}});
      output = next;
    }
  }

  /// Whether results that are computed one after the other don't lie so in a plane.
  bool is_scattered() const {
    return c_.result_column_step != 1 || c_.result_row_step != c_.columns.output || c_.in_plane.size() != 1;
  }

  void store(const Piece& piece) {
    const std::int64_t positions = piece.rows * piece.columns;
    T* const out = c_.result + piece.image * c_.result_image_step + piece.row * c_.result_row_step +
                   piece.column * c_.result_column_step;
    for (std::int64_t image = 0; image < piece.images; ++image) {
      const T* const sums = sums_ + image * positions * pitch_;
      T* const to = out + image * c_.result_image_step;
      if (!is_scattered()) {
        transpose_matrix(positions, outputs_, sums, pitch_, to + c_.place_of(first_), c_.result_plane_step);
        continue;
      }
      const auto finish = PerIsa<FinishRows<T>>::active();
      transpose_matrix(positions, outputs_, sums, pitch_, turned_, positions);
      for (std::int64_t output = 0; output < outputs_; ++output) {
        finish(piece.rows, piece.columns, piece.columns, turned_ + output * positions,
               to + c_.place_of(first_ + output), c_.result_row_step, c_.result_column_step);
      }
    }
  }

  const Correlation<T>& c_;
  std::int64_t first_, outputs_;
  WindowSource<T> source_;
  std::int64_t pitch_;
  Workspace<T> workspace_;
  T* start_;   ///< of each sum
  T* sums_;    ///< [positions, pitch]
  T* turned_;  ///< [outputs, positions] of an image, on their way to where they are scattered
  std::vector<const T*> left_;
};

}  // namespace

template <class T>
void correlate_outputs(const Correlation<T>& c) {
  for (std::int64_t first = 0; first < c.outputs; first += kMostOutputs) {
    OutputVectors<T>(c, first, std::min(kMostOutputs, c.outputs - first)).run();
  }
}

template void correlate_outputs(const Correlation<float>&);
template void correlate_outputs(const Correlation<double>&);

}  // namespace diptych::kernels
