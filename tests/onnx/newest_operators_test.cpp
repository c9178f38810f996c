// What opsets 26 to 28 add and change, and operators of earlier ones that came late: against formulas in double, and
// gradients against finite differences.

#include <bit>
#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/onnx/operators.h"
#include "tests/onnx/one_node.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Attributes;
using diptych::testing::both;
using diptych::testing::Builder;
using diptych::testing::doubles;
using diptych::testing::expect_gradients;
using diptych::testing::IsNear;
using diptych::testing::number;
using diptych::testing::random;
using diptych::testing::refusal;
using diptych::testing::refused_node;
using diptych::testing::run;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using List = std::vector<std::int64_t>;

AttributeValue word(const char* value) { return AttributeValue(std::string(value)); }
/// What a BitCast of x to a type that its bits are no elements of says.
std::string refused_by_type(const Tensor& x, std::int64_t type) {
  const Shape& shape = x.shape();
  ImportedModel model = Builder(26)
                            .input("x", x.dtype(), {shape.begin(), shape.end()})
                            .node("BitCast", {"x"}, {"y"}, {{"to", number(type)}})
                            .output("y")
                            .imported();
  return refusal([&] { model.call(std::vector<Tensor>{x}); });
}
double element_at(const std::vector<double>& x, std::size_t i) { return x.at(i); }

TEST(NewestOperators, WhatAnOpsetLeavesAsItIsIsReadInIt) {
  const Tensor x = Tensor::from({1.5F, -2.5F, 3.0F, 0.5F}, {2, 2});
  for (const char* op : {"Relu", "Softmax", "Transpose", "Celu", "Identity"}) {
    const Tensor wanted = run(op, {x}, {}, 1, 25)[0];
    for (const std::int64_t opset : {26, 27, 28, 29, 40}) {
      EXPECT_TRUE(bitwise_equal(run(op, {x}, {}, 1, opset)[0], wanted)) << op << " " << opset;
    }
  }
  // What is newer than the newest that is known is named.
  EXPECT_THAT(refused_node("Relu", {{"leak", 0.5}}, kNewestOpset + 1),
              AllOf(HasSubstr("Relu_0"), HasSubstr("attribute \"leak\""), HasSubstr("newer than 28")));
  EXPECT_THAT(refused_node("HyperRelu", {}, kNewestOpset + 1),
              AllOf(HasSubstr("HyperRelu"), HasSubstr("no such operator")));
  EXPECT_THAT(refused_node("SwiGLU", {}, 27), HasSubstr("supported from opset 28"));
  Builder early(24);
  for (const char* name : {"q", "k", "v"}) {
    early.input(name, DType::float32, {1, 1, 2, 2});
  }
  early.node("Attention", {"q", "k", "v"}, {"y"}, {{"left_window_size", number(2)}}).output("y");
  EXPECT_THAT(refusal([&] { early.imported(); }), HasSubstr("left_window_size"));
}

TEST(NewestOperators, SwiGluMultipliesByAGate) {
  const Tensor a = random(1, {2, 3});
  const Tensor b = random(2, {2, 3});
  for (const double alpha : {1.0, 1.7}) {
    std::vector<double> wanted;
    for (std::size_t i = 0; i < 6; ++i) {
      wanted.push_back(doubles(a)[i] / (1 + std::exp(-alpha * doubles(a)[i])) * doubles(b)[i]);
    }
    EXPECT_THAT(doubles(run("SwiGLU", {a, b}, {{"alpha", alpha}}, 1, 28)[0]), Pointwise(IsNear(1e-14), wanted));
    expect_gradients("SwiGLU", {a, b}, {{"alpha", alpha}}, 1, 28);
  }
}

