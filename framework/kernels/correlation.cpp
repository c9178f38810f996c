#include "framework/kernels/correlation.h"

#include <numeric>

#include "framework/core/parallel.h"
#include "framework/kernels/matrix_product.h"
#include "framework/kernels/product.h"
#include "framework/kernels/runs.h"

namespace diptych::kernels {
namespace {

constexpr std::int64_t kVector = kProductStep;

WindowAxis part_of(WindowAxis axis, std::int64_t first, std::int64_t count) {
  axis.before -= first * axis.stride;
  axis.output = count;
  return axis;
}

Piece largest_piece(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t positions) {
  if (height * width <= positions) {
    return {
        0,
        std::clamp<std::int64_t>(positions / std::max<std::int64_t>(height * width, 1), 1, std::max<std::int64_t>(batch, 1)),
        0,
        height,
        0,
        width};
  }
  if (width > positions) {
    return {0, 1, 0, 1, 0, positions};
  }
  // Rounds down to whole vectors if that costs less than half of the rows.
  std::int64_t rows = positions / width;
  for (std::int64_t fewer = rows; 2 * fewer > rows; --fewer) {
    if (fewer * width % kVector == 0) {
      rows = fewer;
      break;
    }
  }
  return {0, 1, 0, rows, 0, width};
}

/// Copies rows of `width` elements, `pitch` apart, into a dense run; reads and writes up to a vector more.
template <class T>
struct JoinRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t width, const T* from, std::int64_t pitch, T* to) {
    if (width == pitch) {
      width *= rows;
      rows = 1;
    }
    for (std::int64_t row = 0; row < rows; ++row, from += pitch, to += width) {
      for (std::int64_t i = 0; i < width; i += kVector) {
        for (std::int64_t j = 0; j < kVector; ++j) {
          to[i + j] = from[i + j];
        }
      }
    }
  }
};

/// The same for one tap, directly from a plane.
template <class T>
struct GatherTap {
  DIPTYCH_INLINE static void run(const WindowAxis* rows, const WindowAxis* columns, std::int64_t k, std::int64_t l,
                                 const T* plane, T* out) {
    const WindowAxis::Range inside = columns->inside(l);
    const std::int64_t stride = columns->stride;
    const std::int64_t width = columns->output;
    for (std::int64_t row = 0; row < rows->output; ++row, out += width) {
      const std::int64_t source = row * rows->stride + k * rows->dilation - rows->before;
      const bool padding = source < 0 || source >= rows->input;
      const std::int64_t begin = padding ? width : inside.begin;
      const std::int64_t end = padding ? width : inside.end;
      const T* in = plane + source * columns->input + l * columns->dilation - columns->before;
      std::fill(out, out + begin, T(0));
      if (stride == 1) {
        for (std::int64_t i = begin; i < end; ++i) {
          out[i] = in[i];
        }
      } else if (stride == 2) {
        for (std::int64_t i = begin; i < end; ++i) {
          out[i] = in[2 * i];
        }
      } else {
        for (std::int64_t i = begin; i < end; ++i) {
          out[i] = in[stride * i];
        }
      }
      std::fill(out + end, out + width, T(0));
    }
  }
};

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

/// Stores lines of sums to their destination.
template <class T>
struct Finish {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t width, std::int64_t sums_step, const T* sums, T* out,
                                 std::int64_t row_step, std::int64_t column_step) {
    if (width == row_step && width == sums_step && column_step == 1) {
      width *= rows;
      rows = 1;
    }
    for (std::int64_t row = 0; row < rows; ++row, sums += sums_step, out += row_step) {
      if (column_step == 1) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < width; ++i) {
          out[i] = sums[i];
        }
      } else {
        for (std::int64_t i = 0; i < width; ++i) {
          out[i * column_step] = sums[i];
        }
      }
    }
  }
};

}  // namespace

