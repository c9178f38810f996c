#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace diptych {

/// The maximum rank of a tensor.
inline constexpr int kMaxRank = 8;

/// A short list of integers kept inline: a shape, strides (in elements) or a list of axes. Never allocates.
class Dims {
 public:
  Dims() : rank_(0) {}
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  /// Throws ShapeError above kMaxRank.
  explicit Dims(std::span<const std::int64_t> values);

  static Dims filled(int rank, std::int64_t value) {
    Dims dims;
    for (int i = 0; i < rank; ++i) {
      dims.push_back(value);
    }
    return dims;
  }

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](int i) const { return values_[i]; }
  std::int64_t& operator[](int i) { return values_[i]; }
  const std::int64_t* begin() const { return values_; }
  const std::int64_t* end() const { return values_ + rank_; }
  std::int64_t back() const { return values_[rank_ - 1]; }

  /// Throws ShapeError above kMaxRank.
  void push_back(std::int64_t value);

  /// The product of all entries: the number of elements of a shape; 1 for a scalar.
  std::int64_t product() const {
    std::int64_t result = 1;
    for (std::int64_t value : *this) {
      result *= value;
    }
    return result;
  }

  bool contains(std::int64_t value) const {
    for (std::int64_t mine : *this) {
      if (mine == value) {
        return true;
      }
    }
    return false;
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) {
      return false;
    }
    for (int i = 0; i < a.rank_; ++i) {
      if (a.values_[i] != b.values_[i]) {
        return false;
      }
    }
    return true;
  }

 private:
  std::int64_t values_[kMaxRank] = {};
  std::int32_t rank_;
};

using Shape = Dims;
/// In elements, not bytes; 0 where an axis is broadcast.
using Strides = Dims;
using Axes = Dims;

/// "[2,3]"
std::string to_string(const Dims& dims);

/// Row-major strides of a dense tensor, and the number of its elements.
inline std::int64_t set_contiguous_strides(const Shape& shape, Strides& strides) {
  strides = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return step;
}

inline Strides contiguous_strides(const Shape& shape) {
  Strides strides;
  set_contiguous_strides(shape, strides);
  return strides;
}

/// Whether the elements lie densely in row-major order (axes of length 1 don't matter).
bool is_contiguous(const Shape& shape, const Strides& strides);

/// The shape of an elementwise op on `a` and `b` (NumPy's rule); false where they don't fit.
bool broadcast(const Shape& a, const Shape& b, Shape& result);

}  // namespace diptych