TEST(NewestOperators, CumProdMultipliesAlongAnAxis) {
  const Tensor x = Tensor::from({1.0, 2.0, 3.0}, {3});
  const Tensor axis = Tensor::scalar(std::int64_t{0});
  const auto y = [&](std::int64_t exclusive, std::int64_t reverse) {
    return doubles(
        run("CumProd", {x, axis}, {{"exclusive", number(exclusive)}, {"reverse", number(reverse)}}, 1, 26)[0]);
  };
  EXPECT_THAT(y(0, 0), ElementsAre(1, 2, 6));  // the four examples of the operator's page
  EXPECT_THAT(y(1, 0), ElementsAre(1, 1, 2));
  EXPECT_THAT(y(0, 1), ElementsAre(6, 6, 3));
  EXPECT_THAT(y(1, 1), ElementsAre(6, 3, 1));
  const Tensor wide = random(3, {2, 7, 2});
  std::vector<double> wanted(28);
  for (std::size_t i = 0; i < 28; ++i) {
    const std::size_t row = i / 2 % 7;
    wanted[i] = doubles(wide)[i] * (row > 0 ? wanted[i - 2] : 1);
  }
  const Tensor middle = Tensor::scalar(std::int64_t{-2});
  EXPECT_THAT(doubles(run("CumProd", {wide, middle}, {}, 1, 26)[0]), Pointwise(IsNear(1e-13), wanted));
  for (const std::int64_t exclusive : {0, 1}) {
    expect_gradients("CumProd", {wide, middle}, {{"exclusive", number(exclusive)}, {"reverse", number(1)}}, 1, 26);
  }
  const Tensor whole = Tensor::from(List{3, -2, 5, 7}, {4});
  EXPECT_THAT(doubles(run("CumProd", {whole, axis}, {}, 1, 26)[0]), ElementsAre(3, -6, -30, -210));
  EXPECT_EQ(run("CumProd", {full({0}, 1, DType::float64), axis}, {{"exclusive", number(1)}}, 1, 26)[0].numel(), 0);
}

/// The weights of causal attention with a window, per row.
TEST(NewestOperators, AttentionSeesAWindowBeforeEachRow) {
  const Tensor q = random(1, {2, 1, 3, 4});
  const Tensor k = random(2, {2, 1, 5, 4});
  const Tensor v = random(3, {2, 1, 5, 2});
  const Tensor past_k = random(4, {2, 1, 2, 4});
  const Tensor past_v = random(5, {2, 1, 2, 2});
  const Tensor valid = Tensor::from(List{4, 5}, {2});
  struct Cache {
    std::vector<Tensor> inputs;
    std::int64_t columns;
    std::function<std::int64_t(std::size_t)> offset;  ///< of the first row in its batch
  };
  const std::vector<Cache> caches{
      {{q, k, v}, 5, [](std::size_t) { return 0; }},
      {{q, k, v, {}, past_k, past_v}, 7, [](std::size_t) { return 2; }},
      {{q, k, v, {}, {}, {}, valid}, 5, [](std::size_t batch) { return batch == 0 ? 1 : 2; }}};
  for (const Cache& cache : caches) {
    for (const std::int64_t window : {-1, 0, 1, 3}) {
      for (const std::int64_t causal : {0, 1}) {
        const Attributes attributes{
            {"is_causal", number(causal)}, {"left_window_size", number(window)}, {"qk_matmul_output_mode", number(3)}};
        const std::vector<double> p = doubles(run("Attention", cache.inputs, attributes, 4, 25)[3]);
        const auto columns = static_cast<std::size_t>(cache.columns);
        for (std::size_t i = 0; i < p.size(); ++i) {
          const auto column = static_cast<std::int64_t>(i % columns);
          const std::size_t batch = i / columns / 3;
          const std::int64_t own = static_cast<std::int64_t>(i / columns % 3) + cache.offset(batch);
          const bool is_token = cache.inputs.size() < 7 || column < (batch == 0 ? 4 : 5);
          const bool sees = is_token && (causal == 0 || column <= own) && (window < 0 || column >= own - window);
          EXPECT_EQ(p[i] > 0, sees) << i << " window " << window << " causal " << causal;
        }
      }
    }
  }
  expect_gradients("Attention", {q, k, v}, {{"is_causal", number(1)}, {"left_window_size", number(1)}}, 1, 25);
}