template <class T>
Gatherer<T>::Gatherer(const Correlation<T>& correlation, std::int64_t positions, Columns columns)
    : correlation_(correlation),
      most_(largest_piece(correlation.batch, correlation.rows.output, correlation.columns.output, positions)) {
  // Runs save the copies. As dense columns they cost the computation of the columns between the rows, which must be
  // small; for narrow planes it isn't.
  constexpr std::int64_t kRunsBytes = std::int64_t{4} << 20;
  const auto size_of = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
  const PhasedPlane layout = layout_of(most_);
  const std::int64_t taps = correlation.taps();
  const std::int64_t planes = std::min(correlation.channels, kBlock / std::max<std::int64_t>(taps, 1) + 2);
  in_phases_ = taps > 1 && layout.is_reasonable();
  in_runs_ = in_phases_ && planes * most_.images <= kRunsBytes / static_cast<std::int64_t>(sizeof(T)) / layout.size() &&
             (columns == Columns::sparse || (most_.images == 1 && 20 * layout.pitch <= 21 * most_.columns));
  if (in_runs_) {
    phases_ = allocate_storage(size_of(planes * most_.images * layout.size()));
    return;
  }
  if (in_phases_) {
    phases_ = allocate_storage(size_of(most_.images * layout.size()));
  }
  pitch_ = product_pitch(most_.positions());
  gathered_ = allocate_storage(size_of(std::min(kBlock, correlation.channels * taps) * pitch_));
}

template <class T>
PhasedPlane Gatherer<T>::layout_of(const Piece& piece) const {
  return {part_of(correlation_.rows, piece.row, piece.rows),
          part_of(correlation_.columns, piece.column, piece.columns)};
}

template <class T>
std::vector<std::int64_t> Gatherer<T>::at(const Piece& piece) const {
  const std::int64_t step = row_step(piece);
  const std::int64_t image_step = in_runs_ ? layout_of(piece).size() : piece.rows * piece.columns;
  std::vector<std::int64_t> at;
  for (std::int64_t image = 0; image < piece.images; ++image) {
    for (std::int64_t row = 0; row < piece.rows; ++row) {
      for (std::int64_t column = 0; column < piece.columns; ++column) {
        at.push_back(image * image_step + row * step + column);
      }
    }
  }
  return at;
}

template <class T>
void Gatherer<T>::find_runs(const Piece& piece, std::int64_t begin, std::vector<const T*>& rows) const {
  const PhasedPlane layout = layout_of(piece);
  const std::int64_t taps = correlation_.taps();
  const auto fill = PerIsa<FillPhases<T>>::active();
  T* own = static_cast<T*>(phases_->data());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t k = begin + static_cast<std::int64_t>(i);
    const std::int64_t tap = k % taps;
    if (i > 0 && tap == 0) {
      own += piece.images * layout.size();
    }
    if (i == 0 || tap == 0) {
      const T* plane = correlation_.source + piece.image * correlation_.image_step + k / taps * correlation_.plane_step;
      std::fill_n(own, piece.images * layout.size(), T(0));
      for (std::int64_t image = 0; image < piece.images; ++image) {
        fill(&layout, plane + image * correlation_.image_step, own + image * layout.size());
      }
    }
    rows[i] = own + layout.offset(tap / correlation_.columns.kernel, tap % correlation_.columns.kernel);
  }
}

template <class T>
void Gatherer<T>::gather(const Piece& piece, std::int64_t begin, std::vector<const T*>& rows) const {
  const PhasedPlane layout = layout_of(piece);
  const std::int64_t taps = correlation_.taps();
  const std::int64_t positions = piece.rows * piece.columns;
  const auto fill = PerIsa<FillPhases<T>>::active();
  const auto join = PerIsa<JoinRows<T>>::active();
  const auto gather_tap = PerIsa<GatherTap<T>>::active();
  T* phases = in_phases_ ? static_cast<T*>(phases_->data()) : nullptr;
  if (in_phases_) {
    std::fill_n(phases, piece.images * layout.size(), T(0));
  }
  T* out = static_cast<T*>(gathered_->data());
  for (std::size_t i = 0; i < rows.size(); ++i, out += pitch_) {
    const std::int64_t k = begin + static_cast<std::int64_t>(i);
    rows[i] = out;
    const std::int64_t tap = k % taps;
    const std::int64_t row_tap = tap / correlation_.columns.kernel;
    const std::int64_t column_tap = tap % correlation_.columns.kernel;
    const T* plane = correlation_.source + piece.image * correlation_.image_step + k / taps * correlation_.plane_step;
    for (std::int64_t image = 0; image < piece.images; ++image, plane += correlation_.image_step) {
      if (in_phases_) {
        T* own = phases + image * layout.size();
        if (tap == 0 || k == begin) {
          fill(&layout, plane, own);
        }
        join(piece.rows, piece.columns, own + layout.offset(row_tap, column_tap), layout.pitch,
             out + image * positions);
      } else {
        gather_tap(&layout.rows, &layout.columns, row_tap, column_tap, plane, out + image * positions);
      }
    }
    std::fill_n(out + piece.positions(), kVector, T(0));
  }
}

