#include "tests/runtime/program.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/dispatch/apply.h"

namespace diptych::testing {
namespace {

/// Of control flow: an op that keeps the type.
Tensor link_of_chain(std::size_t choice, const Tensor& x) {
  switch (choice % 6) {
    case 0:
      return exp(x);
    case 1:
      return tanh(x);
    case 2:
      return neg(x);
    case 3:
      return square(x);
    case 4:
      return relu(x);
    default:
      return add(x, x);
  }
}
Tensor chain(std::size_t choice, Tensor x) {
  for (; choice > 0; choice /= 7) {
    x = link_of_chain(choice, x);
  }
  return x;
}

void update(const Step& step, const Tensor& target, const Tensor& value) {
  switch (step.choice % 3) {
    case 0:
      add_(target, value);
      break;
    case 1:
      mul_(target, value);
      break;
    default:
      copy_(target, value);
  }
}

Tensor compute(const Step& step, const std::vector<Tensor>& values) {
  if (step.kind == Step::Kind::branch) {
    const Tensor total = sum(cast(values[step.inputs[0]], DType::float32));
    return cond(
        greater(total, full_like(total, 0)), [&](const Tensor& x) { return chain(step.choice, x); },
        [&](const Tensor& x) { return chain(step.choice / 3, x); }, values[step.inputs[1]]);
  }
  if (step.kind == Step::Kind::loop) {
    const Tensor zero = Tensor::from(std::vector<float>{0}, {});
    const auto [count, x] =
        while_loop([](const auto& carry) { return less(std::get<0>(carry), full_like(std::get<0>(carry), 3)); },
                   [&](const auto& carry) {
                     return std::tuple(add(std::get<0>(carry), full_like(std::get<0>(carry), 1)),
                                       chain(step.choice, std::get<1>(carry)));
                   },
                   std::tuple(zero, values[step.inputs[0]]), {.max_iterations = 3});
    return x;
  }
  std::vector<const Tensor*> inputs;
  for (std::size_t input : step.inputs) {
    inputs.push_back(&values[input]);
  }
  return apply(*step.op, inputs, step.attributes.get(), Location::current());
}

}  // namespace

std::vector<Tensor> Program::run_steps(const std::vector<Tensor>& with, Variables& variables) const {
  std::vector<Tensor> values = with;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::read) {
      values.push_back(variables[step.variable].value());
    } else if (step.kind == Step::Kind::assign) {
      variables[step.variable].assign(values[step.inputs[0]]);
    } else if (step.kind == Step::Kind::update) {
      update(step, values[step.inputs[0]], values[step.inputs[1]]);
    } else {
      values.push_back(compute(step, values));
    }
  }
  std::vector<Tensor> chosen;
  for (std::size_t result : results) {
    chosen.push_back(values[result]);
  }
  return chosen;
}

std::vector<Tensor> Program::run(const std::vector<Tensor>& with, const Call& steps_of) const {
  if (gradient < 0) {
    return steps_of(with);
  }
  const auto by = static_cast<std::size_t>(gradient);
  auto differentiated = value_and_grad(
      [&](const Tensor& x) {
        std::vector<Tensor> inputs = with;
        inputs[by] = x;
        std::vector<Tensor> values = steps_of(inputs);
        Tensor total = mul(sum(cast(x, DType::float32)), full({}, 0));
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (is_real(values[i].dtype()) && (aside >> i & 1U) == 0) {
            total = total + sum(cast(values[i], DType::float32));
          }
        }
        return std::pair(total, values);
      },
      {.arguments = {0}});
  auto result = differentiated(with[by]);
  std::vector<Tensor> all = std::move(result.aux);
  all.push_back(result.value);
  all.push_back(result.arguments[0]);
  return all;
}

std::string Program::describe() const {
  std::string text;
  std::size_t next = 0;
  for (const Tensor& argument : arguments) {
    text += fmt::format("v{} = argument {} strides {}\n", next++, to_string(argument.type()),
                        to_string(argument.strides()));
  }
  for (const Step& step : steps) {
    const std::string inputs = fmt::format("v{}", fmt::join(step.inputs, " v"));
    switch (step.kind) {
      case Step::Kind::op:
        text += fmt::format("v{} = {} {} {{{}}}\n", next, step.op->name, step.inputs.empty() ? "" : inputs,
                            step.attributes.print());
        break;
      case Step::Kind::read:
        text += fmt::format("v{} = s{}\n", next, step.variable);
        break;
      case Step::Kind::assign:
        text += fmt::format("s{} <- {}\n", step.variable, inputs);
        break;
      case Step::Kind::update:
        text += fmt::format("update {} ({})\n", inputs, step.choice);
        break;
      case Step::Kind::branch:
        text += fmt::format("v{} = branch {} ({})\n", next, inputs, step.choice);
        break;
      case Step::Kind::loop:
        text += fmt::format("v{} = loop {} ({})\n", next, inputs, step.choice);
        break;
    }
    next += step.gives_value() ? 1 : 0;
  }
  text += fmt::format("return v{}", fmt::join(results, " v"));
  return gradient < 0 ? text : text + fmt::format(", and the gradient by v{}, aside {:#b}", gradient, aside);
}

std::vector<Program> smaller(const Program& program) {
  std::vector<Program> all;
  if (program.gradient >= 0) {
    all.push_back(program);
    all.back().gradient = -1;
  }
  if (program.aside != 0) {
    all.push_back(program);
    all.back().aside = 0;
  }
  for (std::size_t i = 0; i < program.results.size() && program.results.size() > 1; ++i) {
    all.push_back(program);
    all.back().results.erase(all.back().results.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::size_t value = program.arguments.size();
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    // Chains of one op less, whichever: the number's digits, to the base of seven, are the ops.
    for (std::size_t digit = 1; program.steps[i].kind >= Step::Kind::branch && digit < program.steps[i].choice;
         digit *= 7) {
      const std::size_t choice = program.steps[i].choice;
      all.push_back(program);
      all.back().steps[i].choice = choice / (digit * 7) * digit + choice % digit;
      if (all.back().steps[i].choice == 0 || all.back().steps[i].choice >= choice) {
        all.pop_back();
      }
    }
    const bool gives = program.steps[i].gives_value();
    const auto reads = [&](std::size_t input) { return gives && input == value; };
    // What a step reads in place of what it gives.
    for (std::size_t r = 0; r < program.results.size(); ++r) {
      for (const std::size_t input : reads(program.results[r]) ? program.steps[i].inputs : std::vector<std::size_t>()) {
        all.push_back(program);
        all.back().results[r] = input;
      }
    }
    const bool is_read = std::any_of(program.results.begin(), program.results.end(), reads) ||
                         std::any_of(program.steps.begin(), program.steps.end(), [&](const Step& step) {
                           return std::any_of(step.inputs.begin(), step.inputs.end(), reads);
                         });
    if (!is_read) {
      all.push_back(program);
      Program& without = all.back();
      without.steps.erase(without.steps.begin() + static_cast<std::ptrdiff_t>(i));
      const auto renumber = [&](std::size_t& input) { input -= gives && input > value ? 1 : 0; };
      std::for_each(without.results.begin(), without.results.end(), renumber);
      for (Step& step : without.steps) {
        std::for_each(step.inputs.begin(), step.inputs.end(), renumber);
      }
    }
    value += gives ? 1 : 0;
  }
  return all;
}

}  // namespace diptych::testing
