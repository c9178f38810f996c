#include <bit>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"
#include "tests/support/with_gemm.h"

namespace diptych::passes {
namespace {

using diptych::testing::f32;
using diptych::testing::ramp;
using Function = std::function<Tensor(const Tensor&)>;

/// Zeros, infinities, quiet NaNs with sign and payload, subnormals, the ends of the range, and patterns all over it.
Tensor special_values() {
  std::vector<std::uint32_t> patterns{0x00000000U, 0x80000000U, 0x7F800000U, 0xFF800000U, 0x7FC00000U, 0xFFC00000U,
                                      0x7FC12345U, 0xFFFFFFFFU, 0x00000001U, 0x80000001U, 0x007FFFFFU, 0x807FFFFFU,
                                      0x00800000U, 0x80800000U, 0x7F7FFFFFU, 0xFF7FFFFFU, 0x3F800000U, 0xBF800000U,
                                      0x3F800001U, 0x3F7FFFFFU, 0x4B800001U, 0x00000003U, 0x7F000000U, 0x00FFFFFFU};
  for (std::uint32_t pattern = 0x1357; patterns.size() < 60000; pattern += 71557) {
    // A signalling NaN becomes quiet in the first operation on it, so it has no bits to keep.
    const bool signalling = (pattern & 0x7F800000U) == 0x7F800000U && (pattern & 0x00400000U) == 0;
    patterns.push_back(signalling ? pattern | 0x00400000U : pattern);
  }
  std::vector<float> values(patterns.size());
  std::memcpy(values.data(), patterns.data(), patterns.size() * sizeof(float));
  return Tensor::from(values, {static_cast<std::int64_t>(values.size() / 4), 4});
}

Tensor special_doubles() {
  std::vector<double> values;
  for (std::uint64_t pattern = 0x123456789ULL; values.size() < 20000; pattern += 0x000346DC5D638865ULL) {
    const bool signalling =
        (pattern & 0x7FF0000000000000ULL) == 0x7FF0000000000000ULL && (pattern & 0x0008000000000000ULL) == 0;
    values.push_back(std::bit_cast<double>(signalling ? pattern | 0x0008000000000000ULL : pattern));
  }
  for (double value : {0.0, -0.0, 5e-324, -5e-324, std::numeric_limits<double>::infinity(),
                       std::bit_cast<double>(0xFFF8000000012345ULL), 1.7976931348623157e308, 2.2250738585072011e-308}) {
    values.push_back(value);
  }
  return Tensor::from(values, {static_cast<std::int64_t>(values.size() / 4), 4});
}

struct Outcome {
  std::size_t nodes;
  bool exact;
};

/// Optimised against the same program as eager runs it.
Outcome optimise(const Function& fn, const Tensor& x) {
  auto function = jit(fn);
  const Tensor optimised = function(x);
  return {graph::count_nodes(*function.compiled()->graph()), bitwise_equal(optimised, fn(x))};
}

struct Rule {
  const char* name;
  Function program;
  std::size_t nodes;  ///< left after the pipeline
};

TEST(Simplify, EveryRuleKeepsAllBits) {
  const std::vector<Rule> rules{
      {"x * 1", [](const Tensor& x) { return x * 1; }, 0},
      {"1 * x", [](const Tensor& x) { return 1 * x; }, 0},
      {"x * ones", [](const Tensor& x) { return x * full_like(x, 1.0); }, 0},
      {"x * (2 - 1)", [](const Tensor& x) { return x * (full_like(x, 2.0, Shape{}) - 1); }, 0},
      {"x / 1", [](const Tensor& x) { return x / 1; }, 0},
      {"x - 0", [](const Tensor& x) { return x - 0; }, 0},
      {"x + -0", [](const Tensor& x) { return x + -0.0; }, 0},
      {"-0 + x", [](const Tensor& x) { return -0.0 + x; }, 0},
      {"x / 2", [](const Tensor& x) { return x / 2; }, 1},
      {"x / -4", [](const Tensor& x) { return x / -4; }, 1},
      {"x / 0.125", [](const Tensor& x) { return x / 0.125; }, 1},
      {"x / 2^90", [](const Tensor& x) { return x / std::ldexp(1.0, 90); }, 1},
      {"x / 2^-90", [](const Tensor& x) { return x / std::ldexp(1.0, -90); }, 1},
      {"x / 2 in every element", [](const Tensor& x) { return x / expand(full_like(x, 2.0, Shape{1}), x.shape()); }, 1},
      {"x * 2", [](const Tensor& x) { return x * 2; }, 1},
      {"x ^ 2", [](const Tensor& x) { return pow(x, full_like(x, 2.0, Shape{})); }, 1},
      {"x ^ 2 in every element", [](const Tensor& x) { return pow(x, full_like(x, 2.0)); }, 1},
      {"x ^ 1", [](const Tensor& x) { return pow(x, 1); }, 0},
      {"x ^ -1", [](const Tensor& x) { return pow(x, -1); }, 1},
      {"x ^ 0", [](const Tensor& x) { return pow(x, 0) + x; }, 2},
      {"(x ^ 2) ^ 1", [](const Tensor& x) { return pow(pow(x, full_like(x, 2.0, Shape{1})), 1); }, 1},
      {"where true", [](const Tensor& x) { return where(full(Shape{}, 1.0, DType::boolean), x, x + 1); }, 0},
      {"where false", [](const Tensor& x) { return where(full(Shape{}, 0.0, DType::boolean), x + 1, x); }, 0},
      {"neg neg", [](const Tensor& x) { return neg(neg(x)); }, 0},
      {"neg neg neg", [](const Tensor& x) { return neg(neg(neg(x))); }, 1},
      {"abs neg", [](const Tensor& x) { return abs(neg(x)); }, 1},
      {"abs abs", [](const Tensor& x) { return abs(abs(x)); }, 1},
      {"relu relu relu", [](const Tensor& x) { return relu(relu(relu(x))); }, 1},
      {"where x x", [](const Tensor& x) { return where(less(x, neg(x)), x, x); }, 0},
      {"maximum x x", [](const Tensor& x) { return maximum(x, x); }, 0},
      {"minimum x x", [](const Tensor& x) { return minimum(x, x); }, 0},
      {"copy", [](const Tensor& x) { return copy(x); }, 0},
      {"stop_gradient", [](const Tensor& x) { return stop_gradient(x); }, 0},
      {"reshape to its own shape", [](const Tensor& x) { return reshape(x, x.shape()); }, 0},
      {"reshape of reshape",
       [](const Tensor& x) {
         return reshape(reshape(x, {-1}), {2, -1});
       },
       1},
      {"permute of permute", [](const Tensor& x) { return transpose(transpose(x)); }, 0},
      {"slice of everything", [](const Tensor& x) { return slice(x, 1, 0, 4); }, 0},
      {"expand to its own shape", [](const Tensor& x) { return expand(x, x.shape()); }, 0}};
  for (const Tensor& x : {special_values(), special_doubles(), transpose(special_values())}) {
    for (const Rule& rule : rules) {
      if (x.shape()[0] == 4 && std::string(rule.name) == "slice of everything") {
        continue;
      }
      const Outcome outcome = optimise(rule.program, x);
      EXPECT_TRUE(outcome.exact) << rule.name << " on " << to_string(x.type());
      EXPECT_EQ(outcome.nodes, rule.nodes) << rule.name << " on " << to_string(x.type());
    }
  }
}

TEST(Simplify, WhatWouldChangeABitStays) {
  const std::vector<Rule> programs{{"x + 0", [](const Tensor& x) { return x + 0; }, 1},
                                   {"0 + x", [](const Tensor& x) { return 0 + x; }, 1},
                                   {"x - -0", [](const Tensor& x) { return x - -0.0; }, 1},
                                   {"0 - x", [](const Tensor& x) { return 0 - x; }, 1},
                                   {"x * 0", [](const Tensor& x) { return x * 0; }, 1},
                                   {"x * -1", [](const Tensor& x) { return x * -1; }, 1},
                                   {"x - x", [](const Tensor& x) { return x - x; }, 1},
                                   {"x / x", [](const Tensor& x) { return x / x; }, 1},
                                   {"1 / x", [](const Tensor& x) { return 1 / x; }, 1},
                                   {"x / 3", [](const Tensor& x) { return x / 3; }, 1},
                                   {"x / 0", [](const Tensor& x) { return x / 0; }, 1},
                                   {"x / 2^127", [](const Tensor& x) { return x / std::ldexp(1.0, 127); }, 1},
                                   {"x * (1 + epsilon)", [](const Tensor& x) { return x * 1.0000001192092896; }, 1},
                                   {"x + 1 - 1", [](const Tensor& x) { return x + 1 - 1; }, 2},
                                   {"x * 3 * 3", [](const Tensor& x) { return x * 3 * 3; }, 2},
                                   {"relu of neg", [](const Tensor& x) { return relu(neg(x)); }, 2},
                                   {"neg of abs", [](const Tensor& x) { return neg(abs(x)); }, 2},
                                   {"maximum x -x", [](const Tensor& x) { return maximum(x, neg(x)); }, 2},
                                   {"reciprocal twice", [](const Tensor& x) { return reciprocal(reciprocal(x)); }, 2},
                                   {"x ^ 3", [](const Tensor& x) { return pow(x, 3); }, 1},
                                   {"x ^ 0.5", [](const Tensor& x) { return pow(x, 0.5); }, 1},
                                   {"2 ^ x", [](const Tensor& x) { return pow(2, x); }, 1},
                                   {"sqrt of square", [](const Tensor& x) { return sqrt(square(x)); }, 2}};
  for (const Tensor& x : {special_values(), special_doubles()}) {
    for (const Rule& program : programs) {
      const Outcome outcome = optimise(program.program, x);
      EXPECT_TRUE(outcome.exact) << program.name << " on " << to_string(x.type());
      EXPECT_EQ(outcome.nodes, program.nodes) << program.name << " on " << to_string(x.type());
    }
  }
}

TEST(Simplify, TheBitsThatTheMissingRulesWouldLose) {
  // Formulas of their own, so that eager and graph can't be wrong together.
  auto plus_zero = jit([](const Tensor& x) { return x + 0; });
  EXPECT_FALSE(std::signbit(plus_zero(f32({-0.0F}, {1})).item()));
  auto minus_zero = jit([](const Tensor& x) { return x - 0; });
  EXPECT_TRUE(std::signbit(minus_zero(f32({-0.0F}, {1})).item()));
  auto times_zero = jit([](const Tensor& x) { return x * 0; });
  EXPECT_TRUE(std::signbit(times_zero(f32({-1.0F}, {1})).item()));
  EXPECT_TRUE(std::isnan(times_zero(f32({std::numeric_limits<float>::infinity()}, {1})).item()));
  auto half = jit([](const Tensor& x) { return x / 2; });
  EXPECT_EQ(half(f32({3e-45F}, {1})).item(), static_cast<double>(1e-45F));
}

TEST(Simplify, ARuleThatWouldChangeTheTypeDoesNotFire) {
  const Tensor row = f32({1, 2, 3}, {3});
  const std::vector<Function> programs{[](const Tensor& x) {
                                         return x * ones({2, 3});
                                       },
                                       [](const Tensor& x) {
                                         return x - zeros({2, 3});
                                       },
                                       [](const Tensor& x) {
                                         return x * full({2, 1}, 2.0);
                                       },
                                       [](const Tensor& x) {
                                         return x / full({2, 3}, 2.0);
                                       },
                                       [](const Tensor& x) {
                                         return where(full({2, 1}, 1.0, DType::boolean), x, x);
                                       },
                                       [](const Tensor& x) {
                                         return where(full({2, 1}, 1.0, DType::boolean), x, x + 1.0);
                                       },
                                       [](const Tensor& x) {
                                         return pow(x, full({2, 1}, 2.0));
                                       },
                                       [](const Tensor& x) {
                                         return pow(x, full({2, 3}, 1.0));
                                       },
                                       [](const Tensor& x) {
                                         return where(less(expand(x, {4, 3}), x), x, x);
                                       }};
  for (const Function& program : programs) {
    const Outcome outcome = optimise(program, row);
    EXPECT_TRUE(outcome.exact);
    EXPECT_GE(outcome.nodes, 1U);
  }
}

TEST(Simplify, IntegersFollowTheirOwnRules) {
  const Tensor x = Tensor::from<std::int32_t>(
      {0, 1, -1, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max(), 7}, {6});
  for (const Function& program : std::vector<Function>{
           [](const Tensor& t) { return t * 1; }, [](const Tensor& t) { return t * 2; },
           [](const Tensor& t) { return t - 0; }, [](const Tensor& t) { return t + -0.0; },
           [](const Tensor& t) { return t / 4; }, [](const Tensor& t) { return abs(neg(t)); },
           [](const Tensor& t) { return neg(neg(t)); }, [](const Tensor& t) { return relu(relu(t)); },
           [](const Tensor& t) { return pow(t, full_like(t, 2.0)); }, [](const Tensor& t) { return pow(t, 1); },
           [](const Tensor& t) { return pow(t, -1); }, [](const Tensor& t) { return pow(t, 0); }}) {
    EXPECT_TRUE(optimise(program, x).exact);
  }
}

TEST(Simplify, TheGradientOfASquareHasNoPower) {
  const Tensor x = special_values();
  for (const double exponent : {2.0, 3.0, 1.0}) {
    const auto program = [&](const Tensor& t) {
      return grad([&](const Tensor& u) { return sum(pow(u, full_like(u, exponent, Shape{}))); })(t);
    };
    auto function = jit(program);
    EXPECT_TRUE(bitwise_equal(function(x), program(x))) << exponent;
    const std::string text = graph::print(*function.compiled()->graph());
    EXPECT_EQ(text.find("= pow("), std::string::npos) << text;
    EXPECT_EQ(text.find("= where("), std::string::npos) << text;
  }
}

TEST(Simplify, TheDivisorOfSeveralDivisionsStaysForTheOthers) {
  const auto program = [](const Tensor& x) {
    const Tensor two = full_like(x, 2.0, Shape{});
    return std::vector<Tensor>{x / two, x + two, two / x, two};
  };
  auto function = jit(program);
  const Tensor x = ramp({5}, -2);
  diptych::testing::expect_same_bits(function(x), program(x), "division");
}

TEST(Simplify, ADivisorOfTheResultsShapeBecomesANumber) {
  const auto elements_of = [](const Function& program, const Tensor& x) {
    auto function = jit(program);
    EXPECT_TRUE(bitwise_equal(function(x), program(x)));
    const graph::Graph& graph = *function.compiled()->graph();
    EXPECT_EQ(graph.constants.size(), 1U);
    EXPECT_EQ(std::string_view(graph.nodes.back().op->name), "mul");
    return graph.constants.front().second.numel();
  };
  const Tensor x = ramp({3, 4}, -2);
  EXPECT_EQ(elements_of([](const Tensor& t) { return t / expand(full({}, 4.0), {3, 4}); }, x), 1);
  EXPECT_EQ(elements_of([](const Tensor& t) { return t / full({4}, 4.0); }, x), 1);
  EXPECT_EQ(elements_of(
                [](const Tensor& t) {
                  return t / full({3, 4}, 4.0);
                },
                ramp({4}, -2)),
            12)
      << "the result has the divisor's shape";
}

TEST(Simplify, WhatFeedsAMatrixProductKeepsItsLayoutForOpenBlas) {
  const std::vector<Function> programs{
      [](const Tensor& x) { return matmul(copy(transpose(x)), x); },
      [](const Tensor& x) { return matmul(transpose(x) * 1, x); },
      [](const Tensor& x) { return matmul(transpose(copy(transpose(x))), transpose(x)); },
      [](const Tensor& x) { return matmul(slice(neg(neg(transpose(x))), 0, 0, 3), x); },
      [](const Tensor& x) {
        return matmul(reshape(stop_gradient(transpose(x)), {-1, 37}), x);
      },
      [](const Tensor& x) { return matmul(transpose(transpose(x)), transpose(x)); }};
  const Tensor x = diptych::testing::wave({37, 53}, 1);
  for (const kernels::Gemm gemm : {kernels::Gemm::tiles, kernels::Gemm::openblas}) {
    const diptych::testing::WithGemm chosen(gemm);
    for (std::size_t i = 0; i < programs.size(); ++i) {
      EXPECT_TRUE(optimise(programs[i], x).exact) << "program " << i;
    }
    // The copy fixes the strides that the product sees: redundant where its bits don't depend on them.
    EXPECT_EQ(optimise(programs[0], x).nodes, gemm == kernels::Gemm::openblas ? 3U : 2U);
  }
  EXPECT_EQ(optimise([](const Tensor& t) { return exp(copy(transpose(t))); }, x).nodes, 2U);
}

/// The types of what the products of fn's graph make.
std::vector<std::string> products(const Function& fn, const Tensor& x) {
  auto function = jit(fn);
  EXPECT_TRUE(bitwise_equal(function(x), fn(x)));
  std::vector<std::string> types;
  for (const graph::Node& node : function.compiled()->graph()->nodes) {
    if (std::string_view(node.op->name) == "matmul") {
      types.push_back(to_string(function.compiled()->graph()->types[node.output()]));
    }
  }
  return types;
}

TEST(Simplify, AProductWithOneNumberIsOneRowOrColumn) {
  using ::testing::ElementsAre;
  const Tensor special = special_values();  // [15000, 4]
  for (const double number : {1.0, -0.0, 0.3, HUGE_VAL, std::nan("")}) {
    SCOPED_TRACE(number);
    EXPECT_THAT(products(
                    [=](const Tensor& x) {
                      return matmul(x, full({4, 7}, number));
                    },
                    special),
                ElementsAre("f32[15000,1]"));
    EXPECT_THAT(products(
                    [=](const Tensor& x) {
                      return matmul(full({3, 15000}, number), x);
                    },
                    special),
                ElementsAre("f32[1,4]"));
    EXPECT_THAT(products(
                    [=](const Tensor& x) {
                      return matmul(transpose(full({15000, 3}, number)), x);
                    },
                    special),
                ElementsAre("f32[1,4]"));
  }
  const Tensor x = ramp({2, 3, 5});
  EXPECT_THAT(products([](const Tensor& y) { return matmul(full({2, 4, 3}, 0.3), y); }, x), ElementsAre("f32[2,1,5]"));
  EXPECT_THAT(products([](const Tensor& y) { return matmul(full({4, 3}, 0.3), y); }, x), ElementsAre("f32[2,1,5]"));
  EXPECT_THAT(products(
                  [](const Tensor& y) {
                    return matmul(full({2, 4, 5}, 0.3), transpose(select(y, 0, 0)));
                  },
                  x),
              ElementsAre("f32[1,1,3]"));
  EXPECT_THAT(products(
                  [](const Tensor& y) {
                    return matmul(full({1, 3}, 0.3), y);
                  },
                  x),
              ElementsAre("f32[2,1,5]"))
      << "one row to begin with";
  // The gradient of a sum.
  EXPECT_THAT(products(grad([](const Tensor& y) {
                         return sum(matmul(y, ramp({5, 4})));
                       }),
                       x),
              ElementsAre("f32[1,1,5]"));
  const diptych::testing::WithGemm blas(kernels::Gemm::openblas);
  EXPECT_THAT(products([](const Tensor& y) { return matmul(full({4, 3}, 0.3), y); }, x), ElementsAre("f32[2,4,5]"));
}

TEST(Simplify, AReshapeOfOneThatOthersReadStays) {
  auto function = jit([](const Tensor& x) {  // a copy for both; past the first one there would be two
    const Tensor row = reshape(transpose(x), {-1});
    return std::vector<Tensor>{exp(row), exp(reshape(row, {2, -1}))};
  });
  function(ramp({4, 6}));
  const auto& nodes = function.compiled()->graph()->nodes;
  ASSERT_EQ(nodes.size(), 5U);
  EXPECT_EQ(nodes[3].inputs, std::vector<graph::ValueId>{nodes[1].output()});
}

TEST(Simplify, TheSurvivorStandsForWhatItReplaced) {
  auto function = jit([](const Tensor& x) { return relu(relu(exp(x) * 1)); });
  function(ramp({3}));
  const auto& nodes = function.compiled()->graph()->nodes;
  ASSERT_EQ(nodes.size(), 2U);
  // Source ops: 0 exp, 1 full, 2 mul, 3 relu, 4 relu.
  EXPECT_THAT(nodes[0].provenance.source_ops, ::testing::ElementsAre(0, 2));
  EXPECT_THAT(nodes[1].provenance.source_ops, ::testing::ElementsAre(3, 4));
}

}  // namespace
}  // namespace diptych::passes