TEST(NewestOperators, CausalConvolutionsContinueBehindTheirState) {
  const Tensor x = random(1, {2, 3, 5});
  const Tensor weight = random(2, {3, 1, 4});
  const Tensor bias = random(3, {3});
  const Tensor past = random(4, {2, 3, 3});
  for (const char* activation : {"none", "silu", "swish"}) {
    const std::vector<Tensor> outputs =
        run("CausalConvWithState", {x, weight, bias, past}, {{"activation", word(activation)}}, 2, 27);
    std::vector<double> wanted;
    const std::vector<double> all = doubles(concat({past, x}, 2));
    for (std::size_t row = 0; row < 6; ++row) {
      for (std::size_t i = 0; i < 5; ++i) {
        double sum = doubles(bias)[row % 3];
        for (std::size_t k = 0; k < 4; ++k) {
          sum += doubles(weight)[row % 3 * 4 + k] * all[row * 8 + i + k];
        }
        wanted.push_back(activation == std::string("none") ? sum : sum / (1 + std::exp(-sum)));
      }
    }
    EXPECT_THAT(doubles(outputs[0]), Pointwise(IsNear(1e-13), wanted)) << activation;
    EXPECT_TRUE(bitwise_equal(outputs[1], contiguous(slice(x, 2, 2, 5))));
    expect_gradients("CausalConvWithState", {x, weight, bias, past}, {{"activation", word(activation)}}, 2, 27);
  }
  // Half by half is the whole, and without a past it begins with zeros.
  const std::vector<Tensor> whole = run("CausalConvWithState", {x, weight}, {}, 2, 27);
  const std::vector<Tensor> first = run("CausalConvWithState", {contiguous(slice(x, 2, 0, 2)), weight}, {}, 2, 27);
  const std::vector<Tensor> rest =
      run("CausalConvWithState", {contiguous(slice(x, 2, 2, 5)), weight, {}, first[1]}, {}, 2, 27);
  EXPECT_THAT(doubles(concat({first[0], rest[0]}, 2)), Pointwise(IsNear(1e-13), doubles(whole[0])));
  EXPECT_TRUE(bitwise_equal(rest[1], whole[1]));
}

/// The recurrence of one head of queries: S = e^g S, v = beta (v - S' k), S = S + k v', o = S' q / sqrt(dk).
struct Recurrent {
  std::size_t keys = 2, values = 3;
  std::vector<double> state = std::vector<double>(6, 0.0);
  std::vector<double> step(const double* q, const double* k, const double* v, const double* g, double beta,
                           bool delta) {
    std::vector<double> o(values, 0);
    std::vector<double> now(v, v + values);
    for (std::size_t i = 0; i < keys; ++i) {
      for (std::size_t j = 0; j < values; ++j) {
        state[i * values + j] *= g != nullptr ? std::exp(g[i]) : 1;
      }
    }
    for (std::size_t j = 0; delta && j < values; ++j) {
      for (std::size_t i = 0; i < keys; ++i) {
        now[j] -= state[i * values + j] * k[i];
      }
      now[j] *= beta;
    }
    for (std::size_t i = 0; i < keys; ++i) {
      for (std::size_t j = 0; j < values; ++j) {
        state[i * values + j] += k[i] * now[j];
        o[j] += state[i * values + j] * q[i] / std::sqrt(static_cast<double>(keys));
      }
    }
    return o;
  }
};

TEST(NewestOperators, LinearAttentionUpdatesItsState) {
  constexpr std::size_t kLength = 4;
  const Tensor q = random(1, {1, kLength, 4});  // two heads of queries share one of keys and values
  const Tensor k = random(2, {1, kLength, 2});
  const Tensor v = random(3, {1, kLength, 3});
  const Tensor decay = neg(abs(random(4, {1, kLength, 2})));
  const Tensor beta = sigmoid(random(5, {1, kLength, 1}));
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
    const std::string name = rule;
    const bool gated = name.starts_with("gated");
    const bool delta = name.ends_with("delta");
    const Attributes attributes{{"q_num_heads", number(2)}, {"kv_num_heads", number(1)}, {"update_rule", word(rule)}};
    std::vector<Tensor> inputs{q, k, v};
    if (gated || delta) {
      inputs.insert(inputs.end(), {Tensor(), gated ? decay : Tensor()});
    }
    if (delta) {
      inputs.push_back(beta);
    }
    const std::vector<Tensor> outputs = run("LinearAttention", inputs, attributes, 2, 27);
    std::vector<double> wanted(kLength * 6);
    Recurrent one;
    for (std::size_t head = 0; head < 2; ++head) {
      Recurrent recurrent;
      for (std::size_t t = 0; t < kLength; ++t) {
        const std::vector<double> queries = doubles(q);
        const std::vector<double> keys = doubles(k);
        const std::vector<double> values = doubles(v);
        const std::vector<double> gates = doubles(decay);
        const std::vector<double> o = recurrent.step(&queries[t * 4 + head * 2], &keys[t * 2], &values[t * 3],
                                                     gated ? &gates[t * 2] : nullptr, doubles(beta)[t], delta);
        std::copy(o.begin(), o.end(), wanted.begin() + static_cast<std::ptrdiff_t>(t * 6 + head * 3));
      }
      one = recurrent;
    }
    EXPECT_THAT(doubles(outputs[0]), Pointwise(IsNear(1e-12), wanted)) << rule;
    EXPECT_THAT(doubles(outputs[1]), Pointwise(IsNear(1e-12), one.state)) << rule;
    EXPECT_EQ(outputs[1].shape(), (Shape{1, 1, 2, 3}));
    expect_gradients("LinearAttention", inputs, attributes, 2, 27);
  }
}

