#include "framework/kernels/direct_convolution.h"

#include <vector>

#include "framework/core/storage.h"
#include "framework/kernels/phased_plane.h"
#include "framework/kernels/scalar_math.h"

namespace diptych::kernels {
namespace {

template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t size) : storage_(allocate_storage(static_cast<std::size_t>(size) * sizeof(T))) {
    std::fill_n(data(), size, T(0));
  }
  T* data() const { return static_cast<T*>(storage_->data()); }

 private:
  StorageRef storage_;
};

/// out[i] = start + sum over taps of weights[t] * runs[t][i], in the order of the taps. Overshoots to whole blocks.
template <class T, int fixed_taps>
struct CombineRuns {
  DIPTYCH_INLINE static void run(std::int64_t n, std::int64_t taps, const T* const* runs, const T* weights, T start,
                                 T* out) {
    constexpr int kBlockSize = 256 / sizeof(T) / (fixed_taps > 0 ? 2 : 1);
    static_assert(kBlockSize <= PhasedPlane::kSlack);
    const std::int64_t count = fixed_taps > 0 ? fixed_taps : taps;
    for (std::int64_t i = 0; i < n; i += kBlockSize) {
      T total[kBlockSize];
      for (int j = 0; j < kBlockSize; ++j) {
        total[j] = start;
      }
      for (std::int64_t t = 0; t < count; ++t) {
        const T weight = weights[t];
        const T* in = runs[t] + i;
        for (int j = 0; j < kBlockSize; ++j) {
          total[j] = math::fma(weight, in[j], total[j]);
        }
      }
      for (int j = 0; j < kBlockSize; ++j) {
        out[i + j] = total[j];
      }
    }
  }
};

template <class T>
void combine_runs(std::int64_t n, const std::vector<const T*>& runs, const T* weights, T start, T* out) {
  const auto taps = static_cast<std::int64_t>(runs.size());
  const auto run = taps == 9 ? PerIsa<CombineRuns<T, 9>>::active() : PerIsa<CombineRuns<T, 0>>::active();
  run(n, taps, runs.data(), weights, start, out);
}

/// *out += sum of a[i] * b[i] where mask[i], in 32 lanes and a tree.
template <class T>
struct MaskedDot {
  using Bits = typename math::detail::FloatTraits<T>::Bits;
  DIPTYCH_INLINE static void run(std::int64_t n, const T* a, const T* b, const Bits* mask, T* out) {
    constexpr int kLanes = 32;
    T lanes[kLanes] = {};
    for (std::int64_t i = 0; i < n; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) {
        // Between the rows `b` is zero, but `a` isn't ours and may be NaN.
        const T value = std::bit_cast<T>(std::bit_cast<Bits>(a[i + j]) & mask[i + j]);
        lanes[j] = math::fma(value, b[i + j], lanes[j]);
      }
    }
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) {
        lanes[j] += lanes[j + half];
      }
    }
    *out += lanes[0];
  }
};

template <class T>
struct FillPhases {
  DIPTYCH_INLINE static void run(const PhasedPlane* layout, const T* plane, T* phases) {
    fill_phases(*layout, plane, phases);
  }
};
template <class T>
struct DrainPhases {
  DIPTYCH_INLINE static void run(const PhasedPlane* layout, const T* phases, T* plane) {
    drain_phases(*layout, phases, plane);
  }
};

/// Rows of `width` elements, `from` and `to` with pitches of their own.
template <class T>
void copy_rows(std::int64_t rows, std::int64_t width, const T* from, std::int64_t from_pitch, T* to,
               std::int64_t to_pitch) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(from + row * from_pitch, width, to + row * to_pitch);
  }
}

}  // namespace

bool direct_convolution_fits(const ConvolutionShape& shape) {
  return shape.groups > 1 && shape.channels * shape.outputs <= 16 && shape.channels * shape.outputs > 0 &&
         PhasedPlane(shape.rows, shape.columns).is_reasonable();
}

template <class T>
void direct_convolution(const ConvolutionShape& shape, const T* x, const T* weight, const T* bias, T* y) {
  const PhasedPlane layout(shape.rows, shape.columns);
  const Buffer<T> phases(shape.channels * layout.size());
  const Buffer<T> run(layout.run() + PhasedPlane::kSlack);
  std::vector<const T*> runs;
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    for (std::int64_t k = 0; k < shape.rows.kernel; ++k) {
      for (std::int64_t l = 0; l < shape.columns.kernel; ++l) {
        runs.push_back(phases.data() + channel * layout.size() + layout.offset(k, l));
      }
    }
  }
  const auto fill = PerIsa<FillPhases<T>>::active();
  for (std::int64_t group = 0; group < shape.batch * shape.groups; ++group) {
    for (std::int64_t channel = 0; channel < shape.channels; ++channel, x += shape.input_plane()) {
      fill(&layout, x, phases.data() + channel * layout.size());
    }
    for (std::int64_t output = 0; output < shape.outputs; ++output, y += shape.output_plane()) {
      const std::int64_t o = group % shape.groups * shape.outputs + output;
      combine_runs(layout.run(), runs, weight + o * shape.depth(), bias != nullptr ? bias[o] : T(0), run.data());
      copy_rows(shape.rows.output, shape.columns.output, run.data(), layout.pitch, y, shape.columns.output);
    }
  }
}

