// The types for storage: conversions, and arithmetic as C++ does it on the same integers.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class T>
Tensor vector_of(const std::vector<T>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

/// Patterns at both ends of every width, and around 0.
std::vector<std::uint64_t> patterns() {
  std::vector<std::uint64_t> all;
  for (const unsigned width : {0U, 1U, 7U, 8U, 15U, 16U, 31U, 32U, 53U, 63U}) {
    for (std::uint64_t offset = 0; offset < 5; ++offset) {
      all.push_back((std::uint64_t{1} << width) + offset - 2);
      all.push_back(~((std::uint64_t{1} << width) + offset - 2));
    }
  }
  return all;
}

template <class Fn>
void for_integers(const Fn& fn) {
  for (int i = 0; i < kDTypeCount; ++i) {
    visit(static_cast<DType>(i), [&]<class T>() {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        fn.template operator()<T>();
      }
    });
  }
}

template <class T>
std::vector<T> integers_of() {
  std::vector<T> values;
  for (const std::uint64_t pattern : patterns()) {
    values.push_back(static_cast<T>(pattern));
  }
  return values;
}

TEST(StorageTypes, IntegersWrapAroundInEveryOther) {
  for_integers([]<class From>() {
    const std::vector<From> from = integers_of<From>();
    for_integers([&]<class To>() {
      std::vector<To> to;
      for (const From value : from) {
        to.push_back(static_cast<To>(value));  // modulo 2^n, since C++20
      }
      EXPECT_TRUE(bitwise_equal(cast(vector_of(from), dtype_of<To>), vector_of(to)))
          << name_of(dtype_of<From>) << " to " << name_of(dtype_of<To>);
    });
    std::vector<bool> nonzero;
    for (const From value : from) {
      nonzero.push_back(value != 0);
    }
    EXPECT_TRUE(bitwise_equal(cast(vector_of(from), DType::boolean), vector_of(nonzero)));
  });
}

/// The nearest number of binary16, ties to even: a multiple of the last place.
double as_half(double x) {
  if (x == 0 || !std::isfinite(x)) {
    return x;
  }
  const int last = std::max(std::ilogb(x), -14) - 10;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -last)), last);
  return std::fabs(rounded) > 65504 ? std::copysign(INFINITY, x) : rounded;
}

TEST(StorageTypes, IntegersAreRoundedOnceToFloat16) {
  for_integers([]<class T>() {
    std::vector<T> from = integers_of<T>();
    for (int i = 0; i < 70000; i += 7) {
      from.push_back(static_cast<T>(i));
    }
    const std::vector<double> got = cast(vector_of(from), DType::float16).template to_vector<double>();
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(got[i], as_half(static_cast<double>(from[i]))) << name_of(dtype_of<T>) << " " << +from[i];
    }
  });
}

TEST(StorageTypes, UnsignedIntegersBecomeFloats) {
  const std::vector<std::uint64_t> from = integers_of<std::uint64_t>();
  const Tensor x = vector_of(from);
  std::vector<float> floats(from.begin(), from.end());
  std::vector<double> doubles(from.begin(), from.end());
  EXPECT_TRUE(bitwise_equal(cast(x, DType::float32), vector_of(floats)));
  EXPECT_TRUE(bitwise_equal(cast(x, DType::float64), vector_of(doubles)));
  EXPECT_TRUE(bitwise_equal(cast(x, DType::bfloat16), cast(vector_of(floats), DType::bfloat16)));
}

