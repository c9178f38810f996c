#include "framework/core/rng.h"

#include <utility>

#include <fmt/format.h>

#include "framework/core/isa.h"
#include "framework/math/philox.h"
#include "framework/math/scalar_math.h"

namespace diptych {
namespace {

DIPTYCH_INLINE double double_of(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

/// A point of the square around the unit circle, by which Marsaglia's polar method gives a number if it lies inside.
struct Polar {
  double square;
  double number;

  DIPTYCH_INLINE static Polar of(double u, double v) {
    const double x = 2 * u - 1;
    const double y = 2 * v - 1;
    const double square = x * x + y * y;
    return {square, x * math::sqrt(-2 * math::log(square) / square)};
  }
  bool is_inside() const { return square > 0 && square < 1; }
};

/// Those of kCount successive counters, each of which gives the two numbers of a point.
struct PolarBlock {
  static constexpr std::size_t kCount = 64;

  DIPTYCH_INLINE static void run(const math::PhiloxKeys* keys, std::uint64_t counter, Polar* out) {
    std::uint64_t first[kCount];
    std::uint64_t second[kCount];
#pragma GCC ivdep
    for (std::size_t i = 0; i < kCount; ++i) {
      auto c0 = static_cast<std::uint32_t>(counter + i);
      auto c1 = static_cast<std::uint32_t>((counter + i) >> 32U);
      std::uint32_t c2 = 0;
      std::uint32_t c3 = 0;
      math::philox(*keys, c0, c1, c2, c3);
      first[i] = (std::uint64_t{c1} << 32U) | c0;
      second[i] = (std::uint64_t{c3} << 32U) | c2;
    }
#pragma GCC ivdep
    for (std::size_t i = 0; i < kCount; ++i) {
      out[i] = Polar::of(double_of(first[i]), double_of(second[i]));
    }
  }
};

math::PhiloxKeys keys_of(std::uint64_t seed) {
  return math::philox_keys(static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U));
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> key) {
  math::philox(math::philox_keys(key[0], key[1]), c[0], c[1], c[2], c[3]);
  return c;
}

std::uint64_t Rng::next_u64() {
  if (left_ == 0) {
    const auto numbers =
        philox({static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32U), 0, 0},
               {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)});
    ++counter_;
    buffered_ = {(std::uint64_t{numbers[1]} << 32U) | numbers[0], (std::uint64_t{numbers[3]} << 32U) | numbers[2]};
    left_ = 2;
  }
  return buffered_[static_cast<std::size_t>(2 - left_--)];
}

double Rng::next_double() { return double_of(next_u64()); }

std::uint64_t Rng::below(std::uint64_t bound) {
  internal_check(bound > 0, "below() needs a bound");
  // Numbers below 2^64 mod bound would make the first residues more likely.
  const std::uint64_t least = (0 - bound) % bound;
  std::uint64_t number = next_u64();
  while (number < least) {
    number = next_u64();
  }
  return number % bound;
}

double Rng::next_normal() {
  for (;;) {
    const double u = next_double();
    const Polar polar = Polar::of(u, next_double());
    if (polar.is_inside()) {
      return polar.number;
    }
  }
}

namespace {
template <class Draw>
Tensor fill(Tensor tensor, const Draw& draw) {
  visit(tensor.dtype(), [&]<class T>() {
    T* data = tensor.mutable_data<T>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      data[i] = static_cast<T>(draw());
    }
  });
  return tensor;
}
}  // namespace

Tensor Rng::uniform(const Shape& shape, double low, double high, DType dtype) {
  return fill(Tensor::empty(dtype, shape), [&] { return low + (high - low) * next_double(); });
}
Tensor Rng::normal(const Shape& shape, double mean, double deviation, DType dtype) {
  constexpr std::int64_t kFew = 32;
  Tensor tensor = Tensor::empty(dtype, shape);
  if (left_ > 0 || tensor.numel() < kFew) {  // left: points begin between two counters
    return fill(std::move(tensor), [&] { return mean + deviation * next_normal(); });
  }
  const math::PhiloxKeys keys = keys_of(seed_);
  const auto run = PerIsa<PolarBlock>::active();
  Polar points[PolarBlock::kCount];
  std::size_t next = PolarBlock::kCount;
  return fill(std::move(tensor), [&] {
    for (;;) {
      if (next == PolarBlock::kCount) {
        run(&keys, counter_, points);
        next = 0;
      }
      ++counter_;
      const Polar& point = points[next++];
      if (point.is_inside()) {
        return mean + deviation * point.number;
      }
    }
  });
}
Tensor Rng::integers(const Shape& shape, std::int64_t low, std::int64_t high) {
  if (low >= high) {
    throw Error(fmt::format("integers: there are none from {} to below {}", low, high));
  }
  const std::uint64_t count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return fill(Tensor::empty(DType::int64, shape),
              [&] { return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + below(count)); });
}

}  // namespace diptych