TEST(NewestOperators, BitsOfAllIntegers) {
  const List a{0,
               1,
               -1,
               77,
               -77,
               0x1234567890abcdef,
               std::numeric_limits<std::int64_t>::min(),
               std::numeric_limits<std::int64_t>::max()};
  const List b{5, -1, 77, -128, 12345, -0x0fedcba987654321, std::numeric_limits<std::int64_t>::max(), 255};
  const auto expect = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> left;
    std::vector<T> right;
    for (std::size_t i = 0; i < a.size(); ++i) {
      left.push_back(static_cast<T>(a[i]));
      right.push_back(static_cast<T>(b[i]));
    }
    const Tensor x = Tensor::from(left, {static_cast<std::int64_t>(a.size())});
    const Tensor y = Tensor::from(right, {static_cast<std::int64_t>(b.size())});
    const auto results = [&](const char* op, std::vector<Tensor> inputs) {
      const Tensor result = run(op, inputs, {}, 1, 18)[0];
      EXPECT_EQ(result.dtype(), x.dtype());
      return result.template to_vector<T>();
    };
    std::vector<T> both_bits;
    std::vector<T> either;
    std::vector<T> one_bit;
    std::vector<T> others;
    for (std::size_t i = 0; i < a.size(); ++i) {
      both_bits.push_back(static_cast<T>(left[i] & right[i]));
      either.push_back(static_cast<T>(left[i] | right[i]));
      one_bit.push_back(static_cast<T>(left[i] ^ right[i]));
      others.push_back(static_cast<T>(~left[i]));
    }
    EXPECT_THAT(results("BitwiseAnd", {x, y}), ElementsAreArray(both_bits));
    EXPECT_THAT(results("BitwiseOr", {x, y}), ElementsAreArray(either));
    EXPECT_THAT(results("BitwiseXor", {x, y}), ElementsAreArray(one_bit));
    EXPECT_THAT(results("BitwiseNot", {x}), ElementsAreArray(others));
  };
  expect(std::int64_t{});
  expect(std::uint64_t{});
  expect(std::int32_t{});
  expect(std::uint32_t{});
  expect(std::int16_t{});
  expect(std::uint16_t{});
  expect(std::int8_t{});
  expect(std::uint8_t{});
  const Tensor column = Tensor::from(List{12, 10}, {2, 1});
  const Tensor row = Tensor::from(List{6, 3, 1}, {3});
  EXPECT_THAT(doubles(run("BitwiseAnd", {column, row}, {}, 1, 18)[0]), ElementsAre(4, 0, 0, 2, 2, 0));
}

