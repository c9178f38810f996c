#include "framework/kernels/convolution.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/core/transpose.h"
#include "framework/kernels/correlation.h"
#include "framework/kernels/direct_convolution.h"
#include "framework/kernels/matrix_product.h"
#include "framework/kernels/product.h"
#include "framework/kernels/wide_float.h"
#include "framework/kernels/window_source.h"
#include "framework/kernels/workspace.h"

namespace diptych::kernels {
namespace {

template <class T>
Correlation<T> correlation_of(const ConvolutionShape& shape, std::int64_t group, const T* x) {
  Correlation<T> c;
  c.batch = shape.batch;
  c.channels = shape.channels;
  c.rows = shape.rows;
  c.columns = shape.columns;
  c.source = x != nullptr ? x + group * shape.channels * shape.input_plane() : nullptr;
  c.image_step = shape.groups * shape.channels * shape.input_plane();
  c.plane_step = shape.input_plane();
  return c;
}

/// Of one group, but for where the result lies. Without x: the weights and the sizes.
template <class T>
Correlation<T> forward_of(const ConvolutionShape& shape, std::int64_t group, const T* x, const T* weight) {
  Correlation<T> c = correlation_of(shape, group, x);
  c.outputs = shape.outputs;
  c.weights = weight + group * shape.outputs * shape.depth();
  c.output_step = shape.depth();
  c.channel_step = shape.taps();
  c.tap_offsets.resize(static_cast<std::size_t>(shape.taps()));
  std::iota(c.tap_offsets.begin(), c.tap_offsets.end(), 0);
  return c;
}

template <class T>
void forward(const ConvolutionShape& shape, const T* x, const T* weight, const T* bias, T* y, const Epilogue* epilogue,
             const T* packed) {
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    Correlation<T> c = forward_of(shape, group, x, weight);
    const std::int64_t output = group * shape.outputs;
    if (packed != nullptr) {
      c.packed = PackedMatrix<T>::packed(shape.depth(), shape.outputs, packed);
      packed += PackedMatrix<T>::size(shape.depth(), shape.outputs);
    }
    c.bias = bias != nullptr ? bias + output : nullptr;
    c.result = y + output * shape.output_plane();
    c.result_image_step = shape.groups * shape.outputs * shape.output_plane();
    c.result_plane_step = shape.output_plane();
    c.result_row_step = shape.columns.output;
    c.epilogue = epilogue;
    c.epilogue_row = output;
    c.epilogue_rows_of_image = shape.groups * shape.outputs;
    correlate(c);
  }
}

/// The inputs first, first + stride, ..., which read the outputs as windows at stride 1, through every n-th tap in
/// reverse order.
struct PhaseAxis {
  WindowAxis window;
  std::int64_t first = 0;
  std::vector<std::int64_t> taps;

