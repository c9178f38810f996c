// Random programs over every op of the registry: eager and all kinds of graphs give the same bits and leave the same
// states. Ops, attributes and shapes are found by trial: what type inference refuses is drawn again.

#include <chrono>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "framework/dispatch/apply.h"
#include "framework/graph/fused_op.h"
#include "tests/graph/variants.h"
#include "tests/support/with_threads.h"

namespace diptych::runtime {
namespace {

using diptych::testing::message_of;
using diptych::testing::WithThreads;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

struct Step {
  enum class Kind : std::uint8_t { op, read, assign } kind = Kind::op;
  const OpDef* op = nullptr;
  AttributeValue attributes;
  std::vector<std::size_t> inputs;  ///< into the values so far; of an assignment: the new value
  std::size_t variable = 0;
};

struct Program {
  std::vector<Tensor> arguments;
  std::vector<Tensor> states;
  std::vector<Step> steps;
  std::vector<std::size_t> results;

  std::vector<Tensor> run(const std::vector<Tensor>& with, Variables& variables) const {
    std::vector<Tensor> values = with;
    for (const Step& step : steps) {
      if (step.kind == Step::Kind::read) {
        values.push_back(variables[step.variable].value());
      } else if (step.kind == Step::Kind::assign) {
        variables[step.variable].assign(values[step.inputs[0]]);
      } else {
        std::vector<const Tensor*> inputs;
        for (std::size_t input : step.inputs) {
          inputs.push_back(&values[input]);
        }
        values.push_back(apply(*step.op, inputs, step.attributes.get(), Location::current()));
      }
    }
    std::vector<Tensor> chosen;
    for (std::size_t result : results) {
      chosen.push_back(values[result]);
    }
    return chosen;
  }

  std::string describe() const {
    std::string text;
    std::size_t next = 0;
    for (const Tensor& argument : arguments) {
      text += "v" + std::to_string(next++) + " = argument " + to_string(argument.type()) + " strides " +
              to_string(argument.strides()) + "\n";
    }
    for (const Step& step : steps) {
      std::string inputs;
      for (std::size_t input : step.inputs) {
        inputs += " v" + std::to_string(input);
      }
      if (step.kind == Step::Kind::assign) {
        text += "s" + std::to_string(step.variable) + " <-" + inputs + "\n";
      } else {
        text += "v" + std::to_string(next++) + " = " +
                (step.kind == Step::Kind::read ? "s" + std::to_string(step.variable)
                                               : step.op->name + inputs + " {" + step.attributes.print() + "}") +
                "\n";
      }
    }
    text += "return";
    for (std::size_t result : results) {
      text += " v" + std::to_string(result);
    }
    return text;
  }
};

Shape random_shape(Random& random) {
  static const std::vector<Shape> shapes{{},     {1},    {4},       {5},       {4, 4},    {4, 5},
                                         {5, 4}, {1, 4}, {4, 1},    {2, 4, 5}, {3, 1, 4}, {0, 4},
                                         {4, 4}, {4},    {4, 4, 4}, {20},      {1, 1}};
  return random.pick(shapes);
}

Tensor random_tensor(Random& random, DType dtype, const Shape& shape) {
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
        values.push_back(random.one_in(8) ? random.pick(special) : static_cast<T>(random.below(2001)) / T(250) - T(4));
      } else if constexpr (std::is_same_v<T, bfloat16>) {
        values.push_back(bfloat16(static_cast<float>(random.below(2001)) / 250 - 4));
      } else {
        values.push_back(static_cast<T>(static_cast<int>(random.below(9)) - (std::is_same_v<T, bool> ? 0 : 4)));
      }
    }
    return Tensor::from(values, shape);
  });
}

Tensor random_argument(Random& random) {
  static const std::vector<DType> dtypes{DType::float32, DType::float32, DType::float32, DType::float64, DType::int64,
                                         DType::int32,   DType::boolean, DType::uint8,   DType::bfloat16};
  const Shape shape = random_shape(random);
  const Tensor dense = random_tensor(random, random.pick(dtypes), shape);
  if (shape.rank() >= 2 && random.one_in(3)) {
    return transpose(dense);
  }
  if (shape.rank() >= 1 && shape[0] > 2 && random.one_in(4)) {
    return slice(dense, 0, 1, shape[0], random.one_in(2) ? 2 : 1);
  }
  return dense;
}