TEST(StorageTypes, FloatsSaturateInEveryInteger) {
  const std::vector<double> from{-1e300, -65536, -32769.5, -129,  -128.9, -1.9,     -0.5,     0,
                                 0.9,    127.6,  128,      255.9, 256,    32768,    65535,    65536,
                                 5e9,    9.3e18, 2e19,     1e300, NAN,    INFINITY, -INFINITY};
  for_integers([&]<class T>() {
    for (const DType type : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
      const Tensor x = cast(vector_of(from), type);
      const std::vector<double> values = x.to_vector<double>();
      const std::vector<T> got = cast(x, dtype_of<T>).template to_vector<T>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        using Limits = std::numeric_limits<T>;
        const auto whole = static_cast<long double>(std::trunc(values[i]));
        const T wanted = std::isnan(values[i])                              ? T(0)
                         : whole <= static_cast<long double>(Limits::min()) ? Limits::min()
                         : whole >= static_cast<long double>(Limits::max()) ? Limits::max()
                                                                            : static_cast<T>(whole);
        EXPECT_EQ(got[i], wanted) << values[i] << " of " << name_of(type) << " to " << name_of(dtype_of<T>);
      }
    }
  });
}

TEST(StorageTypes, EveryPairOfBytesIsComputedModulo256) {
  std::vector<std::int8_t> left;
  std::vector<std::int8_t> right;
  for (int a = -128; a < 128; ++a) {
    for (int b = -128; b < 128; ++b) {
      left.push_back(static_cast<std::int8_t>(a));
      right.push_back(static_cast<std::int8_t>(b));
    }
  }
  const Tensor x = vector_of(left);
  const Tensor y = vector_of(right);
  const auto check = [&](const Tensor& got, const auto& formula) {
    const std::vector<std::int8_t> values = got.to_vector<std::int8_t>();
    ASSERT_EQ(got.dtype(), DType::int8);
    for (std::size_t i = 0; i < left.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<std::int8_t>(formula(int{left[i]}, int{right[i]})))
          << +left[i] << " " << +right[i];
    }
  };
  check(x + y, [](int a, int b) { return a + b; });
  check(x - y, [](int a, int b) { return a - b; });
  check(x * y, [](int a, int b) { return a * b; });
  check(maximum(x, y), [](int a, int b) { return std::max(a, b); });
  check(abs(x), [](int a, int) { return std::abs(a); });
  const Tensor nonzero = where(equal(y, full({}, 0, DType::int8)), full({}, 1, DType::int8), y);
  check(quotient(x, nonzero), [](int a, int b) { return a / (b == 0 ? 1 : b); });
}

TEST(StorageTypes, UnsignedLongsAreComputedAsInCpp) {
  std::vector<std::uint64_t> left;
  std::vector<std::uint64_t> right;
  for (const std::uint64_t a : patterns()) {
    for (const std::uint64_t b : patterns()) {
      if (b != 0) {
        left.push_back(a);
        right.push_back(b);
      }
    }
  }
  const Tensor x = vector_of(left);
  const Tensor y = vector_of(right);
  const auto check = [&](const Tensor& got, const auto& formula, const char* what) {
    using R = decltype(formula(left[0], right[0]));
    const std::vector<R> values = got.to_vector<R>();
    ASSERT_EQ(got.dtype(), dtype_of<R>);
    for (std::size_t i = 0; i < left.size(); ++i) {
      ASSERT_EQ(values[i], formula(left[i], right[i])) << left[i] << " " << what << " " << right[i];
    }
  };
  using U = std::uint64_t;
  check(
      x + y, [](U a, U b) { return a + b; }, "+");
  check(
      x - y, [](U a, U b) { return a - b; }, "-");
  check(
      x * y, [](U a, U b) { return a * b; }, "*");
  check(
      quotient(x, y), [](U a, U b) { return a / b; }, "/");
  check(
      remainder(x, y), [](U a, U b) { return a % b; }, "%");
  check(
      maximum(x, y), [](U a, U b) { return std::max(a, b); }, "max");
  check(
      minimum(x, y), [](U a, U b) { return std::min(a, b); }, "min");
  check(
      less(x, y), [](U a, U b) { return a < b; }, "<");
  check(
      greater_equal(x, y), [](U a, U b) { return a >= b; }, ">=");
  check(
      equal(x, y), [](U a, U b) { return a == b; }, "==");
  check(
      pow(x, y),
      [](U a, U b) {
        U result = 1;
        for (; b != 0; b >>= 1U, a *= a) {
          result *= (b & 1U) != 0 ? a : 1;
        }
        return result;
      },
      "pow");
  EXPECT_EQ(max(x).to_vector<U>()[0], *std::max_element(left.begin(), left.end()));
  EXPECT_EQ(left[static_cast<std::size_t>(argmax(x).item())], *std::max_element(left.begin(), left.end()));
  EXPECT_THROW(quotient(x, full({}, 0, DType::uint64)), Error);
}

