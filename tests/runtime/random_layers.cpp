#include "tests/runtime/random_layers.h"

#include <algorithm>
#include <limits>

#include "framework/dispatch/op.h"
#include "framework/kernels/reduction.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/shape_ops.h"

namespace diptych::testing {
namespace {

/// Each state by the same ops, as an optimizer's step does.
void append_updates(Program& program, std::size_t values) {
  const std::vector<const OpDef*> ops = ops_named({"tanh", "mul", "sub"});
  for (std::size_t state = 0; state < program.states.size(); ++state) {
    if (!is_real(program.states[state].dtype())) {
      continue;
    }
    Step step;
    step.variable = state;
    step.kind = Step::Kind::read;
    program.steps.push_back(step);
    const std::size_t before = values++;
    step.kind = Step::Kind::op;
    for (const OpDef* op : ops) {
      step.op = op;
      step.attributes = AttributeValue(op->attributes, nullptr);
      step.inputs = {before};
      if (op->inputs == 2) {
        step.inputs.push_back(values - 1);
      }
      program.steps.push_back(step);
      ++values;
    }
    step = Step();
    step.variable = state;
    step.kind = Step::Kind::assign;
    step.inputs = {values - 1};
    program.steps.push_back(step);
  }
}

/// Adds steps behind those of a program that gives so many values.
class Appender {
 public:
  Appender(Program& program, std::size_t values) : program_(program), values_(values) {}

  std::size_t op(const char* name, std::vector<std::size_t> inputs) {
    const AttributeType* const type = ops_named({name})[0]->attributes;
    return op(name, std::move(inputs), AttributeValue(type, nullptr));
  }
  template <class A>
  std::size_t op(const char* name, std::vector<std::size_t> inputs, const A& attributes) {
    return op(name, std::move(inputs), AttributeValue(&attribute_type<A>, &attributes));
  }
  std::size_t op(const char* name, std::vector<std::size_t> inputs, AttributeValue attributes) {
    Step step;
    step.op = ops_named({name})[0];
    step.attributes = std::move(attributes);
    step.inputs = std::move(inputs);
    program_.steps.push_back(std::move(step));
    return values_++;
  }
  std::size_t state(Tensor value) {
    Step step;
    step.kind = Step::Kind::read;
    step.variable = program_.states.size();
    program_.states.push_back(std::move(value));
    program_.steps.push_back(std::move(step));
    return values_++;
  }
  void result(std::size_t value) { program_.results.push_back(value); }

