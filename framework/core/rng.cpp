#include "framework/core/rng.h"

#include "framework/math/philox.h"
#include "framework/math/scalar_math.h"

namespace diptych {

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

double Rng::next_double() { return static_cast<double>(next_u64() >> 11U) * 0x1p-53; }

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
    const double x = 2 * next_double() - 1;
    const double y = 2 * next_double() - 1;
    const double square = x * x + y * y;
    if (square > 0 && square < 1) {
      return x * math::sqrt(-2 * math::log(square) / square);
    }
  }
}

namespace {
template <class Draw>
Tensor fill(const Shape& shape, DType dtype, const Draw& draw) {
  Tensor tensor = Tensor::empty(dtype, shape);
  visit(dtype, [&]<class T>() {
    T* data = tensor.mutable_data<T>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      data[i] = static_cast<T>(draw());
    }
  });
  return tensor;
}
}  // namespace

Tensor Rng::uniform(const Shape& shape, double low, double high, DType dtype) {
  return fill(shape, dtype, [&] { return low + (high - low) * next_double(); });
}
Tensor Rng::normal(const Shape& shape, double mean, double deviation, DType dtype) {
  return fill(shape, dtype, [&] { return mean + deviation * next_normal(); });
}
Tensor Rng::integers(const Shape& shape, std::int64_t low, std::int64_t high) {
  return fill(shape, DType::int64,
              [&] { return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low))); });
}

}  // namespace diptych