TEST(NewestOperators, BitsAreElementsOfAnotherType) {
  const auto as = [](const Tensor& x, std::int64_t type) {
    const Shape& shape = x.shape();
    ImportedModel model = Builder(26)
                              .input("x", x.dtype(), {shape.begin(), shape.end()})
                              .node("BitCast", {"x"}, {"y"}, {{"to", number(type)}})
                              .output("y")
                              .imported();
    return both(model, {x})[0];
  };
  const std::vector<float> floats{1.5F, -0.0F, 3e-42F, -std::numeric_limits<float>::infinity()};
  const Tensor x = Tensor::from(floats, {2, 2});
  std::vector<std::int32_t> words;
  for (const float value : floats) {
    words.push_back(std::bit_cast<std::int32_t>(value));
  }
  const Tensor bits = as(x, 6);
  EXPECT_EQ(bits.type(), (TensorType{DType::int32, {2, 2}}));
  EXPECT_THAT(bits.to_vector<std::int32_t>(), ElementsAreArray(words));
  EXPECT_TRUE(bitwise_equal(as(bits, 1), x));
  EXPECT_EQ(as(Tensor::from({std::uint16_t{0x3f80}}, {1}), 16).item(), 1);  // bf16
  EXPECT_EQ(as(Tensor::from({std::uint16_t{0x3c00}}, {1}), 10).item(), 1);  // f16
  EXPECT_EQ(as(Tensor::from({std::uint64_t{0xffffffffffffffff}}, {1}), 7).item(), -1);
  EXPECT_THAT(refused_by_type(x, 7), HasSubstr("same size"));
  EXPECT_THAT(refused_by_type(Tensor::from({std::uint8_t{2}}, {1}), 9), HasSubstr("BitCast"));
}

TEST(NewestOperators, ProductsOfIntegersWrapAround) {
  const auto product = [](auto zero) {
    using T = decltype(zero);
    std::vector<T> a;
    std::vector<T> b;
    Rng rng(7);
    for (int i = 0; i < 2 * 3 * 5; ++i) {
      a.push_back(static_cast<T>(rng.next_u64()));
    }
    for (int i = 0; i < 5 * 4; ++i) {
      b.push_back(static_cast<T>(rng.next_u64()));
    }
    std::vector<T> wanted;
    for (std::size_t row = 0; row < 6; ++row) {
      for (std::size_t column = 0; column < 4; ++column) {
        std::uint64_t sum = 0;
        for (std::size_t k = 0; k < 5; ++k) {
          sum += static_cast<std::uint64_t>(a[row * 5 + k]) * static_cast<std::uint64_t>(b[k * 4 + column]);
        }
        wanted.push_back(static_cast<T>(sum));
      }
    }
    const Tensor x = Tensor::from(a, {2, 3, 5});
    const Tensor y = Tensor::from(b, {5, 4});
    ImportedModel model = Builder()
                              .input("a", x.dtype(), {2, 3, 5})
                              .input("b", y.dtype(), {5, 4})
                              .node("MatMul", {"a", "b"}, {"y"})
                              .output("y")
                              .imported();
    const Tensor result = both(model, {x, y})[0];
    EXPECT_EQ(result.type(), (TensorType{x.dtype(), {2, 3, 4}}));
    EXPECT_THAT(result.template to_vector<T>(), ElementsAreArray(wanted));
  };
  product(std::int32_t{});
  product(std::uint32_t{});
  product(std::int64_t{});
  product(std::uint64_t{});
  // Gemm takes them, too.
  ImportedModel gemm = Builder()
                           .input("a", DType::int32, {1, 2})
                           .input("b", DType::int32, {2, 1})
                           .input("c", DType::int32, {1})
                           .node("Gemm", {"a", "b", "c"}, {"y"})
                           .output("y")
                           .imported();
  const auto whole = [](std::int32_t a, std::int32_t b, Shape shape) { return Tensor::from({a, b}, shape); };
  EXPECT_THAT(doubles(both(gemm, {whole(3, -4, {1, 2}), whole(5, 6, {2, 1}), Tensor::from({7}, {1})})[0]),
              ElementsAre(-2));
}

