#pragma once

#include <vector>

#include "framework/core/storage.h"
#include "framework/kernels/phased_plane.h"
#include "framework/math/scalar_math.h"

/// Arithmetic on the runs of a PhasedPlane, with the same bits on every instruction set.
namespace diptych::kernels {

/// An initialised workspace.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t size, T value = T(0))
      : storage_(allocate_storage(static_cast<std::size_t>(size) * sizeof(T))) {
    std::fill_n(data(), size, value);
  }
  T* data() const { return static_cast<T*>(storage_->data()); }

 private:
  StorageRef storage_;
};

/// out[i] = (first ? start : out[i]) + the sum of weights[t] * runs[t][i], in the order of the taps.
template <class T, int taps>
struct CombineRuns {
  DIPTYCH_INLINE static void run(std::int64_t n, const T* const* runs, const T* weights, bool first, T start, T* out) {
    const T* in[taps];
    T weight[taps];
    for (int t = 0; t < taps; ++t) {
      in[t] = runs[t];
      weight[t] = weights[t];
    }
    const auto combined = [&](std::int64_t i, T total) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int t = 0; t < taps; ++t) {
        total = math::fma(weight[t], in[t][i], total);
      }
      return total;
    };
    if (first) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = combined(i, start);
      }
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = combined(i, out[i]);
      }
    }
  }
};

/// Over `n` elements, rounded up to whole vectors.
template <class T>
void combine_runs(std::int64_t n, const std::vector<const T*>& runs, const T* weights, T start, T* out) {
  const std::int64_t whole = (n + 15) / 16 * 16;
  std::size_t done = 0;
  const auto pass = [&](auto body, std::size_t taps) {
    while (runs.size() - done >= taps) {
      decltype(body)::active()(whole, runs.data() + done, weights + done, done == 0, start, out);
      done += taps;
    }
  };
  pass(PerIsa<CombineRuns<T, 9>>(), 9);
  pass(PerIsa<CombineRuns<T, 4>>(), 4);
  pass(PerIsa<CombineRuns<T, 3>>(), 3);
  pass(PerIsa<CombineRuns<T, 2>>(), 2);
  pass(PerIsa<CombineRuns<T, 1>>(), 1);
  if (runs.empty()) {
    std::fill_n(out, whole, start);
  }
}

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

/// Copies rows of `width` elements; `from` and `to` have separate pitches.
template <class T>
struct CopyRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t width, const T* from, std::int64_t from_pitch, T* to,
                                 std::int64_t to_pitch) {
    for (std::int64_t row = 0; row < rows; ++row) {
      gather_run(width, from + row * from_pitch, 1, to + row * to_pitch);
    }
  }
};
template <class T>
void copy_rows(std::int64_t rows, std::int64_t width, const T* from, std::int64_t from_pitch, T* to,
               std::int64_t to_pitch) {
  PerIsa<CopyRows<T>>::active()(rows, width, from, from_pitch, to, to_pitch);
}

}  // namespace diptych::kernels