  PhaseAxis(const WindowAxis& axis, std::int64_t phase) {
    first = ((phase - axis.before) % axis.stride + axis.stride) % axis.stride;
    const std::int64_t start = (first + axis.before - phase) / axis.stride;
    for (std::int64_t k = axis.kernel - 1; k >= 0; --k) {
      if (k * axis.dilation % axis.stride == phase) {
        taps.push_back(k);
      }
    }
    window.input = axis.output;
    window.output = axis.input <= first ? 0 : (axis.input - first - 1) / axis.stride + 1;
    window.kernel = static_cast<std::int64_t>(taps.size());
    if (!taps.empty()) {
      window.before = taps.front() * axis.dilation / axis.stride - start;
      window.dilation = axis.dilation / std::gcd(axis.dilation, axis.stride);
    }
  }
};

/// Only the phases that contain a tap.
std::vector<PhaseAxis> phases_of(const WindowAxis& axis) {
  std::vector<std::int64_t> phases;
  for (std::int64_t k = 0; k < axis.kernel; ++k) {
    phases.push_back(k * axis.dilation % axis.stride);
  }
  std::sort(phases.begin(), phases.end());
  phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  std::vector<PhaseAxis> axes;
  for (const std::int64_t phase : phases) {
    axes.emplace_back(axis, phase);
  }
  return axes;
}

/// dy of a group, as the source of its dx.
template <class T>
Correlation<T> transposed(const ConvolutionShape& shape, std::int64_t group, const T* dy, const T* weight, T* dx) {
  Correlation<T> c;
  c.batch = shape.batch;
  c.channels = shape.outputs;
  c.source = dy + group * shape.outputs * shape.output_plane();
  c.image_step = shape.groups * shape.outputs * shape.output_plane();
  c.plane_step = shape.output_plane();
  c.weights = weight + group * shape.outputs * shape.depth();
  c.channel_step = shape.depth();
  c.result = dx + group * shape.channels * shape.input_plane();
  c.result_image_step = shape.groups * shape.channels * shape.input_plane();
  c.result_plane_step = shape.input_plane();
  c.result_row_step = shape.columns.input * shape.rows.stride;
  c.result_column_step = shape.columns.stride;
  return c;
}

/// Windows side by side, as the patches of a vision transformer: no input is read by two.
bool is_patches(const ConvolutionShape& shape) {
  const auto side_by_side = [](const WindowAxis& axis) {
    const bool is_inside = axis.before == 0 && axis.span() <= axis.input;
    return is_inside && axis.dilation == 1 && axis.kernel <= axis.stride;
  };
  return shape.taps() > 1 && side_by_side(shape.rows) && side_by_side(shape.columns);
}

/// Of patches: every cell of a patch is an output of its own, of a window that is one position of dy. So dy is gathered
/// once, and the product has as many rows as a patch has elements; phase by phase it has as many as there are channels,
/// three for images.
template <class T>
void patches_gradient(const ConvolutionShape& shape, const T* dy, const T* weight, T* dx) {
  if (shape.rows.output * shape.rows.kernel != shape.rows.input ||
      shape.columns.output * shape.columns.kernel != shape.columns.input) {  // cells between or behind the patches
    std::fill_n(dx, shape.batch * shape.groups * shape.channels * shape.input_plane(), T(0));
  }
  const auto one_position = [](const WindowAxis& axis) {
    WindowAxis window;
    window.input = window.output = axis.output;
    window.kernel = 1;
    return window;
  };
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    Correlation<T> c = transposed(shape, group, dy, weight, dx);
    c.rows = one_position(shape.rows);
    c.columns = one_position(shape.columns);
    c.outputs = shape.depth();
    c.output_step = 1;
    c.tap_offsets = {0};
    c.in_plane.clear();
    for (std::int64_t k = 0; k < shape.rows.kernel; ++k) {
      for (std::int64_t l = 0; l < shape.columns.kernel; ++l) {
        c.in_plane.push_back(k * shape.columns.input + l);
      }
    }
    correlate(c);
  }
}

template <class T>
void input_gradient(const ConvolutionShape& shape, const T* dy, const T* weight, T* dx) {
  if (is_patches(shape)) {
    patches_gradient(shape, dy, weight, dx);
    return;
  }
  const std::vector<PhaseAxis> row_phases = phases_of(shape.rows);
  const std::vector<PhaseAxis> column_phases = phases_of(shape.columns);
  const auto covers = [](const std::vector<PhaseAxis>& phases, const WindowAxis& axis) {
    return static_cast<std::int64_t>(phases.size()) == axis.stride;
  };
  if (!covers(row_phases, shape.rows) || !covers(column_phases, shape.columns)) {
    std::fill_n(dx, shape.batch * shape.groups * shape.channels * shape.input_plane(), T(0));
  }
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    for (const PhaseAxis& rows : row_phases) {
      for (const PhaseAxis& columns : column_phases) {
        Correlation<T> c = transposed(shape, group, dy, weight, dx);
        c.rows = rows.window;
        c.columns = columns.window;
        c.outputs = shape.channels;
        c.output_step = shape.taps();
        for (const std::int64_t k : rows.taps) {
          for (const std::int64_t l : columns.taps) {
            c.tap_offsets.push_back(k * shape.columns.kernel + l);
          }
        }
        c.result += rows.first * shape.columns.input + columns.first;
        correlate(c);
      }
    }
  }
}

/// The weights from some input channels to some outputs of a group.
struct WeightRange {
  std::int64_t group;
  std::int64_t first_channel, channels;
  std::int64_t first_output, outputs;
};

/// The positions that are added up before they are added to the weight's gradient: at most so many.
constexpr std::int64_t kPositions = 224;

Pieces pieces_of(const ConvolutionShape& shape) {
  return {shape.batch, shape.rows.output, shape.columns.output, kPositions, kProductStep};
}

