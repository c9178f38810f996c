// The exponents of pow that have a form of their own: one result for each element, wherever the exponent comes from and
// whatever runs it. That the results are right is in tests/core/scalar_math_test.cpp.

#include "framework/math/power.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "framework/graph/ir.h"
#include "tests/graph/variants.h"
#include "tests/support/with_isa.h"

namespace diptych {
namespace {

using diptych::testing::for_each_isa;
using diptych::testing::fusing_all;

constexpr double kExponents[] = {2, 3, 4, 0.5, -0.5, -1, 1, 0, -0.0, -2, -1.5, 2.5, -3};

/// Numbers of every size and sign, and everything special.
Tensor bases(DType dtype, const Shape& shape) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {0.0,   -0.0,   kInf,   -kInf,  NAN,    1,       -1,     2,     -2,    0.1,
                                       1e-45, -1e-45, 1e-40,  1e-320, 1e38,   -1e38,   1e-13,  3e12,  1e150, 1e-308,
                                       7,     -7,     1e-103, 1.5,    1e-206, 1.7e308, 1e-300, 1e200, 255,   65537};
  Rng rng(11);
  const std::vector<double> ordinary = rng.normal(shape, 0, 1, DType::float64).to_vector<double>();
  std::vector<double> values(ordinary.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 3 == 0 ? special[i / 3 % special.size()] : ordinary[i] * (i % 3 == 1 ? 5 : 1);
  }
  return cast(Tensor::from(values, shape), dtype);
}

/// Element by element, as the scalar function has it; bf16 by way of f32.
Tensor by_element(const Tensor& base, double exponent) {
  Tensor result = copy(base);
  visit(base.dtype(), [&]<class T>() {
    T* const values = static_cast<T*>(result.body()->data);
    for (std::int64_t i = 0; i < result.numel(); ++i) {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        values[i] = math::pow(values[i], static_cast<T>(exponent));
      } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        values[i] = math::integer_pow(values[i], static_cast<T>(exponent));
      } else if constexpr (std::is_same_v<T, bfloat16>) {
        values[i] = bfloat16(math::pow(static_cast<float>(values[i]), static_cast<float>(exponent)));
      }
    }
  });
  return result;
}

/// A way to give an exponent to each element of `x`.
struct Source {
  const char* name;
  Tensor (*power)(const Tensor& x, double exponent);
};
const Source kSources[] = {
    {"a number", [](const Tensor& x, double exponent) { return pow(x, exponent); }},
    {"a tensor", [](const Tensor& x, double exponent) { return pow(x, full({}, exponent, x.dtype())); }},
    {"one element", [](const Tensor& x, double exponent) { return pow(x, full({1}, exponent, x.dtype())); }},
    {"as many axes",
     [](const Tensor& x, double exponent) {
       Shape ones;
       for (int i = 0; i < x.rank(); ++i) {
         ones.push_back(1);
       }
       return pow(x, full(ones, exponent, x.dtype()));
     }},
    {"expanded",
     [](const Tensor& x, double exponent) { return pow(x, expand(full({}, exponent, x.dtype()), x.shape())); }},
    {"every element", [](const Tensor& x, double exponent) { return pow(x, full(x.shape(), exponent, x.dtype())); }},
    {"between others",
     [](const Tensor& x, double exponent) {
       const Tensor all = stack({x, x, x}, 0);
       const Tensor exponents = stack({full(x.shape(), 1.7, x.dtype()), full(x.shape(), exponent, x.dtype()),
                                       full(x.shape(), is_floating(x.dtype()) ? 0.3 : 5, x.dtype())},
                                      -1);
       return select(pow(permute(all, {1, 2, 0}), exponents), -1, 1);
     }},
    {"transposed",
     [](const Tensor& x, double exponent) { return transpose(pow(transpose(x), full({}, exponent, x.dtype()))); }}};

const DType kTypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::int32, DType::int64, DType::uint8};

bool has_meaning(DType dtype, double exponent) {
  return is_floating(dtype) || (exponent == std::floor(exponent) && (is_signed_integral(dtype) || exponent >= 0));
}

TEST(PowerForms, AreTheSameFromEverySourceInBothModes) {
  for (const DType dtype : kTypes) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{40, 33}}) {
      const Tensor x = bases(dtype, shape);
      for (const double exponent : kExponents) {
        if (!has_meaning(dtype, exponent)) {
          continue;
        }
        const Tensor expected = by_element(x, exponent);
        for (const Source& source : kSources) {
          const auto power = [&](const Tensor& t) { return source.power(t, exponent); };
          const std::string what = fmt::format("{} ^ {} from {}", to_string(x.type()), exponent, source.name);
          EXPECT_TRUE(bitwise_equal(power(x), expected)) << what << ", eager";
          for (const bool fused : {false, true}) {
            graph::JitOptions options;
            options.pipeline = fused ? fusing_all() : passes::PipelineOptions::none();
            auto compiled = jit(power, options);
            EXPECT_TRUE(bitwise_equal(compiled(x), expected)) << what << (fused ? ", all passes" : ", no pass");
            // Among other ops, in one kernel.
            const auto chain = [&](const Tensor& t) { return neg(maximum(power(neg(t)), t)); };
            auto joined = jit(chain, options);
            EXPECT_TRUE(bitwise_equal(joined(x), chain(x))) << what << " in a chain";
          }
        }
      }
    }
  }
}