TEST(NewestOperators, ColumnsAddUpToAnImage) {
  // The operator's own example: every element of a 5 x 5 image in one window of 1 x 5.
  const Tensor columns = random(1, {1, 5, 5});
  const Tensor image = Tensor::from(List{5, 5}, {2});
  const Tensor block = Tensor::from(List{1, 5}, {2});
  std::vector<double> wanted;
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t column = 0; column < 5; ++column) {
      wanted.push_back(doubles(columns)[column * 5 + row]);
    }
  }
  const Tensor y = run("Col2Im", {columns, image, block}, {}, 1, 18)[0];
  EXPECT_EQ(y.shape(), (Shape{1, 1, 5, 5}));
  EXPECT_THAT(doubles(y), ElementsAreArray(wanted));
  // It is the transpose of taking windows: <col2im(c), x> = <c, windows of x>.
  const List strides{2, 1};
  const List dilations{1, 2};
  const List pads{1, 0, 0, 2};
  const std::size_t height = 4;
  const std::size_t width = 5;
  const Tensor size = Tensor::from(List{4, 5}, {2});
  const Tensor kernel = Tensor::from(List{2, 3}, {2});
  const std::size_t down = (height + 1 - 2) / 2 + 1;
  const std::size_t across = (width + 2 - 5) + 1;
  const auto windows = static_cast<std::int64_t>(down * across);
  const Tensor c = random(2, {2, 2 * 6, windows});
  const Attributes attributes{{"strides", strides}, {"dilations", dilations}, {"pads", pads}};
  std::vector<double> sums(2 * 2 * height * width, 0);
  for (std::size_t i = 0; i < sums.size() / height / width; ++i) {
    for (std::size_t k = 0; k < 6; ++k) {
      for (std::size_t w = 0; w < down * across; ++w) {
        const auto row = static_cast<std::int64_t>(w / across * 2 + k / 3) - 1;
        const auto column = static_cast<std::int64_t>(w % across + k % 3 * 2);
        if (row >= 0 && row < 4 && column < 5) {
          sums[(i * height + static_cast<std::size_t>(row)) * width + static_cast<std::size_t>(column)] +=
              doubles(c)[(i * 6 + k) * down * across + w];
        }
      }
    }
  }
  EXPECT_THAT(doubles(run("Col2Im", {c, size, kernel}, attributes, 1, 18)[0]), Pointwise(IsNear(1e-12), sums));
  expect_gradients("Col2Im", {c, size, kernel}, attributes, 1, 18);
  // Three spatial axes.
  const Tensor cube = random(3, {1, 2 * 8, 1});
  const Tensor two = Tensor::from(List{2, 2, 2}, {3});
  EXPECT_THAT(doubles(run("Col2Im", {cube, two, two}, {}, 1, 18)[0]), ElementsAreArray(doubles(cube)));
}

/// x at a place between its elements, 0 outside.
double bilinear(const std::vector<double>& x, std::size_t first, std::int64_t height, std::int64_t width, double row,
                double column) {
  double sum = 0;
  for (std::int64_t i = 0; i < height; ++i) {
    for (std::int64_t k = 0; k < width; ++k) {
      const double share = std::max(0.0, 1 - std::fabs(row - static_cast<double>(i))) *
                           std::max(0.0, 1 - std::fabs(column - static_cast<double>(k)));
      sum += share * x.at(first + static_cast<std::size_t>(i * width + k));
    }
  }
  return sum;
}

TEST(NewestOperators, DeformableConvolutionsReadWhereTheirOffsetsSay) {
  // Two groups, two groups of offsets, strides, padding and dilation that differ.
  const Tensor x = random(1, {2, 4, 5, 6});
  const Tensor weight = random(2, {2, 2, 2, 3});
  const std::size_t height = 3;
  const std::size_t width = 4;
  const Tensor offsets = random(3, {2, 2 * 6 * 2, 3, 4});
  const Tensor bias = random(4, {2});
  const Tensor mask = random(5, {2, 2 * 6, 3, 4});
  const Attributes attributes{{"group", number(2)},
                              {"offset_group", number(2)},
                              {"strides", List{2, 1}},
                              {"pads", List{1, 0, 0, 2}},
                              {"dilations", List{1, 2}}};
  std::vector<double> wanted;
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t m = 0; m < 2; ++m) {
      for (std::size_t place = 0; place < height * width; ++place) {
        double sum = doubles(bias)[m];
        for (std::size_t c = 0; c < 2; ++c) {
          const std::size_t channel = m * 2 + c;
          const std::size_t part = channel / 2;
          for (std::size_t k = 0; k < 6; ++k) {
            const auto offset = [&](std::size_t side) {
              return doubles(offsets)[((n * 2 + part) * 12 + k * 2 + side) * height * width + place];
            };
            const double row = static_cast<double>(place / width * 2 + k / 3) - 1 + offset(0);
            const double column = static_cast<double>(place % width + k % 3 * 2) + offset(1);
            sum += doubles(weight)[(m * 2 + c) * 6 + k] *
                   doubles(mask)[((n * 2 + part) * 6 + k) * height * width + place] *
                   bilinear(doubles(x), (n * 4 + channel) * 30, 5, 6, row, column);
          }
        }
        wanted.push_back(sum);
      }
    }
  }
  const Tensor y = run("DeformConv", {x, weight, offsets, bias, mask}, attributes, 1, 19)[0];
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3, 4}));
  EXPECT_THAT(doubles(y), Pointwise(IsNear(1e-11), wanted));
  expect_gradients("DeformConv", {x, weight, offsets, bias, mask}, attributes, 1, 19);
  // Without offsets, bias and mask it is a convolution.
  const Tensor none = full({2, 2 * 2 * 2, 4, 5}, 0, DType::float64);
  const Tensor square = random(6, {3, 4, 2, 2});
  EXPECT_THAT(doubles(run("DeformConv", {x, square, none}, {}, 1, 19)[0]),
              Pointwise(IsNear(1e-12), doubles(conv2d(x, square))));
}

