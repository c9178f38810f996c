#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "framework/diptych.h"

namespace diptych::data {
namespace {

using ::testing::HasSubstr;

TEST(Digits, AreTheOnesOfTheirReadme) {
  const Dataset digits = load_digits(DIPTYCH_DIGITS);
  EXPECT_EQ(digits.size(), 1797);
  EXPECT_EQ(digits.inputs.shape(), (Shape{1797, 64}));
  EXPECT_EQ(max(digits.inputs).item(), 1);
  EXPECT_EQ(min(digits.inputs).item(), 0);
  EXPECT_EQ(digits.labels.to_vector<int>()[0], 0);  // the first row is a zero, the second a one
  EXPECT_EQ(digits.labels.to_vector<int>()[1], 1);
  EXPECT_EQ(sum(digits.labels).item(), 8070);  // zcat digits.csv.gz | awk -F, '{s += $65} END {print s}'
}

TEST(Split, HoldsOutAFifthAndLosesNothing) {
  const Dataset digits = load_digits(DIPTYCH_DIGITS);
  const Split parts = split(digits, 0.2, 7);
  EXPECT_EQ(parts.test.size(), 359);
  EXPECT_EQ(parts.train.size(), 1438);
  EXPECT_NEAR(sum(parts.train.inputs).item() + sum(parts.test.inputs).item(), sum(digits.inputs).item(), 0.1);
  EXPECT_TRUE(bitwise_equal(split(digits, 0.2, 7).test.inputs, parts.test.inputs));
  EXPECT_FALSE(bitwise_equal(split(digits, 0.2, 8).test.inputs, parts.test.inputs));
}

TEST(Batches, VisitEveryExampleOnceAnEpochInANewOrder) {
  std::vector<std::int64_t> numbers(100);
  std::vector<float> inputs(100);
  for (int i = 0; i < 100; ++i) {
    numbers[static_cast<std::size_t>(i)] = i;
  }
  const Dataset all{Tensor::from(inputs, {100, 1}), Tensor::from(numbers, {100})};
  Batches batches(all, 10, 1);
  std::vector<std::vector<int>> epochs(2);
  for (std::int64_t step = 0; step < 20; ++step) {
    for (const int label : batches[step].labels.to_vector<int>()) {
      epochs[static_cast<std::size_t>(step / 10)].push_back(label);
    }
  }
  EXPECT_EQ(std::set<int>(epochs[0].begin(), epochs[0].end()).size(), 100U);
  EXPECT_EQ(std::set<int>(epochs[1].begin(), epochs[1].end()).size(), 100U);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(batches[3].labels.to_vector<int>(), Batches(all, 10, 1)[3].labels.to_vector<int>());
  EXPECT_THROW(Batches(all, 101, 1), Error);
  const std::int64_t outside = 100;
  EXPECT_THROW(all.select(std::span(&outside, 1)), Error);
}

class BadFile : public ::testing::Test {
 protected:
  ~BadFile() override { std::filesystem::remove(path_); }

  std::string message_for(const std::string& text) {
    const gzFile file = gzopen(path_.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return message();
  }
  std::string message() {
    try {
      load_digits(path_);
    } catch (const FileError& error) {
      return error.what();
    }
    return "no error";
  }
  static std::string row(const std::string& last) {
    std::string text;
    for (int i = 0; i < 64; ++i) {
      text += "3,";
    }
    return text + last;
  }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("diptych-digits-" + std::to_string(getpid()) + ".gz");
};

TEST_F(BadFile, IsRefusedWithRowAndColumn) {
  EXPECT_THAT(message(), HasSubstr("can't be opened"));
  EXPECT_THAT(message_for(row("5\n") + row("12\n")), HasSubstr("row 2, column 65"));
  EXPECT_THAT(message_for("3,17,2"), HasSubstr("row 1, column 2"));
  EXPECT_THAT(message_for("3,4,5,"), HasSubstr("cut off"));
  EXPECT_THAT(message_for(""), HasSubstr("cut off"));
  EXPECT_THAT(message_for("hello"), HasSubstr("row 1, column 1"));
  EXPECT_EQ(message_for(row("5")), "no error");
}

TEST_F(BadFile, ATruncatedArchiveIsRefused) {
  message_for(row("5\n") + row("6\n"));
  const auto size = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, size - 9);
  EXPECT_NE(message(), "no error");
}

}  // namespace
}  // namespace diptych::data
