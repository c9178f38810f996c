// Quantised operators and types for storage in models, against the standard's formulas in integers and in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/onnx/export.h"
#include "tests/io/folder.h"
#include "tests/onnx/imported.h"

namespace diptych::onnx {
namespace {

using diptych::testing::both;
using diptych::testing::Builder;
using diptych::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::vector<T> drawn(Rng& rng, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<T>(rng.next_u64()));
  }
  return values;
}

template <class T>
Tensor scalar(T value) {
  return Tensor::scalar(value);
}

TEST(Quantised, RoundsTiesToEvenBeforeTheZeroPointAndSaturates) {
  const auto quantise = [](const Tensor& zero_point) {
    ImportedModel model = Builder(13)
                              .input("x", DType::float32, {9})
                              .constant("scale", scalar(2.0F))
                              .constant("zero", zero_point)
                              .node("QuantizeLinear", {"x", "scale", "zero"}, {"y"})
                              .output("y")
                              .imported();
    const Tensor x = Tensor::from({1.0F, 3.0F, 5.0F, -1.0F, -3.0F, 0.99F, 1e30F, -1e30F, 300.0F}, {9});
    const Tensor y = both(model, {x})[0];
    EXPECT_EQ(y.dtype(), zero_point.dtype());
    return y.to_vector<int>();
  };
  // Halves go to 0, 2, 2, -0, -2 whatever the zero point: an odd one would turn the ties if it were added before.
  EXPECT_THAT(quantise(scalar(std::uint8_t{3})), ElementsAre(3, 5, 5, 3, 1, 3, 255, 0, 153));
  EXPECT_THAT(quantise(scalar(std::int8_t{-1})), ElementsAre(-1, 1, 1, -1, -3, -1, 127, -128, 127));
  EXPECT_THAT(quantise(scalar(std::uint16_t{1})), ElementsAre(1, 3, 3, 1, 0, 1, 65535, 0, 151));
  EXPECT_THAT(quantise(scalar(std::int16_t{1})), ElementsAre(1, 3, 3, 1, -1, 1, 32767, -32768, 151));
}

TEST(Quantised, ScalesOfAnAxisAndOfBlocks) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  ImportedModel axis = Builder(13)
                           .input("x", DType::float32, {2, 3})
                           .constant("scale", Tensor::from({1.0F, 0.5F}, {2}))
                           .constant("zero", Tensor::from({std::uint8_t{0}, std::uint8_t{10}}, {2}))
                           .node("QuantizeLinear", {"x", "scale", "zero"}, {"q"}, {{"axis", std::int64_t{0}}})
                           .node("DequantizeLinear", {"q", "scale", "zero"}, {"y"}, {{"axis", std::int64_t{-2}}})
                           .output("q")
                           .output("y")
                           .imported();
  const std::vector<Tensor> by_axis = both(axis, {x});
  EXPECT_THAT(by_axis[0].to_vector<int>(), ElementsAre(1, 2, 3, 18, 20, 22));
  EXPECT_THAT(by_axis[1].to_vector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));

  ImportedModel blocks =
      Builder(21)
          .input("x", DType::float32, {2, 3})
          .constant("scale", Tensor::from({1.0F, 0.5F, 0.25F, 0.125F}, {2, 2}))
          .node("QuantizeLinear", {"x", "scale"}, {"y"}, {{"axis", std::int64_t{1}}, {"block_size", std::int64_t{2}}})
          .output("y")
          .imported();
  EXPECT_THAT(both(blocks, {x})[0].to_vector<int>(), ElementsAre(1, 2, 6, 16, 20, 48));
}

TEST(Quantised, DynamicScalesSpanTheElementsAndZero) {
  ImportedModel model = Builder(11)
                            .input("x", DType::float32, {4})
                            .node("DynamicQuantizeLinear", {"x"}, {"y", "scale", "zero"})
                            .output("y")
                            .output("scale")
                            .output("zero")
                            .imported();
  const std::vector<Tensor> found = both(model, {Tensor::from({-1.0F, 0.0F, 2.0F, 4.1F}, {4})});
  EXPECT_EQ(found[1].item(), static_cast<double>(5.1F / 255));
  EXPECT_EQ(found[2].item(), 50);  // 1 / 0.02
  EXPECT_THAT(found[0].to_vector<int>(), ElementsAre(0, 50, 150, 255));
  const std::vector<Tensor> zeros = both(model, {Tensor::from({0.0F, 0.0F, 0.0F, 0.0F}, {4})});
  EXPECT_THAT(zeros[0].to_vector<int>(), ElementsAre(0, 0, 0, 0));
}