 private:
  Program& program_;
  std::size_t values_;
};

/// Products of the first argument, a matrix, by weights that stay the same, each with an op behind it: the gates of a
/// cell.
void append_gates(Random& random, std::int64_t depth, Appender to) {
  const bool has_bias = random.one_in(2);
  for (std::size_t gates = 2 + random.below(3); gates > 0; --gates) {
    const auto width = random.pick(std::vector<std::int64_t>{1, 17, depth});
    std::vector<std::size_t> inputs{0, to.state(random_tensor(random, DType::float32, {depth, width}))};
    if (has_bias) {
      inputs.push_back(to.state(random_tensor(random, DType::float32, {width})));
    }
    to.result(to.op(random.one_in(2) ? "relu" : "tanh", {to.op(has_bias ? "linear" : "matmul", std::move(inputs))}));
  }
}

/// Batch normalisation of the first argument, of images, by the third, a number for each channel, between two ops; and
/// its gradients.
void append_norm(Random& random, Appender to) {
  const std::size_t x = to.op(random.one_in(2) ? "relu" : "sigmoid", {0});
  const std::size_t statistics = to.op("batch_norm_statistics", {x});
  const std::size_t y = to.op("silu", {to.op("batch_norm", {x, 2, 2, statistics})});
  to.result(y);
  if (random.one_in(2)) {
    const std::size_t dy = to.op("mul", {y, x});
    to.result(to.op("batch_norm_input_gradient", {dy, x, 2, statistics}));
    to.result(to.op("batch_norm_weight_gradient", {dy, x, statistics}));
  }
}

/// The same written out, of images of this shape, with reductions of channels of all kinds and what is computed of them
/// in shapes of all kinds; the fourth argument is a number for each channel, too.
void append_norm_by_hand(Random& random, const Shape& images, Appender to) {
  const Axes axes{0, 2, 3};
  const std::int64_t channels = images[1];
  const std::vector<const char*> reductions{"sum", "max", "logsumexp", "var", "prod"};
  const auto number_of = [&](std::size_t x) {
    const char* const name = random.pick(reductions);
    const bool keepdims = random.one_in(2);
    AttributeValue attributes(ops_named({name})[0]->attributes, nullptr);
    attributes.type()->parse_field(attributes.get(), "axes", to_string(axes));
    attributes.type()->parse_field(attributes.get(), "keepdims", keepdims ? "true" : "false");
    std::size_t number = to.op(name, {x}, std::move(attributes));
    if (random.one_in(2)) {
      number = to.op("tanh", {number});
    }
    if (random.one_in(4)) {
      to.result(number);
    }
    if (!keepdims || random.one_in(4)) {
      number = to.op("reshape", {number}, ops::ShapeAttributes{{channels, 1, 1}});
    }
    if (random.one_in(2)) {
      number = to.op(random.one_in(2) ? "mul" : "sub", {number, 3});
    }
    return random.one_in(4) ? to.op("expand", {number}, ops::ShapeAttributes{images}) : number;
  };
  const std::size_t x = to.op(random.one_in(2) ? "relu" : "sigmoid", {0});
  const std::size_t centred = to.op("sub", {x, number_of(x)});
  const std::size_t scaled = to.op(random.one_in(2) ? "div" : "mul", {centred, number_of(to.op("square", {centred}))});
  to.result(to.op("silu", {to.op("add", {scaled, 3})}));
}

/// The sum of the whole first argument behind some ops, in each floating type: by blocks, of which it has several.
void append_whole_sum(Random& random, Appender to) {
  static const std::vector<DType> types{DType::float32, DType::float64, DType::bfloat16, DType::float16};
  std::size_t x = to.op("cast", {0}, ops::CastAttributes{random.pick(types)});
  const std::size_t before = x;
  for (std::size_t ops = 1 + random.below(3); ops > 0; --ops) {
    const bool is_unary = random.one_in(2);
    x = is_unary ? to.op(random.one_in(2) ? "square" : "tanh", {x})
                 : to.op(random.one_in(2) ? "mul" : "sub", {x, before});
  }
  AttributeValue attributes(ops_named({"sum"})[0]->attributes, nullptr);
  attributes.type()->parse_field(attributes.get(), "axes", to_string(Axes{0, 1}));
  to.result(to.op("sum", {x}, std::move(attributes)));
  if (random.one_in(2)) {
    to.result(to.op("mul", {x, before}));
  }
}

}  // namespace

std::vector<const OpDef*> ops_named(const std::vector<std::string_view>& names) {
  std::vector<const OpDef*> ops;
  for (const std::string_view name : names) {
    const auto all = registry();
    ops.push_back(*std::find_if(all.begin(), all.end(), [&](const OpDef* op) { return op->name == name; }));
  }
  return ops;
}

Tensor random_tensor(Random& random, DType dtype, const Shape& shape, bool has_special) {
  return visit(dtype, [&]<class T>() {
    std::vector<T> values;
    for (std::int64_t i = 0; i < shape.product(); ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        using Limits = std::numeric_limits<T>;
        static const std::vector<T> special{T(0),
                                            -T(0),
                                            T(1),
                                            T(-1),
                                            T(2),
                                            Limits::max(),
                                            Limits::min(),
                                            T(0.5),
                                            Limits::denorm_min(),
                                            Limits::infinity(),
                                            -Limits::infinity(),
                                            Limits::quiet_NaN()};
        values.push_back(has_special && random.one_in(8) ? random.pick(special)
                                                         : static_cast<T>(random.below(2001)) / T(250) - T(4));
      } else if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
        values.push_back(T(static_cast<float>(random.below(2001)) / 250 - 4));
      } else {
        values.push_back(static_cast<T>(static_cast<int>(random.below(9)) - (std::is_same_v<T, bool> ? 0 : 4)));
      }
    }
    return Tensor::from(values, shape);
  });
}

void append_layers(Random& random, Program& program, std::size_t values) {
  if (random.one_in(2)) {
    append_updates(program, values);
    return;
  }
  const Appender to(program, values);
  const Shape& first = program.arguments[0].shape();
  if (first.rank() == 2) {
    const bool has_whole_blocks = first.product() % kernels::kBlock == 0;
    has_whole_blocks ? append_whole_sum(random, to) : append_gates(random, first.back(), to);
  } else {
    random.one_in(2) ? append_norm(random, to) : append_norm_by_hand(random, first, to);
  }
}

}  // namespace diptych::testing
