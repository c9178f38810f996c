#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "framework/diptych.h"
#include "tests/support/places.h"

namespace diptych::data {
namespace {

using ::testing::HasSubstr;

TEST(Digits, AreTheOnesOfTheirReadme) {
  const Dataset digits = load_digits(testing::places::digits());
  EXPECT_EQ(digits.size(), 1797);
  EXPECT_EQ(digits.inputs.shape(), (Shape{1797, 64}));
  EXPECT_EQ(max(digits.inputs).item(), 1);
  EXPECT_EQ(min(digits.inputs).item(), 0);
  EXPECT_EQ(digits.labels.to_vector<int>()[0], 0);  // the first row is a zero, the second a one
  EXPECT_EQ(digits.labels.to_vector<int>()[1], 1);
  EXPECT_EQ(sum(digits.labels).item(), 8070);  // zcat digits.csv.gz | awk -F, '{s += $65} END {print s}'
}

TEST(Split, HoldsOutAFifthAndLosesNothing) {
  const Dataset digits = load_digits(testing::places::digits());
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

// ---- prefetching

bool same(const Dataset& a, const Dataset& b) {
  return bitwise_equal(a.inputs, b.inputs) && bitwise_equal(a.labels, b.labels);
}

TEST(Prefetch, GivesTheSameBatchesInTheSameOrder) {
  const Dataset digits = load_digits(testing::places::digits());
  for (const std::size_t depth : {1U, 2U, 7U}) {
    Batches plain(digits, 64, 9);
    Prefetch prefetch([all = Batches(digits, 64, 9)](std::int64_t step) mutable { return all[step]; }, depth, 5);
    for (std::int64_t step = 5; step < 65; ++step) {
      ASSERT_TRUE(same(prefetch.next(), plain[step])) << step;
    }
  }
}

TEST(Prefetch, HoldsNoMoreThanItsDepth) {
  std::atomic<int> made = 0;
  {
    Prefetch prefetch(
        [&](std::int64_t step) {
          ++made;
          return Dataset{full({1}, static_cast<double>(step)), zeros({1}, DType::int64)};
        },
        3);
    EXPECT_EQ(prefetch.next().inputs.item(), 0);
    for (int i = 0; i < 100 && made < 4; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(made, 4) << "one was taken, three wait";
  }
  EXPECT_LE(made, 4);
  EXPECT_THROW(Prefetch([](std::int64_t) { return Dataset(); }, 0), Error);
}

TEST(Prefetch, ForwardsWhatTheMakerThrowsInItsPlace) {
  Prefetch prefetch([](std::int64_t step) -> Dataset {
    if (step == 2) {
      throw FileError("the disk is gone");
    }
    return {full({1}, static_cast<double>(step)), zeros({1}, DType::int64)};
  });
  EXPECT_EQ(prefetch.next().inputs.item(), 0);
  EXPECT_EQ(prefetch.next().inputs.item(), 1);
  EXPECT_THROW(prefetch.next(), FileError);
  EXPECT_THROW(prefetch.next(), FileError);
}

TEST(Prefetch, EndsAtAnyTime) {
  const Dataset digits = load_digits(testing::places::digits());
  for (int taken = 0; taken < 30; ++taken) {
    Prefetch prefetch([all = Batches(digits, 8, 1)](std::int64_t step) mutable { return all[step]; }, 1 + taken % 4);
    for (int i = 0; i < taken % 5; ++i) {
      prefetch.next();
    }
  }
}

// ---- synthetic data

TEST(SyntheticImages, AreSeededAndBalanced) {
  const SyntheticImages options{.count = 60, .channels = 2, .size = 8, .classes = 3};
  const Dataset images = synthetic_images(options);
  EXPECT_EQ(images.inputs.shape(), (Shape{60, 2, 8, 8}));
  const std::vector<int> labels = images.labels.to_vector<int>();
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(std::count(labels.begin(), labels.end(), c), 20);
  }
  EXPECT_TRUE(same(images, synthetic_images(options)));
  SyntheticImages other = options;
  other.seed = 2;
  EXPECT_FALSE(same(images, synthetic_images(other)));
  EXPECT_FALSE(same(images, synthetic_images(options, 1))) << "other classes";
  other.classes = 0;
  EXPECT_THROW(synthetic_images(other), Error);
  EXPECT_EQ(synthetic_images({.count = 0}).size(), 0);
}

TEST(SyntheticImages, CanBeLearnedAndNotByChance) {
  // Two sets of the same classes: what is learned on one holds on the other.
  const SyntheticImages options{.count = 1024, .channels = 1, .size = 12, .classes = 4, .noise = 0.3};
  const Dataset train = synthetic_images(options);
  SyntheticImages more = options;
  more.seed = 77;
  more.count = 400;
  const Dataset test = synthetic_images(more);
  Rng rng(1);
  nn::Sequential model({std::make_shared<nn::Flatten>(), std::make_shared<nn::Linear>(144, 64, rng),
                        std::make_shared<nn::ReLU>(), std::make_shared<nn::Linear>(64, 4, rng)});
  optim::Adam adam(model.parameters(), 3e-3);
  auto loss = value_and_grad([&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
                             {.weights = model.parameters()});
  auto step = jit([&](const Tensor& x, const Tensor& y) {
    const auto result = loss(x, y);
    adam.step(result.weights);
    return result.value;
  });
  Prefetch batches([all = Batches(train, 64, 3)](std::int64_t i) mutable { return all[i]; });
  for (int i = 0; i < 400; ++i) {
    const Dataset batch = batches.next();
    step(batch.inputs, batch.labels);
  }
  EXPECT_GT(mean(equal(argmax(model(test.inputs), -1), test.labels)).item(), 0.8);
}

TEST(SyntheticTokens, FollowTheirChain) {
  const SyntheticTokens options{.count = 400, .length = 50, .vocabulary = 12, .successors = 3};
  const Dataset tokens = synthetic_tokens(options);
  EXPECT_EQ(tokens.size(), 400);
  const std::vector<int> in = tokens.inputs.to_vector<int>();
  const std::vector<int> out = tokens.labels.to_vector<int>();
  std::map<int, std::map<int, int>> counts;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (i % 50 != 49) {
      ASSERT_EQ(out[i], in[i + 1]) << "labels are the inputs, one further";
    }
    ++counts[in[i]][out[i]];
  }
  // The entropy of the chain as observed, from the counts, and as stated: 1.5 bits.
  double entropy = 0;
  for (const auto& [token, next] : counts) {
    EXPECT_LE(next.size(), 3U);
    double total = 0;
    for (const auto& [successor, count] : next) {
      total += count;
    }
    for (const auto& [successor, count] : next) {
      entropy -= count * std::log(count / total) / 20000;
    }
  }
  EXPECT_NEAR(entropy, synthetic_token_entropy(options), 0.01);
  EXPECT_NEAR(synthetic_token_entropy(options), 1.5 * std::log(2.0), 1e-12);
  EXPECT_TRUE(same(tokens, synthetic_tokens(options)));
  EXPECT_FALSE(same(tokens, synthetic_tokens(options, 1)));
  EXPECT_EQ(synthetic_token_entropy({.successors = 1}), 0);
  EXPECT_THROW(synthetic_tokens({.vocabulary = 3, .successors = 4}), Error);
}

TEST(Batches, OfTokensCountExamplesNotTokens) {
  const Dataset tokens = synthetic_tokens({.count = 10, .length = 6});
  Batches batches(tokens, 4, 1);
  EXPECT_EQ(batches.per_epoch(), 2);
  EXPECT_EQ(batches[1].labels.shape(), (Shape{4, 6}));
}

}  // namespace
}  // namespace diptych::data
