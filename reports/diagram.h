#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace diptych::reports {

/// How a node changed against the graph before it.
enum class Emphasis { none, added, removed, fused };

/// What a node is, for its colour.
enum class NodeClass {
  input,
  constant,
  matmul,
  convolution,
  elementwise,
  reduction,
  normalisation,
  shape,
  memory,
  random,
  control,
  optimizer,
  fused,
  output,
  other
};

/// "matmul" -> NodeClass::matmul; unknown names are `other`.
NodeClass node_class_from(const std::string& name);

struct DiagramNode {
  std::string id;                  ///< unique in the diagram; any text
  std::vector<std::string> label;  ///< lines; the first is the title
  NodeClass node_class = NodeClass::other;
  std::vector<std::string> scope;  ///< enclosing clusters, outermost first
  std::string tooltip;
  Emphasis emphasis = Emphasis::none;
  std::optional<double> heat;  ///< share of the time, 0..1: a bar with its number
};

struct DiagramEdge {
  std::string from, to;  ///< node ids; edges to unknown nodes are left out
  std::string label;     ///< "f32[2,197,256]"
};

enum class Direction { top_down, left_right };

struct Diagram {
  std::string title;
  std::vector<DiagramNode> nodes;
  std::vector<DiagramEdge> edges;
  Direction direction = Direction::top_down;
  bool legend = true;  ///< name the classes; off where the colours mean something else
};

struct DiagramOptions {
  std::string id_prefix = "d";   ///< ids in the SVG start with it: unique per page; letters and digits only
  std::size_t most_nodes = 300;  ///< above, Graphviz is not tried
  int cpu_seconds = 5;           ///< what Graphviz may use, in a process of its own
};

/// A self-contained SVG, light and dark. Graphviz lays out; when the graph is too large, or Graphviz fails or takes
/// too long, a plain layered layout stands in and the picture says so. Never throws for what the diagram holds: every
/// text is escaped, and cut when it is long.
std::string render_svg(const Diagram& diagram, const DiagramOptions& options = {});

/// The same graph as Graphviz text, for the user's own tools.
std::string to_dot(const Diagram& diagram);

}  // namespace diptych::reports