/// f32 has sums of up to 258 products of bytes; the longer ones go through f64.
TEST(Quantised, ProductsAreExactAtEveryLength) {
  Rng rng(3);
  for (const std::int64_t k : {1, 258, 259, 5000}) {
    const std::vector<std::uint8_t> a = drawn<std::uint8_t>(rng, 2 * k);
    const std::vector<std::int8_t> b = drawn<std::int8_t>(rng, 3 * k);
    const std::vector<std::int8_t> b_zero{-128, 5, 127};
    ImportedModel model = Builder(10)
                              .input("a", DType::uint8, {2, k})
                              .input("b", DType::int8, {k, 3})
                              .constant("a_zero", scalar(std::uint8_t{0}))
                              .constant("b_zero", Tensor::from(b_zero, {3}))
                              .node("MatMulInteger", {"a", "b", "a_zero", "b_zero"}, {"y"})
                              .output("y")
                              .imported();
    const Tensor y = both(model, {Tensor::from(a, {2, k}), Tensor::from(b, {k, 3})})[0];
    ASSERT_EQ(y.dtype(), DType::int32);
    const std::vector<std::int64_t> got = y.to_vector<std::int64_t>();
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        std::int64_t sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += std::int64_t{a[static_cast<std::size_t>(i * k + l)]} *
                 (b[static_cast<std::size_t>(l * 3 + j)] - b_zero[static_cast<std::size_t>(j)]);
        }
        EXPECT_EQ(got[static_cast<std::size_t>(i * 3 + j)], sum) << k;
      }
    }
  }
}

TEST(Quantised, RequantisationRoundsOnce) {
  // Sums 1 * 3 and 1 * 5 times 0.5 are ties; a scale for each column of b.
  ImportedModel model = Builder(10)
                            .input("a", DType::uint8, {1, 1})
                            .input("b", DType::uint8, {1, 3})
                            .constant("one", scalar(1.0F))
                            .constant("scales", Tensor::from({0.5F, 0.5F, 64.0F}, {3}))
                            .constant("zero", scalar(std::uint8_t{0}))
                            .constant("zeros", Tensor::from({std::uint8_t{0}, std::uint8_t{0}, std::uint8_t{0}}, {3}))
                            .constant("y_zero", scalar(std::uint8_t{1}))
                            .node("QLinearMatMul", {"a", "one", "zero", "b", "scales", "zeros", "one", "y_zero"}, {"y"})
                            .output("y")
                            .imported();
  const Tensor y = both(model, {Tensor::from({std::uint8_t{1}}, {1, 1}),
                                Tensor::from({std::uint8_t{3}, std::uint8_t{5}, std::uint8_t{200}}, {1, 3})})[0];
  EXPECT_THAT(y.to_vector<int>(), ElementsAre(3, 3, 255));
}

TEST(Quantised, ConvolutionsPadWithTheZeroPoint) {
  Rng rng(4);
  const std::vector<std::uint8_t> x = drawn<std::uint8_t>(rng, 50);
  const std::vector<std::int8_t> w = drawn<std::int8_t>(rng, 54);
  const std::vector<std::int32_t> bias{-1000, 0, 70000};
  const std::vector<float> scales{0.5F, 0.25F, 0.125F};
  constexpr int kXZero = 120;
  constexpr double kYScale = 64;
  ImportedModel model =
      Builder(10)
          .input("x", DType::uint8, {1, 2, 5, 5})
          .constant("x_scale", scalar(0.25F))
          .constant("x_zero", scalar(static_cast<std::uint8_t>(kXZero)))
          .constant("w", Tensor::from(w, {3, 2, 3, 3}))
          .constant("w_scale", Tensor::from(scales, {3}))
          .constant("w_zero", Tensor::from({std::int8_t{0}, std::int8_t{0}, std::int8_t{0}}, {3}))
          .constant("y_scale", scalar(static_cast<float>(kYScale)))
          .constant("y_zero", scalar(std::uint8_t{99}))
          .constant("bias", Tensor::from(bias, {3}))
          .node("QLinearConv", {"x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"}, {"y"},
                {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}})
          .output("y")
          .imported();
  const Tensor y = both(model, {Tensor::from(x, {1, 2, 5, 5})})[0];
  ASSERT_EQ(y.type(), (TensorType{DType::uint8, {1, 3, 5, 5}}));
  const std::vector<int> got = y.to_vector<int>();
  for (std::size_t place = 0; place < got.size(); ++place) {
    const std::size_t o = place / 25;
    std::int64_t sum = bias[o];
    for (std::size_t tap = 0; tap < 18; ++tap) {
      const std::size_t row = place / 5 % 5 + tap / 3 % 3;  // counted from the padding on
      const std::size_t column = place % 5 + tap % 3;
      if (row >= 1 && row <= 5 && column >= 1 && column <= 5) {
        const std::int64_t centred = x[tap / 9 * 25 + (row - 1) * 5 + column - 1] - kXZero;
        sum += centred * w[o * 18 + tap];
      }
    }
    // All scales are powers of two: the product is exact.
    const double scaled = static_cast<double>(sum) * 0.25 * scales[o] / kYScale;
    EXPECT_EQ(got[place], std::clamp(std::nearbyint(scaled) + 99, 0.0, 255.0)) << place;
  }
}

