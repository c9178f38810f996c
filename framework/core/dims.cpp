#include "framework/core/dims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"

namespace diptych {

Dims::Dims(std::span<const std::int64_t> values) : rank_(0) {
  for (std::int64_t value : values) {
    push_back(value);
  }
}

void Dims::push_back(std::int64_t value) {
  if (rank_ == kMaxRank) {
    throw ShapeError(fmt::format("a tensor can have {} axes at most", kMaxRank));
  }
  values_[rank_++] = value;
}

std::string to_string(const Dims& dims) {
  return fmt::format("[{}]", fmt::join(std::span(dims.begin(), dims.end()), ","));
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  if (shape.contains(0)) {
    return true;
  }
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) {
      return false;
    }
    step *= shape[i];
  }
  return true;
}

bool broadcast(const Shape& a, const Shape& b, Shape& result) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int offset = longer.rank() - shorter.rank();
  result = longer;
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer[i + offset];
    const std::int64_t y = shorter[i];
    if (x != y && x != 1 && y != 1) {
      return false;
    }
    result[i + offset] = x == 1 ? y : x;
  }
  return true;
}

}  // namespace diptych
