// Accuracy of the scalar math in ULP, against the C library in extended precision.

#include "framework/kernels/scalar_math.h"

#include <cmath>

#include <gtest/gtest.h>

namespace diptych::math {
namespace {

template <class T>
double ulp_error(T actual, long double expected) {
  const T rounded = static_cast<T>(expected);
  const long double ulp =
      static_cast<long double>(std::nextafter(std::fabs(rounded), std::numeric_limits<T>::infinity())) -
      std::fabs(static_cast<long double>(rounded));
  return static_cast<double>(std::fabs(static_cast<long double>(actual) - expected) / ulp);
}

template <class T>
void expect_within(double bound, T (*actual)(T), long double (*expected)(long double), double low, double high) {
  constexpr int kPoints = 300000;
  double worst = 0;
  T at = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const T x = static_cast<T>(low + (high - low) * i / kPoints);
    const double error = ulp_error(actual(x), expected(x));
    if (error > worst) {
      worst = error;
      at = x;
    }
  }
  EXPECT_LE(worst, bound) << "at " << at;
}

long double sigmoid_of(long double x) { return 1 / (1 + std::exp(-x)); }

TEST(ScalarMath, Float32) {
  expect_within<float>(
      1.1, [](float x) { return exp(x); }, std::exp, -87, 88);
  expect_within<float>(
      1.1, [](float x) { return exp(x); }, std::exp, -103, -87);
  expect_within<float>(
      1.0, [](float x) { return log(x); }, std::log, 1e-6, 20);
  expect_within<float>(
      1.0, [](float x) { return log(x); }, std::log, 1e-44, 1e-37);
  expect_within<float>(
      2.6, [](float x) { return tanh(x); }, std::tanh, -12, 12);
  expect_within<float>(
      2.6, [](float x) { return tanh(x); }, std::tanh, -0.01, 0.01);
  expect_within<float>(
      2.6, [](float x) { return sigmoid(x); }, sigmoid_of, -30, 30);
  expect_within<float>(
      2.6, [](float x) { return erf(x); }, std::erf, -6, 6);
}

TEST(ScalarMath, Float64) {
  expect_within<double>(
      1.1, [](double x) { return exp(x); }, std::exp, -708, 709.7);
  expect_within<double>(
      1.0, [](double x) { return log(x); }, std::log, 1e-6, 20);
  expect_within<double>(
      2.6, [](double x) { return tanh(x); }, std::tanh, -22, 22);
  expect_within<double>(
      2.6, [](double x) { return sigmoid(x); }, sigmoid_of, -30, 30);
  expect_within<double>(
      2.6, [](double x) { return erf(x); }, std::erf, -7, 7);
}

}  // namespace
}  // namespace diptych::math