/// The float between has 24 bits, more than twice 11 and two: rounding twice is rounding once [Figueroa 1995].
TEST(StorageTypes, Float16IsComputedInFloatAndRoundedOnce) {
  Rng rng(5);
  const Tensor x = cast(rng.normal({4000}, 0, 30), DType::float16);
  const Tensor y = cast(rng.normal({4000}, 0, 0.01), DType::float16);
  const std::vector<double> a = x.to_vector<double>();
  const std::vector<double> b = y.to_vector<double>();
  const auto check = [&](const Tensor& got, const auto& formula) {
    ASSERT_EQ(got.dtype(), DType::float16);
    const std::vector<double> values = got.to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(values[i], as_half(formula(a[i], b[i]))) << a[i] << " " << b[i];
    }
  };
  check(x + y, [](double p, double q) { return p + q; });
  check(x * y, [](double p, double q) { return p * q; });
  check(x / y, [](double p, double q) { return p / q; });
  check(sqrt(abs(x)), [](double p, double) { return std::sqrt(std::fabs(p)); });
  EXPECT_EQ((x * 2.0).dtype(), DType::float16);
}

TEST(StorageTypes, GradientsFlowThroughFloat16) {
  const Tensor x = cast(Tensor::from({1.0F, 2.0F, -3.0F}, {3}), DType::float16);
  auto gradient = grad([](const Tensor& t) { return sum(t * t + t); });
  const Tensor by_x = gradient(x);
  EXPECT_EQ(by_x.dtype(), DType::float16);
  EXPECT_EQ(by_x.to_vector<double>(), (std::vector<double>{3, 5, -5}));
}

TEST(StorageTypes, GraphsGiveTheBitsOfEager) {
  Rng rng(6);
  const std::vector<Tensor> inputs{cast(rng.normal({5, 7}), DType::float16), cast(rng.normal({7}), DType::float16)};
  const auto program = [](std::span<const Tensor> in) {
    const Tensor y = in[0] * in[1] + in[1];
    return std::vector<Tensor>{concat({transpose(y), transpose(in[0])}, 0), sum(y, {1}), cast(y * 40, DType::int8)};
  };
  graph::JitFunction compiled([&](std::span<const Tensor> in, std::shared_ptr<void>&) { return program(in); },
                              {.name = "program"});
  const std::vector<Tensor> eager = program(inputs);
  const std::vector<Tensor> graph = compiled.call(inputs, Location::current()).outputs;
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(eager[i], graph[i])) << i;
  }
}

TEST(StorageTypes, OtherOpsSayWhatToCastTo) {
  const auto refusal = [](const auto& fn) -> std::string {
    try {
      fn();
    } catch (const DTypeError& error) {
      return error.what();
    }
    return "no error";
  };
  const Tensor half = ones({2, 2}, DType::float16);
  EXPECT_THAT(refusal([&] { exp(half); }), AllOf(HasSubstr("exp"), HasSubstr("f16[2,2]"), HasSubstr("cast to f32")));
  EXPECT_THAT(refusal([&] { matmul(half, half); }), HasSubstr("cast to f32"));
  EXPECT_THAT(refusal([&] { abs(ones({2}, DType::uint64)); }), HasSubstr("cast"));
}

}  // namespace
}  // namespace diptych
