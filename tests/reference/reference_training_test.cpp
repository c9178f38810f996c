// The reference program that trains for a while.

#include <filesystem>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/io/folder.h"
#include "tests/reference/documented.h"

namespace diptych::testing {
namespace {

TEST(ReferencePrograms, TrainVit) {
  const Folder folder;
  const std::string output = output_in(folder.path(), "train_vit", {"vit.safetensors"});
  expect_documented("train_vit", output);
  EXPECT_GT(numbers_after("held-out accuracy:", output).at(0), 0.9);
  const std::vector<double> before_and_after = numbers_after("another model:", output);
  ASSERT_EQ(before_and_after.size(), 3U);
  EXPECT_LT(before_and_after[0], 0.3);
  EXPECT_EQ(before_and_after[1], numbers_after("held-out accuracy:", output).at(0));
  const io::TensorFile file = io::load_safetensors(folder / "vit.safetensors");
  ASSERT_NE(file.find("model.positions"), nullptr);
  EXPECT_EQ(file.find("model.positions")->type(), (TensorType{DType::float32, {16, 32}}));
}

}  // namespace
}  // namespace diptych::testing
