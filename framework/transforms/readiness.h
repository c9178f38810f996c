#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

/// Whether a program can be captured, found by running it op by op: unlike a capture, which ends at the first obstacle,
/// this lists all of them.
namespace diptych::graph {

enum class Obstacle : std::uint8_t {
  host_read,        ///< the host reads elements that a call computes: a capture ends there
  path,             ///< the second call runs other ops: a graph would repeat the first
  number,           ///< the attributes of an op differ from call to call: a graph would keep the first
  untracked_state,  ///< another tensor from outside in each call: a graph would keep the first
  recompile,        ///< arguments of other types or strides, or a Guarded that changes: a graph for each
  capture           ///< anything else at which a capture ends
};
std::string_view name_of(Obstacle obstacle);

struct Finding {
  Obstacle obstacle;
  std::string what;     ///< "item() reads bool[], the result of greater at model.cpp:12"
  Location where;       ///< of the user's line
  std::string way_out;  ///< how to mend it
};

using CapturedFunction = std::function<std::vector<Tensor>(std::span<const Tensor> arguments)>;

/// Runs `function` twice, op by op with a mark on what depends on the call, then twice as a graph. Each obstacle is
/// listed once for each line. The calls are real: variables change. The second arguments may have other types than the
/// first.
std::vector<Finding> find_obstacles(const CapturedFunction& function, std::span<const Tensor> first,
                                    std::span<const Tensor> second);

}  // namespace diptych::graph
