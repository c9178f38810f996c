#pragma once

#include <type_traits>

#include "framework/math/inline.h"

/// Scalar functions of one machine instruction, as elementwise ops and loops of several ops take them.
namespace diptych::math {

/// Integers wrap around, as in two's complement.
template <template <class> class Function>
struct Wrapping {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(Function<U>()(static_cast<U>(a), static_cast<U>(b)));
    } else {
      return Function<T>()(a, b);
    }
  }
};

struct Neg {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(x));
    } else {
      return -x;
    }
  }
};

struct Square {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(x) * static_cast<U>(x));
    } else {
      return x * x;
    }
  }
};

struct Relu {
  template <class T>
  DIPTYCH_INLINE static T apply(T x) {
    return x < T(0) ? T(0) : x;  // NaN stays NaN
  }
};

}  // namespace diptych::math
