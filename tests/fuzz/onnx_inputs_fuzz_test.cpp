// The inputs that `diptych` makes for a model by itself, for lengths that a file may claim (huge, negative, INT64_MAX)
// and that the command line may give: each input is the one that the file describes, or an error says which can't be.

#include <algorithm>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/io/onnx/export.h"
#include "framework/io/onnx/import.h"
#include "framework/ops/creation.h"
#include "tests/fuzz/budget.h"
#include "tests/fuzz/hostile_lengths.h"
#include "tests/fuzz/model_mutator.h"
#include "tests/io/folder.h"
#include "tests/onnx/builder.h"
#include "workloads/onnx/workload.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Builder;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// What the file says of an input, with the lengths of the command line.
Shape claimed(const ValueInfo& info, const workloads::OnnxSpec& spec) {
  Shape shape;
  for (const auto& length : info.shape) {
    const auto* const number = std::get_if<std::int64_t>(&length);
    shape.push_back(number != nullptr ? *number : spec.lengths.at(std::get<std::string>(length)));
  }
  return shape;
}

TEST(OnnxInputsFuzz, AreAsTheFileSaysOrRefusedWithTheSize) {
  const diptych::testing::FuzzBudget budget(20261130);
  diptych::testing::HostileLengths draw(budget.seed());
  set_memory_limit(std::uint64_t{1} << 30U);
  std::size_t made = 0;
  std::size_t tried = 0;
  for (; budget.lasts_tries(tried, 3000); ++tried) {
    Builder builder;
    workloads::OnnxSpec spec{.path = "fuzzed.onnx", .lengths = {}, .inputs = {}};
    const std::uint64_t inputs = 1 + draw.below(3);
    for (std::uint64_t i = 0; i < inputs; ++i) {
      std::vector<Builder::Length> shape;
      for (std::uint64_t axes = draw.below(11); axes > 0; --axes) {
        if (draw.below(6) == 0) {
          const std::string name = "axis" + std::to_string(shape.size());
          shape.emplace_back(name);
          spec.lengths[name] = draw.length();
        } else {
          shape.emplace_back(draw.below(4) == 0 ? draw.length() : static_cast<std::int64_t>(draw.below(3)));
        }
      }
      builder.input("x" + std::to_string(i), static_cast<DType>(draw.below(kDTypeCount)), shape);
    }
    const auto model = builder.node("Identity", {"x0"}, {"y"}).output("y").model();
    try {
      const std::vector<Tensor> tensors = workloads::onnx_inputs(*model, spec, tried);
      ASSERT_EQ(tensors.size(), inputs);
      for (std::size_t i = 0; i < inputs; ++i) {
        const ValueInfo& info = model->graph->inputs[i];
        ASSERT_EQ(tensors[i].type(), (TensorType{*info.dtype, claimed(info, spec)}));
      }
      ++made;
      workloads::make_onnx_instance(model, spec, tried).model.prepare(tensors);
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), AnyOf(HasSubstr("\"x0\""), HasSubstr("\"x1\""), HasSubstr("\"x2\""))) << error.what();
      ASSERT_THAT(error.what(), AnyOf(HasSubstr("takes"), HasSubstr("length"), HasSubstr("axes")));
    }
  }
  EXPECT_GT(made, tried / 20);
  EXPECT_LT(made, tried);
}

TEST(OnnxInputsFuzz, OfDamagedModelsAreMadeOrRefused) {
  const diptych::testing::FuzzBudget budget(20261201);
  diptych::testing::ModelMutator mutator(budget.seed());
  set_memory_limit(std::uint64_t{1} << 26U);
  const diptych::testing::Folder folder;
  write_model(*Builder()
                   .input("x", DType::float32, {2, "n"})
                   .input("places", DType::int64, {3})
                   .constant("table", full({5, 4}, 1))
                   .integers("shape", {-1})
                   .node("Gather", {"table", "places"}, {"g"})
                   .node("Reshape", {"x", "shape"}, {"y"})
                   .output("g")
                   .output("y")
                   .model(),
              folder / "m.onnx");
  const std::string file = diptych::testing::bytes_of(folder / "m.onnx");
  const workloads::OnnxSpec spec{.path = "fuzzed.onnx", .lengths = {{"n", 3}}, .inputs = {}};
  std::size_t made = 0;
  std::size_t tried = 0;
  for (; budget.lasts_tries(tried, 5000); ++tried) {
    try {
      const auto model = std::make_shared<const Model>(parse_model(mutator.damaged(file), "fuzzed", "/nonexistent"));
      const auto instance = workloads::make_onnx_instance(model, spec, tried);
      ++made;
      if (std::all_of(instance.inputs.begin(), instance.inputs.end(),
                      [](const Tensor& input) { return input.numel() < 10'000; })) {
        workloads::OnnxInstance again = workloads::make_onnx_instance(model, spec, tried);
        again.model.call(again.inputs);
      }
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
  }
  EXPECT_GT(made, tried / 50);
  EXPECT_LT(made, tried);
}

/// The 74 bytes that once wrote beyond a block: 2^62 + 1000 elements, whose bytes wrap to 4,000.
TEST(OnnxInputsFuzz, ALengthWhoseBytesWrapIsRefused) {
  const auto model = Builder()
                         .input("x", DType::float32, {(std::int64_t{1} << 62) + 1000})
                         .node("Exp", {"x"}, {"y"})
                         .output("y")
                         .model();
  try {
    workloads::onnx_inputs(*model, {.path = "huge.onnx", .lengths = {}, .inputs = {}}, 1);
    FAIL() << "it was given an input";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("\"huge.onnx\": its input \"x\": f32[4611686018427388904] takes 1.84e+19 bytes"));
  }
}

}  // namespace
}  // namespace diptych::onnx
