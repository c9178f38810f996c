#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych {
namespace {

TEST(Take, CountsRowMajor) {
  const Tensor x = Tensor::from({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, {2, 3});
  const Tensor indices = Tensor::from({std::int64_t{5}, std::int64_t{0}, std::int64_t{5}, std::int64_t{1}}, {2, 2});
  EXPECT_EQ(take(x, indices).shape(), (Shape{2, 2}));
  EXPECT_EQ(take(x, indices).to_vector<double>(), (std::vector<double>{6, 1, 6, 2}));
  EXPECT_EQ(take(transpose(x), indices).to_vector<double>(), (std::vector<double>{6, 1, 6, 4}));
  EXPECT_EQ(grad([&](const Tensor& y) { return sum(take(y, indices)); })(x).to_vector<double>(),
            (std::vector<double>{1, 1, 0, 0, 0, 2}));
  EXPECT_THROW(take(x, Tensor::from({std::int64_t{6}}, {1})), Error);
}

}  // namespace
}  // namespace diptych
