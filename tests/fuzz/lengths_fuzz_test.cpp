// Lengths that no tensor has (huge, negative, INT64_MAX), drawn for everything that makes a tensor from lengths or
// brings lengths together: the result has the elements that its shape says, or an error says the size. 20,000 of them
// by default, or for DIPTYCH_FUZZ_SECONDS; DIPTYCH_FUZZ_SEED draws others.

#include <array>
#include <fstream>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/npy.h"
#include "framework/io/safetensors.h"
#include "tests/fuzz/budget.h"
#include "tests/fuzz/hostile_lengths.h"
#include "tests/io/folder.h"
#include "tests/support/message_of.h"

namespace diptych::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// What may be said of a length or a product of lengths.
const auto kSaysTheSize = AnyOf(HasSubstr("takes"), HasSubstr("negative length"), HasSubstr("axes at most"));

/// The elements of a shape, exactly.
bool has_elements(const Tensor& tensor) {
  double count = 1;
  for (const std::int64_t length : tensor.shape()) {
    count *= static_cast<double>(length);
  }
  return static_cast<double>(tensor.numel()) == count && tensor.shape().product() == tensor.numel();
}

TEST(LengthsFuzz, EveryFactoryGivesItsElementsOrSaysTheSize) {
  const FuzzBudget budget(20261129);
  HostileLengths draw(budget.seed());
  Rng rng(1);
  const Generator generator(1);
  const std::vector<std::pair<const char*, std::function<Tensor(const Shape&, DType)>>> factories = {
      {"empty", [](const Shape& s, DType t) { return Tensor::empty(t, s); }},
      {"full", [](const Shape& s, DType t) { return full(s, 1, t); }},
      {"zeros", [](const Shape& s, DType t) { return zeros(s, t); }},
      {"eye", [&](const Shape& /*s*/, DType t) { return eye(draw.length(), draw.length(), t); }},
      {"linspace", [&](const Shape& /*s*/, DType /*t*/) { return linspace(0, 1, draw.length()); }},
      {"from", [](const Shape& s, DType /*t*/) { return Tensor::from(std::vector<float>(), s); }},
      {"Rng::uniform", [&](const Shape& s, DType t) { return rng.uniform(s, 0, 1, t); }},
      {"Rng::normal", [&](const Shape& s, DType t) { return rng.normal(s, 0, 1, t); }},
      {"Rng::integers", [&](const Shape& s, DType /*t*/) { return rng.integers(s, 0, 2); }},
      {"uniform", [&](const Shape& s, DType /*t*/) { return uniform(s, 0, 1, DType::float32, generator); }},
      {"normal", [&](const Shape& s, DType /*t*/) { return normal(s, 0, 1, DType::float64, generator); }},
      {"truncated_normal",
       [&](const Shape& s, DType /*t*/) { return truncated_normal(s, 0, 1, -2, 2, DType::float32, generator); }},
      {"randint", [&](const Shape& s, DType /*t*/) { return randint(0, 2, s, DType::int32, generator); }},
      {"bernoulli", [&](const Shape& s, DType /*t*/) { return bernoulli(s, 0.5, DType::boolean, generator); }},
      {"randperm", [&](const Shape& /*s*/, DType /*t*/) { return randperm(draw.length(), generator); }},
      {"one_hot",
       [&](const Shape& /*s*/, DType /*t*/) { return one_hot(Tensor::from({std::int64_t{0}}, {1}), draw.length()); }},
  };
  std::size_t tried = 0;
  std::size_t made = 0;
  for (; budget.lasts_tries(tried, 20000); ++tried) {
    const auto& [name, make] = factories[tried % factories.size()];
    const Shape shape = draw.shape();
    const auto dtype = static_cast<DType>(draw.below(kDTypeCount));
    try {
      const Tensor tensor = make(shape, dtype);
      ASSERT_TRUE(has_elements(tensor)) << name << " of " << to_string(shape);
      ++made;
    } catch (const Error& error) {
      const std::string why = error.what();
      const bool says = ::testing::Value(why, kSaysTheSize) ||
                        (std::string_view(name) == "from" && why.find("values for shape") != std::string::npos) ||
                        (std::string_view(name) == "one_hot" && why.find("the depth is below 1") != std::string::npos);
      ASSERT_TRUE(says) << name << " of " << to_string(shape) << ": " << why;
    }
  }
  EXPECT_GT(made, tried / 20) << "shapes without elements, and small ones, are drawn too";
}