/// One axis resized with a filter that is stretched where it gets smaller [onnx/onnx, docs/Operators.md "Resize"].
std::vector<double> smoothed(const std::vector<double>& x, std::size_t to, bool cubic, bool only_inside) {
  const double scale = static_cast<double>(to) / static_cast<double>(x.size());
  const double stretch = std::min(scale, 1.0);
  std::vector<double> y;
  for (std::size_t i = 0; i < to; ++i) {
    const double place = (static_cast<double>(i) + 0.5) / scale - 0.5;
    double sum = 0;
    double total = 0;
    for (int k = -100; k < 100; ++k) {
      const double t = std::fabs(k - place) * stretch;
      const double a = -0.75;
      const double weight = !cubic  ? std::max(0.0, 1 - t)
                            : t < 1 ? (a + 2) * t * t * t - (a + 3) * t * t + 1
                            : t < 2 ? a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a
                                    : 0;
      const int inside = std::clamp(k, 0, static_cast<int>(x.size()) - 1);
      if (!only_inside || inside == k) {
        total += weight;
        sum += weight * x[static_cast<std::size_t>(inside)];
      }
    }
    y.push_back(sum / total);
  }
  return y;
}

TEST(NewestOperators, ResizeSmoothsWhatItMakesSmaller) {
  const Tensor x = random(1, {13});
  for (const std::size_t to : {4U, 6U, 13U, 20U}) {
    for (const char* mode : {"linear", "cubic"}) {
      for (const std::int64_t inside : {0, 1}) {
        const Attributes attributes{
            {"antialias", number(1)}, {"mode", word(mode)}, {"exclude_outside", number(inside)}};
        const Tensor sizes = Tensor::from(List{static_cast<std::int64_t>(to)}, {1});
        EXPECT_THAT(doubles(run("Resize", {x, {}, {}, sizes}, attributes, 1, 19)[0]),
                    Pointwise(IsNear(1e-12), smoothed(doubles(x), to, mode == std::string("cubic"), inside != 0)))
            << mode << " " << to << " " << inside;
      }
    }
  }
  const Tensor sizes = Tensor::from(List{3, 4}, {2});
  expect_gradients("Resize", {random(2, {7, 9}), {}, {}, sizes}, {{"antialias", number(1)}, {"mode", word("cubic")}}, 1,
                   19);
}

