#pragma once

#include <functional>

#include "framework/dispatch/element_error.h"
#include "framework/graph/control_ops.h"

namespace diptych::graph {

using Regions = std::vector<std::shared_ptr<const Graph>>;

/// Runs control flow under the active interpreter (eager, or the graph under capture), as apply() runs ops, and records
/// it on the tape if a gradient is wanted. control_ops.h describes `inputs`.
std::vector<Tensor> apply_control(const OpDef& op, const void* attributes, const Regions& regions,
                                  std::span<const Tensor> inputs, Location where);

/// The same without the tape.
std::vector<Tensor> run_control(const OpDef& op, const void* attributes, const Regions& regions,
                                std::span<const Tensor> inputs, Location where);

/// The loops of eager, for both regions and the user's functions. A body takes carries and rows, and returns new
/// carries and rows of ys.
using LoopBody = std::function<std::vector<Tensor>(std::span<const Tensor> carries, std::span<const Tensor> rows)>;
using LoopCondition = std::function<bool(std::span<const Tensor> carries)>;
std::vector<Tensor> run_while(const WhileAttributes& attributes, const LoopCondition& condition, const LoopBody& body,
                              std::span<const Tensor> init, Location where);
/// `count`: how many rows are visited. Needs at least one row to determine the types of ys.
std::vector<Tensor> run_scan(const ScanAttributes& attributes, std::int64_t count, const LoopBody& body,
                             std::span<const Tensor> init, std::span<const Tensor> xs, std::span<const TensorType> ys,
                             Location where);

/// The value of a bool[] on the host.
bool read_predicate(const Tensor& predicate, const char* op, Location where);

/// For a loop that would go on beyond its limit; not located yet.
ElementError iteration_limit_error(std::int64_t limit);

}  // namespace diptych::graph
