#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/graph/ir.h"

/// What passes didn't fuse, and why.
namespace diptych::passes {

/// Why a node isn't in one kernel with the node whose result it reads.
enum class Refusal : std::uint8_t {
  effect,             ///< one of them has an effect or can fail
  kind,               ///< one of them can't be computed in tiles
  layout,             ///< an operand would be gathered element by element
  shape,              ///< the results differ in shape, and don't fall into the same rows
  several_uses,       ///< of attention written as its ops: something else reads the scores or the weights
  operands,           ///< the kernel would have too many ops or inputs
  larger_than_cache,  ///< a row is too long
  unprofitable,       ///< a kernel of both would take longer: small results are found in the cache anyway
  cycle               ///< the consumer waits for a third, which waits for the producer
};
std::string_view name_of(Refusal refusal);
/// A sentence for people.
std::string_view explanation_of(Refusal refusal);

/// A node that reads another's result, directly or through views, and isn't in one kernel with it.
struct FusionRefusal {
  graph::ValueId producer, consumer;  ///< the values that the two nodes make
  const OpDef* producer_op;
  const OpDef* consumer_op;
  Refusal why;
  double nanoseconds = 0;  ///< of `unprofitable`: about how much longer the kernel would take
  bool in_region = false;  ///< of control flow, whose values have numbers of their own
};
/// "unprofitable by 26 ns (a kernel of both would take longer: it saves too little memory traffic)"
std::string reason_of(Refusal why, double nanoseconds);
/// "%3 linear -> %4 gelu: kind (one of them can't be computed in tiles)"
std::string to_string(const FusionRefusal& refusal);

/// The refusals of equal ops for equal reasons, most frequent first.
struct RefusalGroup {
  std::string producer, consumer;  ///< names of ops
  Refusal why;
  std::size_t edges = 0;
  double nanoseconds = 0;  ///< of all edges together
};
std::vector<RefusalGroup> grouped(std::span<const FusionRefusal> refusals);

}  // namespace diptych::passes
