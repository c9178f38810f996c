#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/text/op_place.h"

namespace diptych::reports {

/// How a node changed with respect to the previous graph.
enum class Emphasis { none, added, removed, fused };

/// The kind of a node, for its colour.
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
  std::string tooltip;             ///< lines
  Emphasis emphasis = Emphasis::none;
  std::optional<double> heat;  ///< share of the time, 0..1: shown as a bar with its number
  /// Below the label, each in a frame of its own, for pages that make them buttons.
  std::vector<std::string> chips = {};
  OpPlace place = {};  ///< what it stands for elsewhere in a page
};

struct DiagramEdge {
  std::string from, to;  ///< node ids; edges to unknown nodes are left out
  std::string label;     ///< "f32[2,197,256]"
  bool hidden = false;   ///< not drawn: only sets `to` below `from`
};

enum class Direction { top_down, left_right };

struct Diagram {
  std::string title;
  std::vector<DiagramNode> nodes;
  std::vector<DiagramEdge> edges;
  Direction direction = Direction::top_down;
  bool legend = true;  ///< names the classes and signs; off where the colours mean something else
  /// Labels refer to values defined far away as "%9", and "%9 = ..." labels their definition; the legend explains it.
  bool numbers = false;
};

struct DiagramOptions {
  std::string id_prefix = "d";   ///< ids in the SVG start with it: unique per page; letters and digits only
  std::size_t most_nodes = 300;  ///< above this, Graphviz is not tried
  int cpu_seconds = 5;           ///< CPU limit for Graphviz, which runs in its own process
};

/// A self-contained SVG for light and dark pages, laid out by Graphviz. If the graph is too large, or
/// Graphviz fails or takes too long, a plain layered layout replaces it, and the picture says so. Never throws because
/// of the diagram's content: every text is escaped, and long ones are cut.
std::string render_svg(const Diagram& diagram, const DiagramOptions& options = {});

/// Pictures of a page, which has the style sheet for all of them: without paper, title, legend and ids. Graphviz has
/// `cpu_seconds` for each. `done`: is called with the number of those that are ready.
std::vector<std::string> bare_svgs(const std::vector<Diagram>& diagrams, int cpu_seconds,
                                   const std::function<void(std::size_t done)>& done = {});

/// The same graph as Graphviz text, for the user's own tools.
std::string to_dot(const Diagram& diagram);

}  // namespace diptych::reports