/// Of one tap at stride 1, and pieces of one image: x and dy are multiplied where they lie, with the same bits.
bool is_in_place(const ConvolutionShape& shape) {
  return is_plane(shape.rows, shape.columns) && shape.rows.input == shape.rows.output &&
         pieces_of(shape).most().images == 1;
}

template <class T>
void gradient_in_place(const ConvolutionShape& shape, const WeightRange& range, const T* x, const T* dy, T* dweight) {
  const std::int64_t plane = shape.output_plane();
  const std::int64_t output = range.group * shape.outputs + range.first_output;
  const std::int64_t channel = range.group * shape.channels + range.first_channel;
  // As a part: what stands beside its columns isn't its own.
  const Result<T> to = Result<T>{dweight + output * shape.channels, shape.channels}.part(0, range.first_channel);
  bool first = true;
  pieces_of(shape).for_each([&](const Piece& piece) {
    const std::int64_t in_plane = piece.row * shape.columns.output + piece.column;
    const T* const of_outputs = dy + (piece.image * shape.groups * shape.outputs + output) * plane + in_plane;
    const T* const of_channels = x + (piece.image * shape.groups * shape.channels + channel) * plane + in_plane;
    const Matrix<T> outputs{of_outputs, range.outputs, piece.positions(), plane, 1};
    const Matrix<T> channels{of_channels, piece.positions(), range.channels, 1, plane};
    first ? multiply(outputs, channels, to) : add_product_to(outputs, channels, to);
    first = false;
  });
}

/// Accumulates the transpose of the weight gradient, one product per piece: [depth, positions] * [positions, outputs].
template <class T>
void gradient_of_range(const ConvolutionShape& shape, const WeightRange& range, const T* x, const T* dy, T* dweight) {
  const std::int64_t depth = range.channels * shape.taps();
  const std::int64_t outputs_pitch = product_pitch(range.outputs);
  const Workspace<T> transposed(depth * outputs_pitch);
  Correlation<T> c = correlation_of(shape, range.group, x);
  c.source += range.first_channel * c.plane_step;
  c.channels = range.channels;
  const WindowSource<T> source(c, kPositions);
  const Workspace<T> outputs(source.most_positions() * outputs_pitch);
  std::fill_n(outputs.data(), source.most_positions() * outputs_pitch, T(0));
  const std::int64_t first_output = range.group * shape.outputs + range.first_output;
  const T* output = dy + first_output * shape.output_plane();
  std::vector<const T*> values;
  bool first = true;
  source.for_each_piece([&](const Piece& piece) {
    for (std::int64_t image = 0; image < piece.images; ++image) {
      const std::int64_t positions = piece.rows * piece.columns;
      transpose_matrix(range.outputs, positions,
                       output + (piece.image + image) * shape.groups * shape.outputs * shape.output_plane() +
                           piece.row * shape.columns.output + piece.column,
                       shape.output_plane(), outputs.data() + image * positions * outputs_pitch, outputs_pitch);
    }
    const std::vector<std::int64_t> positions = source.positions(piece);
    source.for_each_block(piece, [&](std::int64_t begin, const T* origin, const std::vector<std::int64_t>& offsets) {
      values.clear();
      for (const std::int64_t offset : offsets) {
        values.push_back(origin + offset);
      }
      T* const sums = transposed.data() + begin * outputs_pitch;
      product(ProductCall<T, ListedLeft<T>>{static_cast<std::int64_t>(values.size()),
                                            range.outputs,
                                            piece.positions(),
                                            {values.data(), positions.data(), outputs.data(), outputs_pitch},
                                            first ? nullptr : sums,
                                            outputs_pitch,
                                            sums,
                                            outputs_pitch});
    });
    first = false;
  });
  transpose_matrix(depth, range.outputs, transposed.data(), outputs_pitch,
                   dweight + first_output * shape.depth() + range.first_channel * shape.taps(), shape.depth());
}

