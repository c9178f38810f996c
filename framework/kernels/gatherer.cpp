#include "framework/kernels/gatherer.h"

#include "framework/kernels/product.h"
#include "framework/kernels/runs.h"

namespace diptych::kernels {
namespace {

constexpr std::int64_t kVector = kProductStep;

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

}  // namespace

template <class T>
Gatherer<T>::Gatherer(const Correlation<T>& correlation, std::int64_t positions)
    : correlation_(correlation),
      pieces_(correlation.batch, correlation.rows.output, correlation.columns.output, positions, kVector) {
  const auto size_of = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
  const Piece& most = pieces_.most();
  const PhasedPlane layout = layout_of(most);
  in_phases_ = correlation.taps() > 1 && layout.is_reasonable();
  in_runs_ = in_runs(correlation, most);
  if (in_runs_) {
    phases_ = allocate_storage(size_of(planes(correlation) * layout.size()));
    return;
  }
  if (in_phases_) {
    phases_ = allocate_storage(size_of(most.images * layout.size()));
  }
  pitch_ = product_pitch(most.positions());
  gathered_ = allocate_storage(size_of(std::min(kBlock, correlation.depth()) * pitch_));
}

template <class T>
bool Gatherer<T>::in_runs(const Correlation<T>& correlation, const Piece& piece) {
  constexpr std::int64_t kMost = (std::int64_t{4} << 20) / sizeof(T);
  const PhasedPlane layout = layout_of(correlation, piece);
  return correlation.taps() > 1 && piece.images == 1 && layout.is_reasonable() &&
         planes(correlation) <= kMost / layout.size() && 20 * layout.pitch <= 21 * piece.columns;
}

template <class T>
std::int64_t Gatherer<T>::columns(const Correlation<T>& correlation, const Piece& piece, bool in_runs) {
  return in_runs ? (piece.rows - 1) * layout_of(correlation, piece).pitch + piece.columns : piece.positions();
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
      own += layout.size();
    }
    if (i == 0 || tap == 0) {
      std::fill_n(own, layout.size(), T(0));
      fill(&layout, correlation_.source + piece.image * correlation_.image_step + k / taps * correlation_.plane_step,
           own);
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

template class Gatherer<float>;
template class Gatherer<double>;

}  // namespace diptych::kernels
