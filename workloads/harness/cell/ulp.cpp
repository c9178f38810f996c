#include "workloads/harness/cell/ulp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace diptych::workloads {
namespace {

/// Compares sign and magnitude, which order the numbers: neighbours differ by 1, and both zeros are 0.
template <class Bits, class T>
double distance(T a, T b) {
  static_assert(sizeof(Bits) == sizeof(T));
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1U;
  const auto x = std::bit_cast<Bits>(a);
  const auto y = std::bit_cast<Bits>(b);
  const auto p = static_cast<std::uint64_t>(x & kMagnitude);
  const auto q = static_cast<std::uint64_t>(y & kMagnitude);
  const bool same_sign = (x > kMagnitude) == (y > kMagnitude);
  return static_cast<double>(same_sign ? std::max(p, q) - std::min(p, q) : p + q);  // before rounding to double
}

template <class Bits, class T>
std::optional<double> largest(const Tensor& a, const Tensor& b) {
  const std::vector<T> x = a.to_vector<T>();
  const std::vector<T> y = b.to_vector<T>();
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) {
      return std::nullopt;
    }
    if (!std::isnan(x[i])) {
      most = std::max(most, distance<Bits>(x[i], y[i]));
    }
  }
  return most;
}

}  // namespace

std::optional<double> ulp_distance(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) {
    return std::nullopt;
  }
  switch (a.dtype()) {
    case DType::float64:
      return largest<std::uint64_t, double>(a, b);
    case DType::float32:
      return largest<std::uint32_t, float>(a, b);
    case DType::float16:
      return largest<std::uint16_t, float16>(a, b);
    case DType::bfloat16: {  // the upper half of an f32
      const auto distance = largest<std::uint32_t, float>(a, b);
      return distance ? std::optional(*distance / 65536) : std::nullopt;
    }
    default:
      return bitwise_equal(a, b) ? std::optional(0.0) : std::nullopt;
  }
}

}  // namespace diptych::workloads