TEST(LengthsFuzz, ResultsOfSeveralInputsSayTheSize) {
  const std::int64_t large = std::int64_t{1} << 40;
  const Tensor row = expand(zeros({1, 1}), {1, large});
  const Tensor column = expand(zeros({1, 1}), {large, 1});
  const Tensor mask = expand(zeros({1, 1}, DType::boolean), {1, large});
  const Tensor view = expand(zeros({1}), {std::int64_t{1} << 58});
  const Tensor place = Tensor::from({std::int64_t{0}}, {1});
  const Tensor places = expand(place, {large});
  const std::vector<std::pair<const char*, std::function<Tensor()>>> calls = {
      {"add", [&] { return row + column; }},
      {"less", [&] { return less(row, column); }},
      {"where", [&] { return where(mask, column, column); }},
      {"matmul", [&] { return matmul(column, row); }},
      {"take", [&] { return index_select(column, 1, places); }},
      {"exp", [&] { return exp(view); }},
      {"cast", [&] { return cast(view, DType::float64); }},
      {"contiguous", [&] { return contiguous(view); }},
      {"copy", [&] { return copy(view); }},
      {"concat",
       [&] {
         return concat({view, view, view, view, view}, 0);
       }},
      {"stack",
       [&] {
         return stack({view, view, view, view, view}, 0);
       }},
      {"pad",
       [&] {
         return pad(view, {{std::int64_t{1} << 61, std::int64_t{1} << 60}});
       }},
      {"tile",
       [&] {
         return reshape(expand(view, {64, view.numel()}), {-1});
       }},
      {"to_vector", [&] { return view.to_vector<float>(), view; }},
  };
  const auto expect_refused = [](const char* name, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << name << " gave a result";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AnyOf(HasSubstr("takes"), HasSubstr("too many elements"), HasSubstr("exceeds"),
                                      HasSubstr("too large"), HasSubstr("doesn't broadcast")))
          << name;
    }
  };
  for (const auto& [name, call] : calls) {
    expect_refused(name, call);
    auto captured = jit([&call = call](const Tensor& x) { return call() + x; });
    expect_refused(name, [&] { captured(zeros({})); });
    const PipelinedScope scope;
    expect_refused(name, call);
  }
}

TEST(LengthsFuzz, IntermediateResultsThatTogetherWrapSayTheSize) {
  const Tensor view = expand(zeros({1}), {std::int64_t{1} << 57});  // of 2^59 bytes each: eight of them have 2^62
  for (const bool planned : {true, false}) {
    auto pipeline = passes::PipelineOptions::none();
    if (planned) {
      pipeline = passes::PipelineOptions();
    }
    auto step = jit(
        [](const Tensor& x) {
          std::vector<Tensor> parts;
          for (int i = 0; i < 40; ++i) {
            parts.push_back(exp(x * static_cast<float>(i)));
          }
          Tensor sum = parts[0];
          for (const Tensor& part : parts) {
            sum = sum + part;
          }
          return slice(sum, 0, 0, 1);
        },
        {.pipeline = pipeline});
    try {
      step(view);
      ADD_FAILURE() << "a graph of 2^64 bytes ran";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AnyOf(HasSubstr("bytes"), HasSubstr("GiB"))) << error.what();
    } catch (const std::bad_alloc&) {
    }
  }
}

TEST(LengthsFuzz, FilesSayTheSize) {
  const FuzzBudget budget(7);
  HostileLengths draw(budget.seed());
  const Folder folder;
  const auto path = folder.path() / "x.npy";
  for (std::size_t tried = 0; budget.lasts_tries(tried, 500); ++tried) {
    const Shape shape = draw.shape();
    std::string lengths;
    for (const std::int64_t length : shape) {
      lengths += std::to_string(length) + ",";
    }
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" + lengths + "), }";
    header.append(256 - 10 - header.size() - 1, ' ');
    header += '\n';
    std::ofstream(path, std::ios::binary)
        << "\x93NUMPY\x01" << '\0' << static_cast<char>(246) << '\0' << header << std::string(8, 'x');
    try {
      ASSERT_TRUE(has_elements(io::load_npy(path))) << lengths;
    } catch (const FileError& error) {
      ASSERT_THAT(error.what(), AnyOf(kSaysTheSize, HasSubstr("isn't one that the engine has")));
    }
    const std::string json = "{\"x\":{\"dtype\":\"F64\",\"shape\":[" +
                             (lengths.empty() ? lengths : lengths.substr(0, lengths.size() - 1)) +
                             "],\"data_offsets\":[0,8]}}";
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(json.size());
    try {
      ASSERT_TRUE(has_elements(io::parse_safetensors(bytes + json + std::string(8, 'x'), "x").tensors[0].tensor));
    } catch (const FileError& error) {
      ASSERT_THAT(error.what(), AnyOf(kSaysTheSize, HasSubstr("no memory holds"), HasSubstr("data_offsets"),
                                      HasSubstr("whole numbers")));
    }
  }
}

}  // namespace
}  // namespace diptych::testing
