#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/dims.h"

/// Arithmetic on lengths from outside: attributes may contain any number.
namespace diptych::ops {

/// The number of elements; no value if a length is negative or the number of bytes overflows.
inline std::optional<std::int64_t> element_count(const Shape& shape) {
  constexpr std::int64_t kMost = INT64_MAX / 16;  // leaves room for the size of an element
  std::int64_t count = 1;
  bool fits = true;
  bool empty = false;
  for (const std::int64_t length : shape) {
    // A zero must not hide an overflow of the other lengths: strides are products, too.
    fits = fits && length >= 0 && !__builtin_mul_overflow(count, length == 0 ? 1 : length, &count);
    empty = empty || length == 0;
  }
  return fits && count <= kMost ? std::optional<std::int64_t>(empty ? 0 : count) : std::nullopt;
}

/// Whether a tensor of this shape can exist: no length is negative, and without its empty axes (so that no product of
/// some axes overflows) it has at most 2^40 elements.
inline bool is_plausible(const Shape& shape) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
  std::int64_t elements = 1;
  for (const std::int64_t length : shape) {
    if (length < 0 || length > kMostElements / elements) {
      return false;
    }
    elements *= length == 0 ? 1 : length;
  }
  return true;
}

/// a + b, or no value if either is negative or the sum is too large.
inline std::optional<std::int64_t> add_lengths(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) {
    return std::nullopt;
  }
  return sum;
}

}  // namespace diptych::ops
