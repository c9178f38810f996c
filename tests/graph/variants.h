#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/passes/pass.h"
#include "tests/support/message_of.h"

/// The ways to run a program as a graph; all have to give eager's bits.
namespace diptych::testing {

struct Variant {
  std::string name;
  passes::PipelineOptions pipeline;
};

/// The pipeline, which fuses small tensors, too.
inline passes::PipelineOptions fusing_all() {
  passes::PipelineOptions options;
  options.least_fused_bytes = 0;
  return options;
}

/// The captured graph as it is, the whole pipeline, each pass alone, the first passes of the pipeline, and the pipeline
/// without each of its steps; small tensors fused.
inline std::vector<Variant> pipeline_variants() {
  std::vector<Variant> variants{{"replay", passes::PipelineOptions::none()}, {"full", {}}, {"fused", fusing_all()}};
  passes::PipelineOptions first = passes::PipelineOptions::none();
  first.least_fused_bytes = 0;
  for (const passes::Pass& pass : passes::pipeline()) {
    passes::PipelineOptions alone = passes::PipelineOptions::none();
    alone.least_fused_bytes = 0;
    alone.disabled.erase(pass.name);
    variants.push_back({std::string("only ") + pass.name, alone});
    first.disabled.erase(pass.name);
    variants.push_back({std::string("up to ") + pass.name, first});
  }
  for (const std::string& step : passes::PipelineOptions::none().disabled) {
    passes::PipelineOptions without = fusing_all();
    without.disabled.insert(step);
    variants.push_back({"without " + step, without});
  }
  return variants;
}

inline Tensor f32(std::initializer_list<float> values, const Shape& shape) { return Tensor::from(values, shape); }
inline Tensor i64(std::initializer_list<std::int64_t> values, const Shape& shape) {
  return Tensor::from(values, shape);
}

/// Conditions of control flow.
inline Tensor above(const Tensor& x, double number) { return greater(x, full_like(x, number)); }
inline Tensor below(const Tensor& x, double number) { return less(x, full_like(x, number)); }

/// first, first + step, ...
inline Tensor ramp(const Shape& shape, float first = 1, float step = 1) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.product(); ++i) {
    values.push_back(first + step * static_cast<float>(i));
  }
  return Tensor::from(values, shape);
}

/// Values without structure, in (-1, 1).
inline Tensor wave(const Shape& shape, float phase) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.product(); ++i) {
    values.push_back(std::sin(phase + 1.7F * static_cast<float>(i)));
  }
  return Tensor::from(values, shape);
}

inline void expect_same_bits(const Tensor& actual, const Tensor& expected, const std::string& what) {
  EXPECT_TRUE(bitwise_equal(actual, expected))
      << what << ": got " << to_string(actual) << ", expected " << to_string(expected);
}

inline void expect_same_bits(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected,
                             const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    expect_same_bits(actual[i], expected[i], what + ", tensor " + std::to_string(i));
  }
}

}  // namespace diptych::testing
