#pragma once

#include <array>
#include <cstdint>
#include <random>

#include "framework/core/dims.h"

namespace diptych::testing {

/// Lengths that files and arguments may claim. None is so large a number that a tensor of it is merely slow: small, or
/// more elements than memory has addresses.
class HostileLengths {
 public:
  explicit HostileLengths(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  std::int64_t length() {
    static constexpr std::array<std::int64_t, 15> kHuge = {(std::int64_t{1} << 45),
                                                           (std::int64_t{1} << 48) + 1,
                                                           (std::int64_t{1} << 59),
                                                           (std::int64_t{1} << 60),
                                                           (std::int64_t{1} << 60) + 1,
                                                           (std::int64_t{1} << 61),
                                                           (std::int64_t{1} << 62),
                                                           (std::int64_t{1} << 62) + 1000,
                                                           INT64_MAX - 7,
                                                           INT64_MAX,
                                                           -1,
                                                           -2,
                                                           -(std::int64_t{1} << 62),
                                                           INT64_MIN + 1,
                                                           INT64_MIN};
    return below(3) == 0 ? kHuge[below(kHuge.size())] : static_cast<std::int64_t>(below(4));
  }
  Shape shape() {
    Shape shape;
    if (below(8) == 0) {  // each alone is a length of a tensor
      const auto exponent = static_cast<int>(24 + below(8));
      for (int i = 0; i < 3; ++i) {
        shape.push_back(std::int64_t{1} << exponent);
      }
    }
    for (std::uint64_t left = below(4); left > 0; --left) {
      shape.push_back(length());
    }
    return shape;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace diptych::testing
