#pragma once

#include <array>
#include <cstdint>

#include "framework/core/tensor.h"

namespace diptych {

/// Philox 4x32-10 (math/philox.h).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// A seeded stream of numbers, cheap to make; the same seed gives the same numbers.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t next_u64();
  /// In [0, 1), a multiple of 2^-53.
  double next_double();
  /// In [0, bound), without bias.
  std::uint64_t below(std::uint64_t bound);
  /// Standard normal, by Marsaglia's polar method.
  double next_normal();

  Tensor uniform(const Shape& shape, double low, double high, DType dtype = DType::float32);
  Tensor normal(const Shape& shape, double mean = 0, double deviation = 1, DType dtype = DType::float32);
  /// Whole numbers in [low, high), i64.
  Tensor integers(const Shape& shape, std::int64_t low, std::int64_t high);

 private:
  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
  std::array<std::uint64_t, 2> buffered_{};
  int left_ = 0;
};

}  // namespace diptych
