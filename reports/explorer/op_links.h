#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "framework/graph/ir.h"

namespace diptych::reports {

/// What a trace says of a source op besides its time.
struct OpLinks {
  std::vector<TensorType> operands;
  std::uint64_t forward = 0;  ///< the source op whose gradient it computes (Place::gradient_of), or itself
};

/// Of every op of a graph as captured, with those in regions, by source op (counted from 1, as in traces).
std::map<std::uint64_t, OpLinks> op_links(const graph::Graph& captured);

}  // namespace diptych::reports