TEST(Quantised, ShiftsOfEveryWidth) {
  const auto shifted = [](const char* direction, const Tensor& x, const Tensor& y) {
    ImportedModel model = Builder(11)
                              .input("x", x.dtype(), {x.numel()})
                              .input("y", x.dtype(), {x.numel()})
                              .node("BitShift", {"x", "y"}, {"z"}, {{"direction", std::string(direction)}})
                              .output("z")
                              .imported();
    return both(model, {x, y})[0];
  };
  using U = std::uint64_t;
  const std::vector<U> x{U{0xFFFFFFFFFFFFFFFF}, U{0x8000000000000001}, 5, 5, U{1} << 63U, U{0xFFFFFFFFFFFFFFFF}};
  const std::vector<U> by{1, 63, 0, 64, 62, U{1} << 63U};
  const auto tensor = [](const std::vector<U>& values) { return Tensor::from(values, {6}); };
  EXPECT_THAT(shifted("RIGHT", tensor(x), tensor(by)).to_vector<U>(), ElementsAre(x[0] >> 1U, 1, 5, 0, 2, 0));
  EXPECT_THAT(shifted("LEFT", tensor(x), tensor(by)).to_vector<U>(), ElementsAre(x[0] << 1U, x[1] << 63U, 5, 0, 0, 0));
  const Tensor bytes = Tensor::from({std::uint8_t{255}, std::uint8_t{129}, std::uint8_t{3}}, {3});
  const Tensor places = Tensor::from({std::uint8_t{4}, std::uint8_t{7}, std::uint8_t{8}}, {3});
  EXPECT_THAT(shifted("RIGHT", bytes, places).to_vector<int>(), ElementsAre(15, 1, 0));
  EXPECT_THAT(shifted("LEFT", bytes, places).to_vector<int>(), ElementsAre(240, 128, 0));
}

// What opsets 19 to 25 have added to Cast, QuantizeLinear and those that move tensors.
TEST(StorageTypesInModels, NarrowerOnesAreRefusedByName) {
  for (const auto& [code, name] : {std::pair<std::int64_t, const char*>{17, "float8e4m3fn"},
                                   {20, "float8e5m2fnuz"},
                                   {21, "uint4"},
                                   {23, "float4e2m1"},
                                   {24, "float8e8m0"},
                                   {25, "uint2"},
                                   {26, "int2"}}) {
    const std::string wanted = std::string("the engine has no ") + name + " tensors";
    EXPECT_THAT(diptych::testing::refused_node("Cast", {{"to", AttributeValue(code)}}, 25), HasSubstr(wanted));
    EXPECT_THAT(diptych::testing::refused_node("QuantizeLinear", {{"output_dtype", AttributeValue(code)}}, 25),
                HasSubstr(wanted));
  }
  EXPECT_THAT(diptych::testing::refused_node("Cast", {{"to", AttributeValue(std::int64_t{99})}}, 25),
              HasSubstr("no type 99 tensors"));
}

TEST(StorageTypesInModels, Float16IsRoundedAtEachOperatorsBoundary) {
  ImportedModel model = Builder()
                            .input("x", DType::float16, {50})
                            .node("Sigmoid", {"x"}, {"s"})
                            .node("Mul", {"s", "x"}, {"y"})
                            .node("ReduceSum", {"y"}, {"z"})
                            .node("ArgMax", {"y"}, {"at"})
                            .output("y")
                            .output("z")
                            .output("at")
                            .imported();
  const Tensor x = cast(Rng(7).normal({50}), DType::float16);
  const std::vector<Tensor> found = both(model, {x});
  const Tensor wide = cast(x, DType::float32);
  const Tensor s = cast(cast(sigmoid(wide), DType::float16), DType::float32);
  const Tensor y = cast(mul(s, wide), DType::float16);
  EXPECT_TRUE(bitwise_equal(found[0], y));
  EXPECT_TRUE(bitwise_equal(found[1], cast(sum(cast(y, DType::float32), {0}, true), DType::float16)));
  EXPECT_EQ(found[2].dtype(), DType::int64);
}

