#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/support/message_of.h"

/// Plain loops to compare results with.
namespace diptych::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline Tensor f64(std::initializer_list<double> values, const Shape& shape) { return Tensor::from(values, shape); }
inline Tensor i64(std::initializer_list<std::int64_t> values, const Shape& shape) {
  return Tensor::from(values, shape);
}
inline std::vector<std::int64_t> ints(const Tensor& t) { return t.to_vector<std::int64_t>(); }
inline std::vector<double> doubles(const Tensor& t) { return t.to_vector<double>(); }

/// The coordinates of element `position` of `shape`.
inline std::vector<std::int64_t> coordinates(const Shape& shape, std::int64_t position) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[static_cast<std::size_t>(axis)] = position % shape[axis];
    position /= shape[axis];
  }
  return at;
}

/// The elements of each reduction over `axes`, outputs in row-major order.
inline std::vector<std::vector<double>> groups(const Tensor& x, const Axes& axes) {
  const std::vector<double> values = x.to_vector<double>();
  std::map<std::vector<std::int64_t>, std::vector<double>> by_kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<std::int64_t> at = coordinates(x.shape(), static_cast<std::int64_t>(i));
    for (const std::int64_t axis : axes) {
      at[static_cast<std::size_t>(axis)] = 0;
    }
    by_kept[at].push_back(values[i]);
  }
  std::vector<std::vector<double>> result;
  for (auto& [at, group] : by_kept) {
    result.push_back(std::move(group));
  }
  return result;
}

}  // namespace diptych::testing