template <class T>
void weight_gradient(const ConvolutionShape& shape, const T* x, const T* dy, T* dweight) {
  if (shape.batch * shape.output_plane() == 0) {
    std::fill_n(dweight, shape.groups * shape.outputs * shape.depth(), T(0));
    return;
  }
  // Ranges of channels, each of which transposes dy, or of outputs, each of which gathers x, if the channels are few.
  constexpr std::int64_t kFewest = 8;
  const double of_group = nanoseconds_of_product<T>(shape.outputs, shape.depth(), shape.batch * shape.output_plane());
  const std::int64_t threads = is_worth_dividing(shape.groups, of_group) ? thread_count() : 1;
  const bool has_channels = shape.channels >= threads * kFewest;
  const std::int64_t all = has_channels ? shape.channels : shape.outputs;
  const bool in_place = is_in_place(shape);
  // In place, threads write to the same rows, each to vectors of its own.
  const std::int64_t of_step = in_place && has_channels ? kProductStep : 1;
  const std::int64_t least = std::max(kFewest, (all + threads - 1) / threads);
  const std::int64_t step = threads == 1 ? all : (least + of_step - 1) / of_step * of_step;
  const std::int64_t ranges = (all + step - 1) / step;
  parallel_for(shape.groups * ranges, of_group / static_cast<double>(ranges),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t i = first; i < last; ++i) {
                   WeightRange range{i / ranges, 0, shape.channels, 0, shape.outputs};
                   const std::int64_t at = i % ranges * step;
                   (has_channels ? range.first_channel : range.first_output) = at;
                   (has_channels ? range.channels : range.outputs) = std::min(step, all - at);
                   (in_place ? gradient_in_place<T> : gradient_of_range<T>)(shape, range, x, dy, dweight);
                 }
               });
}

/// Does nothing for empty results, whose shapes may be anything.
template <class Fn>
void with_type(DType dtype, std::int64_t elements, const Fn& fn) {
  if (elements != 0) {
    visit_wide_float(dtype, fn);
  }
}

}  // namespace

void convolution(const ConvolutionShape& shape, DType dtype, const void* x, const void* weight, const void* bias,
                 void* y, const Epilogue* epilogue, const void* packed) {
  with_type(dtype, shape.batch * shape.groups * shape.outputs * shape.output_plane(), [&]<class T>() {
    const auto* const from = static_cast<const T*>(x);
    const auto* const by = static_cast<const T*>(weight);
    const auto* const start = static_cast<const T*>(bias);
    if (!direct_convolution_fits(shape)) {
      forward(shape, from, by, start, static_cast<T*>(y), epilogue, static_cast<const T*>(packed));
      return;
    }
    direct_convolution(shape, from, by, start, static_cast<T*>(y));
    if (epilogue != nullptr) {
      (*epilogue)(0, shape.batch * shape.groups * shape.outputs, 0, shape.output_plane());
    }
  });
}

std::size_t packed_weights_bytes(const ConvolutionShape& shape, DType dtype) {
  std::int64_t elements = 0;
  if (!direct_convolution_fits(shape)) {
    with_type(dtype, shape.batch * shape.groups * shape.outputs * shape.output_plane(), [&]<class T>() {
      const T* const none = nullptr;
      elements = shape.groups * packed_weights_size(forward_of(shape, 0, none, none));
    });
  }
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

void pack_weights(const ConvolutionShape& shape, DType dtype, const void* weight, void* to) {
  visit_wide_float(dtype, [&]<class T>() {
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      pack_weights(forward_of<T>(shape, group, nullptr, static_cast<const T*>(weight)),
                   static_cast<T*>(to) + group * PackedMatrix<T>::size(shape.depth(), shape.outputs));
    }
  });
}

void convolution_input_gradient(const ConvolutionShape& shape, DType dtype, const void* dy, const void* weight,
                                void* dx) {
  with_type(dtype, shape.batch * shape.groups * shape.channels * shape.input_plane(), [&]<class T>() {
    const auto run = direct_convolution_fits(shape) ? direct_input_gradient<T> : input_gradient<T>;
    run(shape, static_cast<const T*>(dy), static_cast<const T*>(weight), static_cast<T*>(dx));
  });
}

void convolution_weight_gradient(const ConvolutionShape& shape, DType dtype, const void* x, const void* dy,
                                 void* dweight) {
  with_type(dtype, shape.groups * shape.outputs * shape.depth(), [&]<class T>() {
    const auto run = direct_convolution_fits(shape) ? direct_weight_gradient<T> : weight_gradient<T>;
    run(shape, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dweight));
  });
}

}  // namespace diptych::kernels
