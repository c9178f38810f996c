#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "framework/graph/ir.h"

/// Where an op stands in pictures of large graphs: in which lane of a training step, and in which module.
namespace diptych::reports {

enum class Lane : unsigned char { forward, backward, optimizer };
const char* name_of(Lane lane);

struct Place {
  Lane lane = Lane::forward;
  std::string scope;  ///< "blocks.0.norm1"; "" is outside of all modules
  /// In the backward lane: the source op that this computes the gradient of, as far as the order of the pass tells.
  std::optional<std::uint32_t> gradient_of = {};
};

/// The places of all source ops of a program. Ops that ran under a module are forward ones. Behind the first op that a
/// gradient rule applied, ops outside of modules belong to the backward pass, and those that an optimizer applied to
/// the optimizer. Gradient ops get the scope of the op that they are the gradient of, updates that of their parameter.
class Places {
 public:
  explicit Places(const graph::Graph& captured);

  /// That of the first source op that the node stands for.
  Place of(const graph::Provenance& provenance) const;

 private:
  void add_regions(const graph::Node& node, Lane lane);

  std::map<std::uint32_t, Place> by_source_op_;
};

}  // namespace diptych::reports