TEST(StorageTypesInModels, FilesKeepThem) {
  const std::vector<Tensor> tensors{
      cast(Tensor::from({1.5F, -0.0F, 6e-8F, 7e4F}, {4}), DType::float16),
      Tensor::from({std::int8_t{-128}, std::int8_t{127}}, {2}),
      Tensor::from({std::uint16_t{65535}}, {1}),
      Tensor::from({std::int16_t{-32768}}, {1}),
      Tensor::from({std::uint32_t{4294967295U}}, {1}),
      Tensor::from({std::uint64_t{18446744073709551615U}}, {1}),
  };
  const diptych::testing::Folder folder;
  for (const Tensor& tensor : tensors) {
    const std::string name(name_of(tensor.dtype()));
    write_tensor({name, tensor}, folder.path() / "t.pb");
    EXPECT_TRUE(bitwise_equal(read_tensor(folder.path() / "t.pb").tensor, tensor)) << name;
    const Builder builder = Builder()
                                .input("x", tensor.dtype(), {tensor.numel()})
                                .constant("c", tensor)
                                .node("Concat", {"x", "c"}, {"y"}, {{"axis", std::int64_t{0}}})
                                .output("y");
    write_model(*builder.model(), folder.path() / "m.onnx");
    ImportedModel model(std::make_shared<const Model>(read_model(folder.path() / "m.onnx")));
    EXPECT_TRUE(bitwise_equal(both(model, {tensor})[0], concat({tensor, tensor}, 0))) << name;
  }
}

/// The steps around an operator are Casts in what is exported.
TEST(StorageTypesInModels, ExportsGiveTheSameBits) {
  ImportedModel model = Builder()
                            .input("x", DType::float16, {2, 3})
                            .constant("w", cast(Rng(8).normal({3, 2}), DType::float16))
                            .constant("i", full({1}, 7, DType::int16))
                            .node("MatMul", {"x", "w"}, {"p"})
                            .node("Tanh", {"p"}, {"y"})
                            .node("Cast", {"y"}, {"j"}, {{"to", std::int64_t{5}}})
                            .node("Sub", {"j", "i"}, {"z"})
                            .output("y")
                            .output("z")
                            .imported();
  const std::vector<Tensor> inputs{cast(Rng(9).normal({2, 3}), DType::float16)};
  const std::vector<Tensor> wanted = both(model, inputs);
  ImportedModel exported(std::make_shared<const Model>(export_graph(diptych::testing::graph_of(model, inputs))));
  const std::vector<Tensor> found = both(exported, inputs);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found[i], wanted[i])) << i;
  }
}

TEST(StorageTypesInModels, IndicesAreNotTakenForElements) {
  using U = std::uint32_t;
  ImportedModel model = Builder()
                            .input("x", DType::uint32, {4})
                            .integers("k", {2})
                            .node("TopK", {"x", "k"}, {"most", "at"})
                            .node("ArgMin", {"x"}, {"least"})
                            .output("most")
                            .output("at")
                            .output("least")
                            .imported();
  const std::vector<Tensor> found = both(model, {Tensor::from({U{7}, U{4000000000}, U{1}, U{3000000000}}, {4})});
  EXPECT_EQ(found[0].dtype(), DType::uint32);
  EXPECT_THAT(found[0].to_vector<double>(), ElementsAre(4e9, 3e9));
  EXPECT_EQ(found[1].dtype(), DType::int64);
  EXPECT_THAT(found[1].to_vector<int>(), ElementsAre(1, 3));
  EXPECT_EQ(found[2].type().dtype, DType::int64);
}

TEST(StorageTypesInModels, LongUnsignedIntegersAreOrderedAsSuch) {
  using U = std::uint64_t;
  const U large = U{1} << 63U;
  ImportedModel model = Builder()
                            .input("x", DType::uint64, {3})
                            .integers("k", {1})
                            .node("ReduceMax", {"x"}, {"max"}, {{"keepdims", std::int64_t{0}}})
                            .node("TopK", {"x", "k"}, {"most", "at"})
                            .node("ReduceSum", {"x"}, {"sum"}, {{"keepdims", std::int64_t{0}}})
                            .output("max")
                            .output("at")
                            .output("sum")
                            .imported();
  const std::vector<Tensor> found = both(model, {Tensor::from({U{1}, large + 2, U{5}}, {3})});
  EXPECT_EQ(found[0].to_vector<U>()[0], large + 2);
  EXPECT_EQ(found[1].to_vector<int>()[0], 1);
  EXPECT_EQ(found[2].to_vector<U>()[0], large + 8);
  const Builder refused = Builder().input("x", DType::uint64, {3}).node("ReduceMean", {"x"}, {"y"}).output("y");
  EXPECT_THAT(refusal([&] {
                ImportedModel other = refused.imported();
                other.call(std::vector<Tensor>{Tensor::from({U{1}, U{2}, U{3}}, {3})});
              }),
              HasSubstr("u64[3]"));
}

}  // namespace
}  // namespace diptych::onnx