template <class T>
void direct_input_gradient(const ConvolutionShape& shape, const T* dy, const T* weight, T* dx) {
  const PhasedPlane layout(shape.rows, shape.columns);
  // Each run of outputs between zeros, because taps of a phase read it from different offsets.
  const std::int64_t margin = layout.phase_size() + layout.pitch;
  const std::int64_t run_size = 2 * margin + layout.run() + PhasedPlane::kSlack;
  const Buffer<T> outputs(shape.outputs * run_size);
  const Buffer<T> phases(layout.size());
  std::vector<const T*> runs;
  std::vector<T> weights;
  std::fill_n(dx, shape.batch * shape.groups * shape.channels * shape.input_plane(), T(0));
  const auto drain = PerIsa<DrainPhases<T>>::active();
  for (std::int64_t group = 0; group < shape.batch * shape.groups; ++group) {
    for (std::int64_t output = 0; output < shape.outputs; ++output, dy += shape.output_plane()) {
      copy_rows(shape.rows.output, shape.columns.output, dy, shape.columns.output,
                outputs.data() + output * run_size + margin, layout.pitch);
    }
    const T* of_group = weight + group % shape.groups * shape.outputs * shape.depth();
    for (std::int64_t channel = 0; channel < shape.channels; ++channel, dx += shape.input_plane()) {
      for (std::int64_t phase = 0; phase < layout.row_phases * layout.column_phases; ++phase) {
        runs.clear();
        weights.clear();
        for (std::int64_t output = 0; output < shape.outputs; ++output) {
          for (std::int64_t k = 0; k < shape.rows.kernel; ++k) {
            for (std::int64_t l = 0; l < shape.columns.kernel; ++l) {
              if (layout.phase_of(k, l) == phase) {
                runs.push_back(outputs.data() + output * run_size + margin - layout.offset_in_phase(k, l));
                weights.push_back(
                    of_group[output * shape.depth() + channel * shape.taps() + k * shape.columns.kernel + l]);
              }
            }
          }
        }
        combine_runs(layout.phase_size(), runs, weights.data(), T(0), phases.data() + phase * layout.phase_size());
      }
      drain(&layout, phases.data(), dx);
    }
  }
}

template <class T>
void direct_weight_gradient(const ConvolutionShape& shape, const T* x, const T* dy, T* dweight) {
  const PhasedPlane layout(shape.rows, shape.columns);
  const Buffer<T> phases(shape.channels * layout.size());
  const Buffer<T> run(layout.run() + PhasedPlane::kSlack);
  using Bits = typename MaskedDot<T>::Bits;
  const Buffer<Bits> mask(layout.run() + PhasedPlane::kSlack);
  for (std::int64_t row = 0; row < shape.rows.output; ++row) {
    std::fill_n(mask.data() + row * layout.pitch, shape.columns.output, Bits(-1));
  }
  std::fill_n(dweight, shape.groups * shape.outputs * shape.depth(), T(0));
  const auto fill = PerIsa<FillPhases<T>>::active();
  const auto dot = PerIsa<MaskedDot<T>>::active();
  for (std::int64_t group = 0; group < shape.batch * shape.groups; ++group) {
    for (std::int64_t channel = 0; channel < shape.channels; ++channel, x += shape.input_plane()) {
      fill(&layout, x, phases.data() + channel * layout.size());
    }
    T* out = dweight + group % shape.groups * shape.outputs * shape.depth();
    for (std::int64_t output = 0; output < shape.outputs; ++output, dy += shape.output_plane()) {
      copy_rows(shape.rows.output, shape.columns.output, dy, shape.columns.output, run.data(), layout.pitch);
      for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
        for (std::int64_t k = 0; k < shape.rows.kernel; ++k) {
          for (std::int64_t l = 0; l < shape.columns.kernel; ++l) {
            dot(layout.run(), phases.data() + channel * layout.size() + layout.offset(k, l), run.data(), mask.data(),
                out++);
          }
        }
      }
    }
  }
}

template void direct_convolution(const ConvolutionShape&, const float*, const float*, const float*, float*);
template void direct_convolution(const ConvolutionShape&, const double*, const double*, const double*, double*);
template void direct_input_gradient(const ConvolutionShape&, const float*, const float*, float*);
template void direct_input_gradient(const ConvolutionShape&, const double*, const double*, double*);
template void direct_weight_gradient(const ConvolutionShape&, const float*, const float*, float*);
template void direct_weight_gradient(const ConvolutionShape&, const double*, const double*, double*);

}  // namespace diptych::kernels
