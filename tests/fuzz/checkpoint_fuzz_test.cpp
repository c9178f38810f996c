// Damaged checkpoints: loading either gives every variable its value, or throws FileError and changes none.

#include <cstring>
#include <random>
#include <unistd.h>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/checkpoint.h"
#include "tests/io/folder.h"

namespace diptych::io {
namespace {

using diptych::testing::bytes_of;
using diptych::testing::Folder;

/// One to four small damages, most of them in the header, some with a length that fits again.
class CheckpointMutator {
 public:
  explicit CheckpointMutator(std::string seed) : seed_(std::move(seed)) {
    std::memcpy(&header_, seed_.data(), sizeof header_);
  }

  std::string next() {
    std::string bytes = seed_;
    const std::size_t damages = 1 + below(4);
    for (std::size_t i = 0; i < damages; ++i) {
      damage(bytes);
    }
    if (below(3) == 0 && bytes.size() >= 8) {  // a length that fits the damaged header
      const auto end = bytes.rfind('}');
      const std::uint64_t length = end == std::string::npos || end < 8 ? 0 : end - 7;
      std::memcpy(bytes.data(), &length, sizeof length);
    }
    return bytes;
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void damage(std::string& bytes) {
    static const std::vector<std::string> dictionary = {"18446744073709551615",
                                                        "9223372036854775807",
                                                        "4294967296",
                                                        "-1",
                                                        "0",
                                                        "1e999",
                                                        "NaN",
                                                        "null",
                                                        "{}",
                                                        "[]",
                                                        "\"F64\"",
                                                        "\"BOOL\"",
                                                        "[0,0]",
                                                        "[1,1,1,1,1,1,1,1,1]",
                                                        "\"x\":",
                                                        "\xFF",
                                                        "\\ud800",
                                                        ",",
                                                        "{\"x\":[",
                                                        "\"__metadata__\":{\"a\":\"b\"},",
                                                        "2.5",
                                                        "    "};
    if (bytes.empty()) {
      return;
    }
    const std::size_t reach = below(3) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 8 + header_);
    const std::size_t at = below(reach);
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1U << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, dictionary[below(dictionary.size())]);
        break;
      case 4: {  // a number becomes another
        const std::size_t digit = bytes.find_first_of("0123456789", at);
        if (digit != std::string::npos) {
          bytes.replace(digit, 1, dictionary[below(10)]);
        }
        break;
      }
      case 5:
        bytes.erase(at, 1 + below(12));
        break;
      case 6:
        bytes.insert(below(reach), bytes.substr(at, below(64)));
        break;
      default:
        bytes += static_cast<char>(below(256));
    }
  }

  std::string seed_;
  std::uint64_t header_ = 0;
  std::mt19937_64 random_{20250711};
};

Variables small_model(double value) {
  return {Variable(full({2, 3}, value), "0.weight"),
          Variable(full({3}, value, DType::bfloat16), "0.bias"),
          Variable(full({2}, value, DType::float64), "scale"),
          Variable(cast(full({4}, value), DType::boolean), "mask"),
          Variable(full({}, value, DType::int64), "steps"),
          Variable(full({5}, value, DType::float16), "half"),
          Variable(full({5}, value, DType::int8), "bytes"),
          Variable(full({20, 20}, value), "1.weight"),
          Variable(zeros({0, 2}), "empty")};
}

TEST(CheckpointFuzz, DamagedFilesAreLoadedInFullOrNotAtAll) {
  const Folder folder;
  const auto path = folder / "run";
  save_checkpoint(path, {.model = small_model(1), .step = 3});
  CheckpointMutator mutator(bytes_of(path));
  const Variables variables = small_model(0);
  std::vector<Tensor> before(variables.begin(), variables.end());
  std::size_t accepted = 0;
  constexpr std::size_t kTries = 20000;
  for (std::size_t i = 0; i < kTries; ++i) {
    const std::string bytes = mutator.next();
    try {
      restore_checkpoint(parse_safetensors(bytes, "damaged"), "damaged", {.model = variables});
      ++accepted;
      for (std::size_t k = 0; k < variables.size(); ++k) {
        const Tensor now = variables[k];
        ASSERT_TRUE(now.numel() == 0 || now.body() != before[k].body()) << variables[k].name() << " was left out";
        before[k] = now;
      }
    } catch (const FileError& error) {
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      for (std::size_t k = 0; k < variables.size(); ++k) {
        ASSERT_EQ(variables[k].value().body(), before[k].body()) << error.what();
      }
    } catch (const std::exception& error) {
      FAIL() << "not a FileError: " << error.what();
    }
  }
  EXPECT_GT(accepted, kTries / 100) << "damage that can't be seen, of elements, is tried too";
  EXPECT_LT(accepted, kTries / 2);
}

TEST(CheckpointFuzz, NoiseIsRefused) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    std::string noise;
    const std::size_t length = random() % 300;
    for (std::size_t k = 0; k < length; ++k) {
      noise += static_cast<char>(random());
    }
    if (i % 2 == 0 && length > 9) {  // noise as a header
      const std::uint64_t header = length - 8;
      std::memcpy(noise.data(), &header, sizeof header);
      noise[8] = '{';
    }
    if (noise.size() < 10 || noise.substr(8) != "{}") {  // an empty file is a good one
      EXPECT_THROW(parse_safetensors(noise, "noise"), FileError) << noise.substr(8);
    }
  }
}

}  // namespace
}  // namespace diptych::io
