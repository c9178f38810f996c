#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "framework/kernels/reduction.h"
#include "framework/kernels/runs.h"

/// Sums over a row of what is computed from its elements, in the order of kernels/reduction.h, for the bodies of
/// vector_length.h.
namespace diptych::kernels {

/// Elements that are loaded, processed and added together, in vectors of `bytes` bytes: those of the instruction set.
/// Longer ones are kept in memory by the compiler, which takes several times as long.
template <class T, int bytes>
struct Lanes {
  static constexpr int kParts = static_cast<int>(kLanes * sizeof(T)) / bytes;

  using Part = detail::Vector<T, bytes / static_cast<int>(sizeof(T))>;

  Part part[kParts];

  // Without loops, so that the parts become registers.
  template <class Fn>
  DIPTYCH_INLINE static Lanes each(const Fn& fn) {
    return [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) { return Lanes{{fn(i)...}}; }
    (std::make_integer_sequence<int, kParts>());
  }
  DIPTYCH_INLINE friend Lanes operator+(const Lanes& a, const Lanes& b) {
    return each([&](int i) __attribute__((always_inline)) { return a.part[i] + b.part[i]; });
  }
  DIPTYCH_INLINE friend Lanes operator*(const Lanes& a, const Lanes& b) {
    return each([&](int i) __attribute__((always_inline)) { return a.part[i] * b.part[i]; });
  }
  DIPTYCH_INLINE friend Lanes operator-(const Lanes& a, T b) {
    return each([&](int i) __attribute__((always_inline)) { return a.part[i] - b; });
  }
  DIPTYCH_INLINE friend Lanes operator*(const Lanes& a, T b) {
    return each([&](int i) __attribute__((always_inline)) { return a.part[i] * b; });
  }
};

template <class T, int bytes>
struct LoadWhole {
  DIPTYCH_INLINE Lanes<T, bytes> operator()(const T* from) const {
    return Lanes<T, bytes>::each([&](int i) __attribute__((always_inline)) {
      typename Lanes<T, bytes>::Part part;
      std::memcpy(&part, from + i * bytes / static_cast<int>(sizeof(T)), sizeof(part));
      return part;
    });
  }
};
template <class T, int bytes>
struct LoadPart {
  std::int64_t count;
  DIPTYCH_INLINE Lanes<T, bytes> operator()(const T* from) const {
    T lanes[kLanes] = {};
    for (std::int64_t lane = 0; lane < count; ++lane) {
      lanes[lane] = from[lane];
    }
    return LoadWhole<T, bytes>()(lanes);
  }
};

/// The sum over i = begin, begin + kLanes, ... below n of the lanes of term(i, load), where load(p) gives the elements
/// from p on. Four chains hide the latency of an addition.
template <class T, int bytes, class Term>
DIPTYCH_INLINE T sum_of_block(std::int64_t begin, std::int64_t n, const Term& term) {
  constexpr LoadWhole<T, bytes> whole;
  Lanes<T, bytes> a{};
  Lanes<T, bytes> b{};
  Lanes<T, bytes> c{};
  Lanes<T, bytes> d{};
  std::int64_t i = begin;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = a + term(i, whole);
    b = b + term(i + kLanes, whole);
    c = c + term(i + 2 * kLanes, whole);
    d = d + term(i + 3 * kLanes, whole);
  }
  a = (a + c) + (b + d);
  for (; i + kLanes <= n; i += kLanes) {
    a = a + term(i, whole);
  }
  T lanes[kLanes];
  std::memcpy(lanes, &a, sizeof(a));
  if (i < n) {
    const Lanes<T, bytes> v = term(i, LoadPart<T, bytes>{n - i});
    T last[kLanes];
    std::memcpy(last, &v, sizeof(v));
    for (std::int64_t lane = 0; lane < n - i; ++lane) {
      lanes[lane] += last[lane];
    }
  }
  return detail::combine_lanes<SumCombine, T>(lanes);
}

/// Blocks keep the chains short, and thus the sum accurate.
template <class T, int bytes, class Term>
DIPTYCH_INLINE T sum_of(std::int64_t n, const Term& term) {
  T total = T(0);
  for (std::int64_t begin = 0; begin < n; begin += 4 * kBlock) {
    const T of_block = sum_of_block<T, bytes>(begin, std::min(n, begin + 4 * kBlock), term);
    total = begin == 0 ? of_block : total + of_block;  // 0 + -0 would change the sign of zero
  }
  return total;
}

}  // namespace diptych::kernels
