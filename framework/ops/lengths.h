#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/dims.h"

/// Arithmetic on lengths that come from outside: attributes may hold any number.
namespace diptych::ops {

/// The number of elements; nothing where a length is negative or where the bytes can't be counted.
inline std::optional<std::int64_t> element_count(const Shape& shape) {
  constexpr std::int64_t kMost = INT64_MAX / 16;  // leaves room for the size of an element
  std::int64_t count = 1;
  bool overflow = false;
  for (const std::int64_t length : shape) {
    if (length < 0) {
      return std::nullopt;
    }
    // A zero later must not hide what overflowed before it: strides are products, too.
    overflow = overflow || (length > 0 && count > kMost / length);
    count = overflow ? kMost : length > 0 ? count * length : count;
  }
  return overflow ? std::nullopt : std::optional(shape.contains(0) ? 0 : count);
}

/// a + b, or nothing if either is negative or the sum too large.
inline std::optional<std::int64_t> add_lengths(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) {
    return std::nullopt;
  }
  return sum;
}

}  // namespace diptych::ops
