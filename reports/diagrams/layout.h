#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/diagrams/diagram.h"

/// From a diagram to coordinates. Units are SVG user units (points), y grows downwards.
namespace diptych::reports {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;  ///< top left corner and size
};

struct PlacedEdge {
  std::size_t from = 0, to = 0;  ///< indices of nodes
  std::string label;
  std::vector<Point> curve;       ///< a start, then triples: cubic Béziers
  std::optional<Point> label_at;  ///< its centre
  bool hidden = false;
};

struct PlacedCluster {
  std::vector<std::string> path;
  Box box;
};

/// Nodes have sizes before the layout and positions after it.
struct Layout {
  std::vector<Box> nodes;
  std::vector<PlacedEdge> edges;
  std::vector<PlacedCluster> clusters;
  double width = 0, height = 0;
  std::string note;  ///< why the plain layout was used; shown in the picture
};

/// The diagram's text made printable and short, the sizes of its nodes, and its edges between known nodes.
struct Prepared {
  std::vector<DiagramNode> nodes;
  Layout layout;
  Direction direction = Direction::top_down;
};

Prepared prepare(const Diagram& diagram);

// Font sizes of diagram.css: a node's first line and the others.
inline constexpr double name_size = 12;
inline constexpr double small_size = 11;
inline constexpr double line_height = 16;
// A chip of a node, and the gap above it.
inline constexpr double chip_height = 20;
inline constexpr double chip_gap = 4;
/// With a gap below the last, where pages put badges on the edge.
inline double chips_height(std::size_t count) {
  return static_cast<double>(count) * (chip_height + chip_gap) + chip_gap;
}

/// Lays out with Graphviz in child processes, many pictures in each: to start one takes the longer the more memory the
/// program has. Empty for those that failed, were stopped or took longer than `cpu_seconds` each. `done`: is called
/// with the number of those that are ready.
std::vector<std::optional<Layout>> graphviz_layouts(std::span<const Prepared> pictures, int cpu_seconds,
                                                    const std::function<void(std::size_t done)>& done = {});

/// Layers by longest path, ordered by barycentres; linear in nodes and edges, cannot fail. No clusters.
Layout plain_layout(const Prepared& prepared);

}  // namespace diptych::reports
