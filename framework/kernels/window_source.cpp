#include "framework/kernels/window_source.h"

#include <algorithm>

#include "framework/core/isa.h"
#include "framework/kernels/phased_plane.h"
#include "framework/kernels/product.h"

namespace diptych::kernels {
namespace {

/// Rows of a plane from `first_row` on, whose first element is that of `first_column`; zeros stand outside of the
/// plane.
template <class T>
struct CopyPadded {
  struct Call {
    const T* plane;
    std::int64_t height, width;
    std::int64_t first_row, first_column;
    std::int64_t rows, pitch;
    T* to;
  };
  DIPTYCH_INLINE static void run(const Call* call) {
    const std::int64_t before = std::clamp<std::int64_t>(-call->first_column, 0, call->pitch);
    const std::int64_t end = std::clamp(call->width - call->first_column, before, call->pitch);
    T* to = call->to;
    for (std::int64_t row = call->first_row; row < call->first_row + call->rows; ++row, to += call->pitch) {
      if (row < 0 || row >= call->height) {
        std::fill_n(to, call->pitch, T(0));
        continue;
      }
      for (std::int64_t i = 0; i < before; ++i) {
        to[i] = T(0);
      }
      gather_run(end - before, call->plane + row * call->width + call->first_column + before, 1, to + before);
      for (std::int64_t i = end; i < call->pitch; ++i) {
        to[i] = T(0);
      }
    }
  }
};

}  // namespace

template <class T>
bool WindowSource<T>::is_inside(const Correlation<T>& correlation) {
  const auto reads_no_padding = [](const WindowAxis& axis) {
    return axis.before <= 0 && axis.span() - axis.before <= axis.input;
  };
  return reads_no_padding(correlation.rows) && reads_no_padding(correlation.columns);
}

template <class T>
WindowSource<T>::WindowSource(const Correlation<T>& correlation, std::int64_t positions)
    : correlation_(correlation),
      pieces_(correlation.batch, correlation.rows.output, correlation.columns.output, positions, kProductStep),
      place_(Place::gathered) {
  if (is_inside(correlation)) {
    place_ = Place::source;
    return;
  }
  constexpr std::int64_t kMost = (std::int64_t{4} << 20) / sizeof(T);
  const Piece& most = pieces_.most();
  const std::int64_t taps = std::max<std::int64_t>(correlation.taps(), 1);
  const std::int64_t planes = std::min(correlation.channels, kBlock / taps + 2) * most.images;
  const WindowAxis rows = correlation.rows.part(0, most.rows);
  const WindowAxis columns = correlation.columns.part(0, most.columns);
  const double copies = static_cast<double>(planes) * static_cast<double>(rows.span());
  if (copies * static_cast<double>(columns.span()) <= static_cast<double>(kMost)) {
    place_ = Place::padded;
    copies_ = allocate_storage(static_cast<std::size_t>(planes * plane_of(most).size) * sizeof(T));
  } else {
    const std::int64_t values = std::min(kBlock, correlation.depth());
    copies_ = allocate_storage(static_cast<std::size_t>(values * most.positions()) * sizeof(T));
  }
}

template <class T>
auto WindowSource<T>::plane_of(const Piece& piece) const -> Plane {
  if (place_ == Place::source) {
    return {correlation_.rows.input, correlation_.columns.input, correlation_.plane_step};
  }
  const std::int64_t rows = correlation_.rows.part(piece.row, piece.rows).span();
  const std::int64_t pitch = correlation_.columns.part(piece.column, piece.columns).span();
  return {rows, pitch, rows * pitch};
}

template <class T>
std::vector<std::int64_t> WindowSource<T>::positions(const Piece& piece) const {
  std::vector<std::int64_t> at;
  at.reserve(static_cast<std::size_t>(piece.positions()));
  if (place_ == Place::gathered) {
    for (std::int64_t position = 0; position < piece.positions(); ++position) {
      at.push_back(position);
    }
    return at;
  }
  const Plane plane = plane_of(piece);
  const std::int64_t image_step = place_ == Place::source ? correlation_.image_step : plane.size;
  for (std::int64_t image = 0; image < piece.images; ++image) {
    for (std::int64_t row = 0; row < piece.rows; ++row) {
      const std::int64_t begin = image * image_step + row * correlation_.rows.stride * plane.pitch;
      for (std::int64_t column = 0; column < piece.columns; ++column) {
        at.push_back(begin + column * correlation_.columns.stride);
      }
    }
  }
  return at;
}

template <class T>
const T* WindowSource<T>::find_block(const Piece& piece, std::int64_t begin, std::vector<std::int64_t>& values) const {
  const auto count = static_cast<std::int64_t>(values.size());
  if (place_ == Place::gathered) {
    for (std::int64_t i = 0; i < count; ++i) {
      values[static_cast<std::size_t>(i)] = i * piece.positions();
    }
    gather(piece, begin, count);
    return static_cast<const T*>(copies_->data());
  }
  const WindowAxis& rows = correlation_.rows;
  const WindowAxis& columns = correlation_.columns;
  const std::int64_t taps = correlation_.taps();
  const std::int64_t first = begin / taps;
  const Plane plane = plane_of(piece);
  const std::int64_t channel_step = place_ == Place::source ? plane.size : piece.images * plane.size;
  std::int64_t k = begin - first * taps;
  std::int64_t channel = 0;
  for (std::int64_t& value : values) {
    value = channel + k / columns.kernel * rows.dilation * plane.pitch + k % columns.kernel * columns.dilation;
    if (++k == taps) {
      k = 0;
      channel += channel_step;
    }
  }
  if (place_ == Place::padded) {
    copy_padded(piece, first, (begin + count - 1) / taps + 1 - first);
    return static_cast<const T*>(copies_->data());
  }
  return source_of(piece) + first * plane.size + (piece.row * rows.stride - rows.before) * plane.pitch +
         piece.column * columns.stride - columns.before;
}

template <class T>
void WindowSource<T>::copy_padded(const Piece& piece, std::int64_t first_channel, std::int64_t channels) const {
  const WindowAxis& rows = correlation_.rows;
  const WindowAxis& columns = correlation_.columns;
  const Plane plane = plane_of(piece);
  const auto copy = PerIsa<CopyPadded<T>>::active();
  T* to = static_cast<T*>(copies_->data());
  for (std::int64_t channel = first_channel; channel < first_channel + channels; ++channel) {
    for (std::int64_t image = 0; image < piece.images; ++image, to += plane.size) {
      const typename CopyPadded<T>::Call call = {
          source_of(piece) + image * correlation_.image_step + channel * correlation_.plane_step,
          rows.input,
          columns.input,
          piece.row * rows.stride - rows.before,
          piece.column * columns.stride - columns.before,
          plane.rows,
          plane.pitch,
          to};
      copy(&call);
    }
  }
}

template <class T>
void WindowSource<T>::gather(const Piece& piece, std::int64_t begin, std::int64_t count) const {
  const WindowAxis& rows = correlation_.rows;
  const WindowAxis& columns = correlation_.columns;
  const std::int64_t taps = correlation_.taps();
  T* to = static_cast<T*>(copies_->data());
  for (std::int64_t k = begin; k < begin + count; ++k) {
    const std::int64_t below = k % taps / columns.kernel * rows.dilation - rows.before;
    const std::int64_t right = k % columns.kernel * columns.dilation - columns.before;
    const T* const plane = source_of(piece) + k / taps * correlation_.plane_step;
    for (std::int64_t image = 0; image < piece.images; ++image) {
      for (std::int64_t row = piece.row; row < piece.row + piece.rows; ++row) {
        const std::int64_t y = row * rows.stride + below;
        for (std::int64_t column = piece.column; column < piece.column + piece.columns; ++column) {
          const std::int64_t x = column * columns.stride + right;
          const bool is_padding = y < 0 || y >= rows.input || x < 0 || x >= columns.input;
          *to++ = is_padding ? T(0) : plane[image * correlation_.image_step + y * columns.input + x];
        }
      }
    }
  }
}

template class WindowSource<float>;
template class WindowSource<double>;

}  // namespace diptych::kernels