/// Fills in attributes by the names and the printed form of their fields; what doesn't fit is refused by inference.
void randomise_attributes(Random& random, AttributeValue& attributes, const Shape& like) {
  const std::string text = attributes.print();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t equals = text.find('=', at);
    std::size_t end = equals;
    for (int depth = 0; end < text.size() && (depth > 0 || text[end] != ','); ++end) {
      depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
    }
    const std::string name = text.substr(at, equals - at);
    const std::string value = text.substr(equals + 1, end - equals - 1);
    at = end + 2;
    std::string drawn;
    if (value.starts_with('[')) {
      Dims dims;
      if (name == "axes") {
        for (int axis = 0; axis < like.rank(); ++axis) {
          dims.push_back(axis);
        }
        if (random.one_in(2)) {
          for (int axis = like.rank() - 1; axis > 0; --axis) {
            std::swap(dims[axis], dims[static_cast<int>(random.below(static_cast<std::size_t>(axis) + 1))]);
          }
        } else if (like.rank() > 0) {
          dims = Dims{static_cast<std::int64_t>(random.below(static_cast<std::size_t>(like.rank())))};
        }
      } else if (random.one_in(3)) {
        dims = like;
        if (dims.rank() < 4) {
          Dims longer{static_cast<std::int64_t>(1 + random.below(3))};
          for (std::int64_t length : dims) {
            longer.push_back(length == 1 ? static_cast<std::int64_t>(1 + random.below(4)) : length);
          }
          dims = longer;
        }
      } else if (random.one_in(2)) {
        dims = Dims{like.product()};
      } else {
        dims = random_shape(random);
      }
      drawn = to_string(dims);
    } else if (value == "true" || value == "false") {
      drawn = random.one_in(2) ? "true" : "false";
    } else if (parse_dtype(value)) {
      drawn = name_of(static_cast<DType>(random.below(kDTypeCount)));
    } else if (name == "value") {
      static const std::vector<std::string> numbers{"0", "-0", "1", "2", "-1", "0.5", "4", "3", "-2"};
      drawn = random.pick(numbers);
    } else if (name == "depth") {
      drawn = "9";
    } else {
      drawn = std::to_string(random.below(6));
    }
    attributes.type()->parse_field(attributes.get(), name, drawn);
  }
}

Program random_program(Random& random) {
  Program program;
  std::vector<TensorType> types;
  const std::size_t argument_count = 1 + random.below(3);
  for (std::size_t i = 0; i < argument_count; ++i) {
    program.arguments.push_back(random_argument(random));
    types.push_back(program.arguments.back().type());
  }
  const std::size_t state_count = random.below(3);
  for (std::size_t i = 0; i < state_count; ++i) {
    // Often the type of an argument, so that assignments fit.
    const TensorType type =
        random.one_in(2) ? types[random.below(types.size())] : TensorType{DType::float32, random_shape(random)};
    program.states.push_back(random_tensor(random, type.dtype, type.shape));
  }
  const auto ops = registry();
  const std::size_t wanted = 2 + random.below(14);
  for (int tries = 0; tries < 300 && program.steps.size() < wanted; ++tries) {
    Step step;
    if (state_count > 0 && random.one_in(6)) {
      step.variable = random.below(state_count);
      const Tensor& state = program.states[step.variable];
      const std::size_t value = random.below(types.size());
      if (types[value] == state.type()) {
        step.kind = Step::Kind::assign;
        step.inputs = {value};
      } else {
        step.kind = Step::Kind::read;
        types.push_back(state.type());
      }
      program.steps.push_back(step);
      continue;
    }
    step.op = ops[random.below(ops.size())];
    std::vector<const TensorType*> inputs;
    for (int i = 0; i < step.op->inputs; ++i) {
      // Recent values more often: deep graphs instead of wide ones.
      const std::size_t back = std::min(random.below(types.size()), random.below(types.size()));
      step.inputs.push_back(random.one_in(5) && i > 0 ? step.inputs[0] : types.size() - 1 - back);
      inputs.push_back(&types[step.inputs.back()]);
    }
    step.attributes = AttributeValue(step.op->attributes, nullptr);
    if (step.op->attributes != nullptr) {
      randomise_attributes(random, step.attributes, inputs.empty() ? random_shape(random) : inputs[0]->shape);
    }
    TensorType type;
    try {
      step.op->infer({*step.op, inputs, step.attributes.get(), {}}, type);
    } catch (const Error&) {
      continue;
    }
    if (type.shape.rank() > 6 || type.shape.product() > 4000 ||
        std::any_of(type.shape.begin(), type.shape.end(), [](std::int64_t length) { return length < 0; })) {
      continue;
    }
    types.push_back(type);
    program.steps.push_back(step);
  }
  const std::size_t results = 1 + random.below(4);
  for (std::size_t i = 0; i < results; ++i) {
    program.results.push_back(types.size() - 1 - std::min(random.below(types.size()), random.below(types.size())));
  }
  return program;
}

struct Trace {
  std::vector<Tensor> seen;
  bool failed = false;
};

