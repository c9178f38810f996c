#include "framework/kernels/direct_convolution.h"

#include <algorithm>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/kernels/runs.h"

namespace diptych::kernels {
namespace {

/// out[t] += the sum of runs[t][i] * b[i] where mask[i], each summed in 16 lanes and a tree.
template <class T, int taps>
struct MaskedDots {
  using Bits = typename math::detail::FloatTraits<T>::Bits;
  DIPTYCH_INLINE static void run(std::int64_t n, const T* const* runs, const T* b, const Bits* mask, T* out) {
    constexpr int kLanes = 16;
    const T* in[taps];
    T lanes[taps][kLanes] = {};
    for (int t = 0; t < taps; ++t) {
      in[t] = runs[t];
    }
    for (std::int64_t i = 0; i < n; i += kLanes) {
#pragma GCC unroll 16
      for (int t = 0; t < taps; ++t) {
        for (int j = 0; j < kLanes; ++j) {
          // Between the rows `b` is zero, but the run holds other data there, which may be NaN.
          const T value = std::bit_cast<T>(std::bit_cast<Bits>(in[t][i + j]) & mask[i + j]);
          lanes[t][j] = math::fma(value, b[i + j], lanes[t][j]);
        }
      }
    }
    for (int t = 0; t < taps; ++t) {
      for (int half = kLanes / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) {
          lanes[t][j] += lanes[t][j + half];
        }
      }
      out[t] += lanes[t][0];
    }
  }
};

/// Of one group of one image on one thread, roughly. Groups are counted through all images.
double nanoseconds_of_group(const ConvolutionShape& shape) {
  constexpr double kOfProduct = 0.1;
  return kOfProduct * static_cast<double>(shape.outputs * shape.depth() * shape.output_plane());
}

template <class T>
void convolve_groups(const ConvolutionShape& shape, std::int64_t first, std::int64_t last, const T* x, const T* weight,
                     const T* bias, T* y) {
  x += first * shape.channels * shape.input_plane();
  y += first * shape.outputs * shape.output_plane();
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
  for (std::int64_t group = first; group < last; ++group) {
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
void input_gradient_of_groups(const ConvolutionShape& shape, std::int64_t first, std::int64_t last, const T* dy,
                              const T* weight, T* dx) {
  dy += first * shape.outputs * shape.output_plane();
  dx += first * shape.channels * shape.input_plane();
  const PhasedPlane layout(shape.rows, shape.columns);
  // Each run of outputs is surrounded by zeros, because the taps of a phase read it from different offsets.
  const std::int64_t margin = layout.phase_size() + layout.pitch;
  const std::int64_t run_size = 2 * margin + layout.run() + PhasedPlane::kSlack;
  const Buffer<T> outputs(shape.outputs * run_size);
  const Buffer<T> phases(layout.size());
  // The terms of each phase of the inputs; the indices of the weights are those of channel 0 of the first group.
  struct Phase {
    std::vector<const T*> runs;
    std::vector<std::int64_t> weights;
  };
  std::vector<Phase> combinations(static_cast<std::size_t>(layout.row_phases * layout.column_phases));
  for (std::int64_t output = 0; output < shape.outputs; ++output) {
    for (std::int64_t k = 0; k < shape.rows.kernel; ++k) {
      for (std::int64_t l = 0; l < shape.columns.kernel; ++l) {
        Phase& phase = combinations[static_cast<std::size_t>(layout.phase_of(k, l))];
        phase.runs.push_back(outputs.data() + output * run_size + margin - layout.offset_in_phase(k, l));
        phase.weights.push_back(output * shape.depth() + k * shape.columns.kernel + l);
      }
    }
  }
  std::vector<T> weights(static_cast<std::size_t>(shape.outputs * shape.taps()));
  std::fill_n(dx, (last - first) * shape.channels * shape.input_plane(), T(0));
  const auto drain = PerIsa<DrainPhases<T>>::active();
  for (std::int64_t group = first; group < last; ++group) {
    for (std::int64_t output = 0; output < shape.outputs; ++output, dy += shape.output_plane()) {
      copy_rows(shape.rows.output, shape.columns.output, dy, shape.columns.output,
                outputs.data() + output * run_size + margin, layout.pitch);
    }
    const T* of_channel = weight + group % shape.groups * shape.outputs * shape.depth();
    for (std::int64_t channel = 0; channel < shape.channels; ++channel, dx += shape.input_plane()) {
      T* phase = phases.data();
      for (const Phase& combination : combinations) {
        std::transform(combination.weights.begin(), combination.weights.end(), weights.begin(),
                       [=](std::int64_t index) { return of_channel[index]; });
        combine_runs(layout.phase_size(), combination.runs, weights.data(), T(0), phase);
        phase += layout.phase_size();
      }
      of_channel += shape.taps();
      drain(&layout, phases.data(), dx);
    }
  }
}

/// Of these groups in all images.
template <class T>
void weight_gradient_of_groups(const ConvolutionShape& shape, std::int64_t first, std::int64_t last, const T* x,
                               const T* dy, T* dweight) {
  const PhasedPlane layout(shape.rows, shape.columns);
  const Buffer<T> phases(shape.channels * layout.size());
  const Buffer<T> run(layout.run() + PhasedPlane::kSlack);
  using Bits = typename MaskedDots<T, 1>::Bits;
  const Buffer<Bits> mask(layout.run() + PhasedPlane::kSlack);
  for (std::int64_t row = 0; row < shape.rows.output; ++row) {
    std::fill_n(mask.data() + row * layout.pitch, shape.columns.output, Bits(-1));
  }
  std::fill_n(dweight + first * shape.outputs * shape.depth(), (last - first) * shape.outputs * shape.depth(), T(0));
  const auto fill = PerIsa<FillPhases<T>>::active();
  const auto three_dots = PerIsa<MaskedDots<T, 3>>::active();
  const auto dot = PerIsa<MaskedDots<T, 1>>::active();
  std::vector<const T*> runs;
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    for (std::int64_t k = 0; k < shape.rows.kernel; ++k) {
      for (std::int64_t l = 0; l < shape.columns.kernel; ++l) {
        runs.push_back(phases.data() + channel * layout.size() + layout.offset(k, l));
      }
    }
  }
  for (std::int64_t i = 0; i < shape.batch * (last - first); ++i) {
    const std::int64_t group = first + i % (last - first);
    const std::int64_t at = i / (last - first) * shape.groups + group;
    const T* plane = x + at * shape.channels * shape.input_plane();
    for (std::int64_t channel = 0; channel < shape.channels; ++channel, plane += shape.input_plane()) {
      fill(&layout, plane, phases.data() + channel * layout.size());
    }
    const T* gradient = dy + at * shape.outputs * shape.output_plane();
    T* out = dweight + group * shape.outputs * shape.depth();
    for (std::int64_t output = 0; output < shape.outputs; ++output, gradient += shape.output_plane()) {
      copy_rows(shape.rows.output, shape.columns.output, gradient, shape.columns.output, run.data(), layout.pitch);
      std::int64_t done = 0;
      for (; done + 3 <= shape.depth(); done += 3) {
        three_dots(layout.run(), runs.data() + done, run.data(), mask.data(), out + done);
      }
      for (; done < shape.depth(); ++done) {
        dot(layout.run(), runs.data() + done, run.data(), mask.data(), out + done);
      }
      out += shape.depth();
    }
  }
}

}  // namespace

bool direct_convolution_fits(const ConvolutionShape& shape) {
  return shape.groups > 1 && shape.batch > 0 && shape.channels * shape.outputs <= 16 &&
         shape.channels * shape.outputs > 0 && PhasedPlane(shape.rows, shape.columns).is_reasonable();
}

template <class T>
void direct_convolution(const ConvolutionShape& shape, const T* x, const T* weight, const T* bias, T* y) {
  parallel_for(shape.batch * shape.groups, nanoseconds_of_group(shape),
               [&](std::int64_t first, std::int64_t last) { convolve_groups(shape, first, last, x, weight, bias, y); });
}

template <class T>
void direct_input_gradient(const ConvolutionShape& shape, const T* dy, const T* weight, T* dx) {
  parallel_for(shape.batch * shape.groups, nanoseconds_of_group(shape), [&](std::int64_t first, std::int64_t last) {
    input_gradient_of_groups(shape, first, last, dy, weight, dx);
  });
}

template <class T>
void direct_weight_gradient(const ConvolutionShape& shape, const T* x, const T* dy, T* dweight) {
  parallel_for(
      shape.groups, static_cast<double>(shape.batch) * nanoseconds_of_group(shape),
      [&](std::int64_t first, std::int64_t last) { weight_gradient_of_groups(shape, first, last, x, dy, dweight); });
}

template void direct_convolution(const ConvolutionShape&, const float*, const float*, const float*, float*);
template void direct_convolution(const ConvolutionShape&, const double*, const double*, const double*, double*);
template void direct_input_gradient(const ConvolutionShape&, const float*, const float*, float*);
template void direct_input_gradient(const ConvolutionShape&, const double*, const double*, double*);
template void direct_weight_gradient(const ConvolutionShape&, const float*, const float*, float*);
template void direct_weight_gradient(const ConvolutionShape&, const double*, const double*, double*);

}  // namespace diptych::kernels