namespace {

template <class T>
void correlate_part(const Correlation<T>& c) {
  // The working set of one piece (blocks of the gathered matrix and all sums) stays in the L2 cache or close to it.
  // More positions read the weights, which are larger, less often.
  constexpr std::int64_t kCached = (std::int64_t{1280} << 10) / static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kOutputs = 1024;
  if (c.outputs * c.rows.output * c.columns.output == 0) {
    return;
  }
  const std::int64_t most_outputs = std::min(c.outputs, kOutputs);
  const Gatherer<T> gatherer(
      c, std::clamp<std::int64_t>(kCached / (most_outputs + Gatherer<T>::kBlock) / 16 * 16, 48, 512),
      Gatherer<T>::Columns::dense);
  const std::int64_t pitch = product_pitch(gatherer.most_columns());
  const Workspace<T> sums(most_outputs * pitch);
  const std::int64_t taps = c.taps();
  const bool packs = c.output_step > 1 && taps <= Gatherer<T>::kBlock && c.channel_step > c.output_step;
  const std::int64_t packed_pitch = product_pitch(std::min(Gatherer<T>::kBlock + 2 * taps, c.channels * taps));
  const Workspace<T> packed(packs ? most_outputs * packed_pitch : 0);
  const auto pack = PerIsa<PackWeights<T>>::active();
  const auto finish = PerIsa<Finish<T>>::active();
  std::vector<const T*> rows;
  std::vector<std::int64_t> at;
  for (std::int64_t first = 0; first < c.outputs; first += kOutputs) {
    const std::int64_t outputs = std::min(kOutputs, c.outputs - first);
    rows.clear();
    for (std::int64_t output = 0; output < outputs; ++output) {
      rows.push_back(packs ? packed.data() + output * packed_pitch : c.weights + (first + output) * c.output_step);
    }
    gatherer.for_each_piece([&](const Piece& piece) {
      // Where whole vectors fit, the result is computed in its place.
      const std::int64_t columns = gatherer.columns(piece);
      const bool is_dense = piece.images == 1 && columns == piece.positions() && columns % kVector == 0 &&
                            c.result_column_step == 1 && c.in_plane.size() == 1 &&
                            (piece.rows == 1 || piece.columns == c.result_row_step);
      T* const out = c.result + piece.image * c.result_image_step + piece.row * c.result_row_step +
                     piece.column * c.result_column_step;
      T* const to = is_dense ? out + c.place_of(first) : sums.data();
      const std::int64_t to_pitch = is_dense ? c.result_plane_step : pitch;
      if (c.channels == 0 || c.bias != nullptr) {
        for (std::int64_t output = 0; output < outputs; ++output) {
          std::fill_n(to + output * to_pitch, (columns + kVector - 1) / kVector * kVector,
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
      for (std::int64_t image = piece.image; c.epilogue != nullptr && image < piece.image + piece.images; ++image) {
        (*c.epilogue)(c.epilogue_row + image * c.epilogue_rows_of_image + first, outputs,
                      c.epilogue_column + piece.row * c.result_row_step + piece.column, positions);
      }
    });
  }
}

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
  c.rows = part_of(c.rows, first, count);
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

}  // namespace

template <class T>
void correlate(const Correlation<T>& c) {
  const std::int64_t positions = c.rows.output * c.columns.output;
  const double nanoseconds = nanoseconds_of_product<T>(c.outputs, c.batch * positions, c.channels * c.taps());
  if (nanoseconds == 0 || !is_worth_dividing(1, nanoseconds)) {
    correlate_part(c);
    return;
  }
  const std::int64_t threads = thread_count();
  const auto divide = [&](std::int64_t all, std::int64_t parts,
                          Correlation<T> (*part)(Correlation<T>, std::int64_t, std::int64_t)) {
    const std::int64_t step = (all + parts - 1) / parts;
    parts = (all + step - 1) / step;
    parallel_for(parts, nanoseconds / static_cast<double>(parts), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        correlate_part(part(c, i * step, std::min(step, all - i * step)));
      }
    });
  };
  // By images; by rows of the result, where each thread reads all weights; or by outputs, where each gathers the whole
  // source: whichever is less.
  if (are_enough(c.batch)) {
    divide(c.batch, 2 * threads, images_of<T>);
  } else if (c.rows.output >= threads && positions >= c.outputs) {
    divide(c.rows.output, threads, rows_of<T>);
  } else {
    divide(c.outputs, threads, outputs_of<T>);
  }
}

template class Gatherer<float>;
template class Gatherer<double>;
template void correlate(const Correlation<float>&);
template void correlate(const Correlation<double>&);

}  // namespace diptych::kernels
