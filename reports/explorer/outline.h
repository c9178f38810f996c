#pragma once

#include <string>
#include <vector>

#include "framework/graph/ir.h"
#include "reports/explorer/places.h"

/// A graph as an outline: modules that hold modules and ops, with what repeats said once.
namespace diptych::reports {

/// One box of a picture.
struct GraphPart {
  enum class Kind : unsigned char {
    op,      ///< a node
    scope,   ///< a module
    repeat,  ///< neighbours of equal structure
    stretch  ///< neighbours in program order: an instance of a repeat, or some of too many
  };
  Kind kind = Kind::op;
  std::string name;      ///< of the module, relative to what it stands in; of an op: the module that holds it alone
  std::size_t node = 0;  ///< of an op: its index in Graph::nodes
  std::vector<GraphPart> parts{};  ///< what it holds; of a repeat: the instances
};

struct LaneOutline {
  Lane lane;
  std::vector<GraphPart> parts;
};

/// The most boxes of a picture of one lane.
inline constexpr std::size_t kMostBoxes = 30;
/// Of each of several lanes: a training step's three columns fit on a laptop's screen, and can still be read.
inline constexpr std::size_t kMostBoxesOfLane = 9;

/// Whether pictures write a node into those that read it: a constant.
bool is_written_out(const graph::Node& node);

/// The lanes of a graph that have nodes. No list of parts is longer than `kMostBoxes`, at the top of several lanes no
/// longer than `kMostBoxesOfLane`.
std::vector<LaneOutline> outline_of(const graph::Graph& graph, const Places& places);
/// The same of a region, whose ops are not parted by lane.
std::vector<GraphPart> outline_of_region(const graph::Graph& region, const Places& places);

/// The nodes of a part, in program order.
std::vector<std::size_t> nodes_of(const GraphPart& part);

}  // namespace diptych::reports