TEST(PowerForms, AnExponentThatOnlyTheCallKnows) {
  auto compiled = jit([](const Tensor& x, const Tensor& exponent) { return pow(x * 1.0, exponent) - 1.0; },
                      {.pipeline = fusing_all()});
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor x = bases(dtype, {21, 30});
    for (const double exponent : kExponents) {
      EXPECT_TRUE(bitwise_equal(compiled(x, full({1}, exponent, dtype)), by_element(x, exponent) - 1.0)) << exponent;
    }
  }
}

TEST(PowerForms, EveryInstructionSetGivesTheSame) {
  for (const DType dtype : kTypes) {
    const Tensor x = bases(dtype, {9, 31});
    for (const double exponent : kExponents) {
      if (!has_meaning(dtype, exponent)) {
        continue;
      }
      const Tensor expected = by_element(x, exponent);
      for_each_isa([&](Isa isa) {
        for (const Source& source : kSources) {
          EXPECT_TRUE(bitwise_equal(source.power(x, exponent), expected))
              << to_string(x.type()) << " ^ " << exponent << " from " << source.name << ", "
              << kIsaNames[static_cast<std::size_t>(isa)];
        }
      });
    }
  }
}

// As a graph places it: exponents of all kinds, the result where the bases or the exponents were.
TEST(PowerForms, MayBeWrittenOverEitherOperand) {
  constexpr std::int64_t kCount = 1300;
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor x = bases(dtype, {kCount});
    const Tensor exponents = cast(Rng(8).integers({kCount}, -4, 9), dtype) * 0.5;
    const Tensor expected = pow(x, exponents);
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    const std::int64_t strides[] = {size, size, size};
    const TensorType* const types[] = {&x.type(), &x.type()};
    for (const int place : {0, 1}) {
      const Tensor operands[] = {copy(x), copy(exponents)};
      void* const data[] = {operands[0].body()->data, operands[1].body()->data, operands[place].body()->data};
      find_op("pow")->loop(types, x.type())(kCount, data, strides, nullptr);
      EXPECT_TRUE(bitwise_equal(operands[place], expected)) << name_of(dtype) << " over input " << place;
    }
  }
}

// n x^(n - 1), in float64 and by the C library.
TEST(PowerForms, HaveTheirGradientsInBothModes) {
  const Tensor x = Rng(3).uniform({5, 13}, 0.25, 4, DType::float64);
  const std::vector<double> at = x.to_vector<double>();
  for (const double exponent : kExponents) {
    for (const Source& source : kSources) {
      const auto total = [&](const Tensor& t) { return sum(source.power(t, exponent)); };
      const Tensor eager = grad(total)(x);
      const std::vector<double> slopes = eager.to_vector<double>();
      for (std::size_t i = 0; i < at.size(); ++i) {
        const double slope = exponent * std::pow(at[i], exponent - 1);
        EXPECT_NEAR(slopes[i], slope, 1e-15 * std::fabs(slope)) << at[i] << " ^ " << exponent << ", " << source.name;
      }
      auto compiled = jit([&](const Tensor& t) { return grad(total)(t); }, {.pipeline = fusing_all()});
      EXPECT_TRUE(bitwise_equal(compiled(x), eager)) << exponent << " from " << source.name;
    }
  }
}

/// A loop with one operand fixed against the loop over an operand that is filled with it, of every op with two inputs.
TEST(FixedOperands, GiveTheBitsOfFilledOnes) {
  constexpr std::int64_t kCount = 700;  // more than a block
  for (const OpDef* op : registry()) {
    if (op->inputs != 2 || op->kind != OpKind::elementwise || op->select_loop != nullptr || op->loop_input != 0) {
      continue;
    }
    const Sample sample = op->samples().front();
    for (const DType dtype : kTypes) {
      for_each_isa([&](Isa isa) {
        const LoopFn loop = op->loops[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(isa)];
        const TensorType one{dtype, {kCount}};
        const TensorType* const types[] = {&one, &one};
        if (loop == nullptr) {
          return;
        }
        TensorType result;
        try {
          op->infer_type({*op, types, sample.attributes.get(), {}}, result);
        } catch (const DTypeError&) {  // a loop that never runs
          return;
        }
        const Tensor x = cast(Rng(5).uniform({kCount}, -4, 4, DType::float64), dtype);
        const auto size = static_cast<std::int64_t>(size_of(dtype));
        for (const double value : {3.0, 2.0, -1.5, 1.0}) {
          const Tensor number = full({1}, is_floating(dtype) || is_signed_integral(dtype) ? value : 3, dtype);
          const Tensor filled = full({kCount}, number.item(), dtype);
          const Tensor divisor = cast(Rng(6).uniform({kCount}, 1, 4, DType::float64), dtype);  // not 0
          for (const int fixed : {0, 1}) {
            const Tensor& other = fixed == 0 ? divisor : x;
            const auto run = [&](const Tensor& operand, std::int64_t stride) {
              const Tensor out = Tensor::empty(result.dtype, {kCount});
              void* data[] = {other.body()->data, other.body()->data, out.body()->data};
              std::int64_t strides[] = {size, size, static_cast<std::int64_t>(size_of(result.dtype))};
              data[fixed] = operand.body()->data;
              strides[fixed] = stride;
              loop(kCount, data, strides, sample.attributes.get());
              return out;
            };
            EXPECT_TRUE(bitwise_equal(run(number, 0), run(filled, size)))
                << op->name << " of " << name_of(dtype) << ", input " << fixed << " is " << number.item() << ", "
                << kIsaNames[static_cast<std::size_t>(isa)];
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace diptych