TEST(NewestOperators, InverseTransformsOfHalfASpectrumAreReal) {
  for (const std::int64_t n : {6, 7, 1}) {
    // A spectrum with imaginary parts where they don't count: as NumPy's irfft, their place is taken as real.
    const std::int64_t bins = n / 2 + 1;
    const Tensor spectrum = random(static_cast<std::uint64_t>(n), {2, bins, 2});
    std::vector<double> wanted;
    for (std::size_t row = 0; row < 2; ++row) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < n; ++k) {
          const std::int64_t bin = std::min(k, n - k);  // the conjugate, from the middle on
          const auto place = (row * static_cast<std::size_t>(bins) + static_cast<std::size_t>(bin)) * 2;
          const double re = element_at(doubles(spectrum), place);
          const bool is_own = bin == 0 || 2 * bin == n;
          const double im = is_own ? 0 : (k == bin ? 1 : -1) * element_at(doubles(spectrum), place + 1);
          const double angle = 2 * std::numbers::pi * static_cast<double>(j * k) / static_cast<double>(n);
          sum += (re * std::cos(angle) - im * std::sin(angle)) / static_cast<double>(n);
        }
        wanted.push_back(sum);
      }
    }
    const Attributes attributes{{"inverse", number(1)}, {"onesided", number(1)}};
    const Tensor length = Tensor::scalar(n);
    const Tensor axis = Tensor::scalar(std::int64_t{1});
    const Tensor y = run("DFT", {spectrum, length, axis}, attributes, 1, 20)[0];
    EXPECT_EQ(y.shape(), (Shape{2, n, 1}));
    EXPECT_THAT(doubles(y), Pointwise(IsNear(1e-12), wanted)) << n;
    expect_gradients("DFT", {spectrum, length, axis}, attributes, 1, 20);
  }
  // There and back, with the length that an even signal has by default.
  const Tensor x = random(9, {1, 8, 1});
  ImportedModel model = Builder(17)
                            .input("x", DType::float64, {1, 8, 1})
                            .node("DFT", {"x"}, {"s"}, {{"onesided", number(1)}})
                            .node("DFT", {"s"}, {"y"}, {{"onesided", number(1)}, {"inverse", number(1)}})
                            .output("y")
                            .imported();
  EXPECT_THAT(doubles(both(model, {x})[0]), Pointwise(IsNear(1e-13), doubles(x)));
}

TEST(NewestOperators, BatchNormalizationTrainsInEveryOpset) {
  const Tensor x = random(1, {3, 2, 4});
  const Tensor scale = random(2, {2});
  const Tensor shift = random(3, {2});
  const Tensor mean = random(4, {2});
  const Tensor variance = abs(random(5, {2}));
  const double momentum = 0.75;
  std::vector<double> batch_mean(2, 0);
  std::vector<double> batch_variance(2, 0);
  const auto channel_of = [](std::size_t i) { return i / 4 % 2; };
  for (std::size_t i = 0; i < 24; ++i) {
    batch_mean[channel_of(i)] += doubles(x)[i] / 12;
  }
  for (std::size_t i = 0; i < 24; ++i) {
    batch_variance[channel_of(i)] += std::pow(doubles(x)[i] - batch_mean[channel_of(i)], 2) / 12;
  }
  std::vector<double> y;
  for (std::size_t i = 0; i < 24; ++i) {
    const std::size_t c = channel_of(i);
    y.push_back((doubles(x)[i] - batch_mean[c]) / std::sqrt(batch_variance[c] + 0.5) * doubles(scale)[c] +
                doubles(shift)[c]);
  }
  const auto moved = [&](const Tensor& running, const std::vector<double>& now) {
    std::vector<double> result;
    for (std::size_t c = 0; c < 2; ++c) {
      result.push_back(doubles(running)[c] * momentum + now[c] * (1 - momentum));
    }
    return result;
  };
  const std::vector<Tensor> inputs{x, scale, shift, mean, variance};
  for (const std::int64_t opset : {6, 7, 9, 13, 14, 15}) {
    Attributes attributes{{"epsilon", 0.5}, {"momentum", momentum}};
    if (opset >= 14) {
      attributes["training_mode"] = number(1);
    }
    const int outputs = opset >= 14 ? 3 : 5;
    const std::vector<Tensor> results = run("BatchNormalization", inputs, attributes, outputs, opset);
    EXPECT_THAT(doubles(results[0]), Pointwise(IsNear(1e-12), y)) << opset;
    EXPECT_THAT(doubles(results[1]), Pointwise(IsNear(1e-12), moved(mean, batch_mean))) << opset;
    EXPECT_THAT(doubles(results[2]), Pointwise(IsNear(1e-12), moved(variance, batch_variance))) << opset;
    if (outputs == 5) {
      EXPECT_THAT(doubles(results[3]), Pointwise(IsNear(1e-12), batch_mean)) << opset;
      EXPECT_THAT(doubles(results[4]), Pointwise(IsNear(1e-12), batch_variance)) << opset;
    }
    expect_gradients("BatchNormalization", inputs, attributes, outputs, opset);
  }
}

}  // namespace
}  // namespace diptych::onnx