template <class Call>
Trace trace(const Program& program, const std::vector<std::vector<Tensor>>& arguments, Variables& variables,
            const Call& call) {
  variables.clear();
  for (const Tensor& state : program.states) {
    variables.emplace_back(copy(state), "s");
  }
  Trace result;
  for (const std::vector<Tensor>& with : arguments) {
    try {
      for (const Tensor& tensor : call(with)) {
        result.seen.push_back(tensor);
      }
    } catch (const Error&) {
      result.failed = true;
      return result;
    }
    for (const Variable& variable : variables) {
      result.seen.push_back(copy(variable.value()));
    }
  }
  return result;
}

/// Two calls, the second with other elements of the same layout.
std::vector<std::vector<Tensor>> two_calls(const Program& program) {
  std::vector<Tensor> second;
  for (const Tensor& argument : program.arguments) {
    const bool turned = argument.rank() >= 2 && !argument.is_contiguous();
    Tensor other = turned ? transpose(copy(transpose(argument))) : copy(argument);
    second.push_back(other.strides() == argument.strides() ? other : argument);
  }
  return {program.arguments, second, program.arguments};
}

TEST(RandomPrograms, GiveEagersBitsAsEveryKindOfGraph) {
  constexpr std::uint64_t kPrograms = 12000;
  const auto variants = diptych::testing::pipeline_variants();
  std::size_t compared = 0;
  std::size_t steps = 0;
  std::size_t kernels_of_rows = 0;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random random(seed * 2654435761U + 17);
    const Program program = random_program(random);
    const auto arguments = two_calls(program);
    Variables variables;
    const Trace eager = trace(program, arguments, variables,
                              [&](const std::vector<Tensor>& with) { return program.run(with, variables); });
    if (eager.failed) {
      const PipelinedScope scope;
      const Trace pipelined = trace(program, arguments, variables,
                                    [&](const std::vector<Tensor>& with) { return program.run(with, variables); });
      ASSERT_TRUE(pipelined.failed || !message_of<Error>([] { synchronize(); }).empty()) << "seed " << seed;
      continue;  // an index out of range: what is left of such a program depends on what was dead code
    }
    steps += program.steps.size();
    if (seed % 3 == 0) {
      Variables mine;
      const PipelinedScope scope;
      const Trace pipelined =
          trace(program, arguments, mine, [&](const std::vector<Tensor>& with) { return program.run(with, mine); });
      ASSERT_EQ(pipelined.seen.size(), eager.seen.size());
      for (std::size_t i = 0; i < eager.seen.size(); ++i) {
        ASSERT_TRUE(bitwise_equal(pipelined.seen[i], eager.seen[i]))
            << "seed " << seed << ", pipelined, tensor " << i << "\n"
            << program.describe();
      }
    }
    for (const auto& variant : variants) {
      // Everything for one program in six; the two ends of the pipeline for all.
      if (seed % 6 != 0 && variant.name != "replay" && variant.name != "full") {
        continue;
      }
      // On several threads whatever can be divided, and instructions side by side.
      const WithThreads threads(seed % 5 == 0 ? 3 : 1, true);
      Variables mine;
      auto function =
          jit([&](const std::vector<Tensor>& with) { return program.run(with, mine); }, {.pipeline = variant.pipeline});
      const Trace graph =
          trace(program, arguments, mine, [&](const std::vector<Tensor>& with) { return function(with); });
      ASSERT_FALSE(graph.failed) << "seed " << seed << ", " << variant.name << "\n" << program.describe();
      ASSERT_EQ(graph.seen.size(), eager.seen.size());
      for (std::size_t i = 0; i < graph.seen.size(); ++i) {
        ASSERT_TRUE(bitwise_equal(graph.seen[i], eager.seen[i]))
            << "seed " << seed << ", " << variant.name << ", tensor " << i << "\n"
            << program.describe() << "\ngot " << to_string(graph.seen[i]) << "\nexpected " << to_string(eager.seen[i])
            << "\n"
            << graph::print(*function.compiled()->graph());
      }
      for (const graph::Node& node : function.compiled()->graph()->nodes) {
        kernels_of_rows += node.op == &graph::fused_op() && graph::rows_of(*node.regions[0]) > 0 ? 1 : 0;
      }
      ++compared;
    }
    if (seed % 16 == 0) {  // the text form of whatever came out
      auto function = jit([&](const std::vector<Tensor>& with) { return program.run(with, variables); });
      function(program.arguments);
      const std::string text = graph::print(*function.compiled()->graph());
      ASSERT_EQ(graph::print(graph::parse(text)), text);
    }
  }
  EXPECT_GT(compared, 2 * kPrograms);
  EXPECT_GT(steps, 5 * kPrograms) << "programs of some size";
  EXPECT_GT(kernels_of_rows, kPrograms / 50) << "fused reductions and normalisations";
}

}  // namespace
}  // namespace diptych::runtime
