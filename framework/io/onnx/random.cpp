// Random numbers: those of the engine's generator, so that a model gives the same ones in each run, in both modes and
// on every machine. Those of other implementations are others.

#include "framework/ops/random.h"

#include <bit>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/softmax.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// A node's own type, or `otherwise`.
DType drawn_type(NodeView& node, DType otherwise) {
  const std::int64_t code = node.integer("dtype", code_of(otherwise));
  const auto dtype = dtype_of_code(code);
  if (!dtype) {
    node.refuse(fmt::format("the engine has no {} tensors", name_of_type(code)));
  }
  return *dtype;
}

/// uniform() from `first` to `second`, or normal() with that mean and deviation.
struct Distribution {
  bool is_normal = false;
  double first = 0;
  double second = 1;

  Distribution(NodeView& node, bool normal)
      : is_normal(normal),
        first(node.real(normal ? "mean" : "low", 0)),
        second(node.real(normal ? "scale" : "high", 1)) {}

  Tensor draw(const Shape& shape, DType dtype, const Generator& generator, Location where) const {
    if (!is_floating(dtype)) {
      throw DTypeError(fmt::format("random numbers in {}", name_of(dtype)));
    }
    const DType computed = compute_type(dtype);
    const Tensor y = is_normal ? normal(shape, first, second, computed, generator, where)
                               : uniform(shape, first, second, computed, generator, where);
    return cast(y, dtype, where);
  }
};

Translation drawing(Run run) {
  Translation result{[run = std::move(run)](Inputs in, Outputs out, Location where) {
    run(in, out, where);
    out[0].drawn = true;
  }};
  result.draws = true;
  return result;
}

template <bool is_normal>
Translation random_of_shape(NodeView& node) {
  const Distribution distribution(node, is_normal);
  const DType dtype = drawn_type(node, DType::float32);
  const auto lengths = node.integers("shape").value_or(std::vector<std::int64_t>());
  const Generator generator = generator_of(node);
  node.check_inputs(0, 0);
  return drawing([=](Inputs /*in*/, Outputs out, Location where) {
    out[0].tensor = distribution.draw(checked_shape(lengths, dtype), dtype, generator, where);
  });
}

template <bool is_normal>
Translation random_like(NodeView& node) {
  const Distribution distribution(node, is_normal);
  const bool says_type = node.has("dtype");
  const DType dtype = drawn_type(node, DType::float32);
  const Generator generator = generator_of(node);
  node.check_inputs(1, 1);
  return drawing([=](Inputs in, Outputs out, Location where) {
    const Tensor& like = in[0].tensor;
    out[0].tensor = distribution.draw(like.shape(), says_type ? dtype : like.dtype(), generator, where);
  });
}

/// 1 with the probability that stands at its place, else 0.
Translation coin_tosses(NodeView& node) {
  const bool says_type = node.has("dtype");
  const DType dtype = drawn_type(node, DType::float32);
  const Generator generator = generator_of(node);
  node.check_inputs(1, 1);
  return drawing([=](Inputs in, Outputs out, Location where) {
    const Tensor& p = in[0].tensor;
    const Tensor y = bernoulli(cast(p, compute_type(p.dtype()), where), generator, where);
    out[0].tensor = cast(y, says_type ? dtype : p.dtype(), where);
  });
}

/// Logarithms x[batch, classes] of what is no probability yet -> classes[batch, samples]: the first one up to which the
/// probabilities add up to more than a number from 0 to 1.
Translation class_samples(NodeView& node) {
  const std::int64_t samples = node.integer("sample_size", 1);
  const DType dtype = drawn_type(node, DType::int32);
  const Generator generator = generator_of(node);
  if (samples < 1 || (dtype != DType::int32 && dtype != DType::int64)) {
    node.malformed("its sample_size is below 1, or its dtype neither i32 nor i64");
  }
  node.check_inputs(1, 1);
  return drawing([=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    if (x.rank() != 2 || x.shape()[1] < 1) {
      throw ShapeError(fmt::format("{} has no classes", to_string(x.type())));
    }
    checked_shape(std::vector{x.shape()[0], samples, x.shape()[1]}, DType::int64);
    const Tensor up_to = cumsum(softmax(cast(x, DType::float64, where), 1, where), 1, false, false, where);
    const Tensor numbers = uniform({x.shape()[0], samples}, 0, 1, DType::float64, generator, where);
    const Tensor is_behind = less_equal(unsqueeze(up_to, 1, where), unsqueeze(numbers, 2, where), where);
    const Tensor place = sum(is_behind, {2}, false, where);
    const Tensor last = scalar_like(place, static_cast<double>(x.shape()[1] - 1), where);
    out[0].tensor = cast(minimum(place, last, where), dtype, where);
  });
}

}  // namespace

Generator generator_of(NodeView& node) {
  if (node.has("seed")) {
    const bool is_whole = node.op() == "Dropout";
    return Generator(is_whole ? static_cast<std::uint64_t>(node.integer("seed", 0))
                              : std::bit_cast<std::uint64_t>(node.real("seed", 0)));
  }
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char letter : node.first_output()) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  return Generator(hash);
}

void add_random(std::vector<Operator>& all) {
  constexpr const char* kLimits = "the engine's own numbers";
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&)) {
    all.push_back({name, first, kNewestOpset, translate, kLimits});
  };
  op("Bernoulli", 15, coin_tosses);
  op("Multinomial", 7, class_samples);
  op("RandomNormal", 1, random_of_shape<true>);
  op("RandomNormalLike", 1, random_like<true>);
  op("RandomUniform", 1, random_of_shape<false>);
  op("RandomUniformLike", 1, random_like<false>);
}

}  // namespace diptych::onnx
