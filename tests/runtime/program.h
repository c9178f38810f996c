#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/diptych.h"

/// A program as a list of steps, that can be run, described and made smaller.
namespace diptych::testing {

inline bool is_real(DType dtype) { return dtype == DType::float32 || dtype == DType::float64; }

struct Step {
  enum class Kind : std::uint8_t {
    op,
    read,    ///< of a state
    assign,  ///< inputs[0] is a state's new value
    update,  ///< inputs[0] is updated in place with inputs[1]
    branch,  ///< one of two chains of ops on inputs[1], by the sign of inputs[0]'s sum
    loop     ///< a chain of ops on inputs[0], three times
  } kind = Kind::op;
  const OpDef* op = nullptr;
  AttributeValue attributes;
  std::vector<std::size_t> inputs;  ///< into the values so far
  std::size_t variable = 0;
  std::size_t choice = 0;  ///< of an update, or of chains

  bool gives_value() const { return kind != Kind::assign && kind != Kind::update; }
};

struct Program {
  std::vector<Tensor> arguments;
  std::vector<Tensor> states;
  std::vector<Step> steps;
  std::vector<std::size_t> results;
  int gradient = -1;        ///< by which argument, if any
  std::uint32_t aside = 0;  ///< bit i: the gradient isn't that of result i

  using Call = std::function<std::vector<Tensor>(const std::vector<Tensor>& with)>;
  /// The results; with a gradient, then the sum of those that are floats, and not aside, and its gradient.
  std::vector<Tensor> run(const std::vector<Tensor>& with, Variables& variables) const {
    return run(with, [&](const std::vector<Tensor>& inputs) { return run_steps(inputs, variables); });
  }
  /// The same, where something else runs the steps.
  std::vector<Tensor> run(const std::vector<Tensor>& with, const Call& steps_of) const;
  /// Without the gradient.
  std::vector<Tensor> run_steps(const std::vector<Tensor>& with, Variables& variables) const;
  std::string describe() const;
};

/// The programs with one result, step, op of control flow, or the gradient less, or a result from a step before.
std::vector<Program> smaller(const Program& program);

/// The smallest program of which `fails` still holds, one thing less at a time.
template <class Fails>
Program shrunk(Program program, const Fails& fails) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Program& candidate : smaller(program)) {
      if (fails(candidate)) {
        program = std::move(candidate);
        changed = true;
        break;
      }
    }
  }
  return program;
}

}  // namespace diptych::testing
