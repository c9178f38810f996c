#pragma once

#include <string>
#include <vector>

#include "framework/diptych.h"
#include "framework/dispatch/apply.h"

/// The test matrix over ops, generated from the registry: every op with every one of its sample inputs.
namespace diptych::testing {

struct OpCase {
  const OpDef* op;
  std::size_t index;  ///< of the sample
  Sample sample;

  std::string name() const;
};

std::vector<OpCase> all_op_cases();

/// Seeded tensors for the inputs of a sample.
std::vector<Tensor> make_inputs(const Sample& sample, std::uint64_t seed = 1);

Tensor call(const OpDef& op, std::span<const Tensor> inputs, const AttributeValue& attributes);

inline std::ostream& operator<<(std::ostream& out, const OpCase& c) { return out << c.name(); }

}  // namespace diptych::testing
