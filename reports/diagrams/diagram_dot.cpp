#include <map>

#include <fmt/format.h>

#include "reports/diagrams/diagram.h"
#include "reports/diagrams/layout.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

// Graphviz reads backslash escapes and HTML entities inside quoted strings.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '&':
        out += "&amp;";
        break;
      case '\n':
        out += "\\n";
        break;
      default:
        out.push_back(c);
    }
  }
  return out + '"';
}

std::string label_of(const DiagramNode& node) {
  std::string out = "\"";
  for (std::size_t i = 0; i < node.label.size(); ++i) {
    const std::string line = quoted(node.label[i]);
    out += (i == 0 ? "" : "\\n") + line.substr(1, line.size() - 2);
  }
  return out + '"';
}

struct Tree {
  std::vector<std::size_t> nodes;
  std::map<std::string, Tree> scopes;
};

void write(const Tree& tree, const Prepared& prepared, const std::string& indent, int& cluster, std::string& out) {
  for (const std::size_t i : tree.nodes) {
    const DiagramNode& node = prepared.nodes[i];
    const char* style = node.emphasis == Emphasis::removed ? ", style=\"rounded,dashed\"" : "";
    const char* pen = node.emphasis == Emphasis::none || node.emphasis == Emphasis::removed ? "" : ", penwidth=2.5";
    out +=
        fmt::format("{}n{} [label={}, tooltip={}{}{}];\n", indent, i, label_of(node), quoted(node.tooltip), style, pen);
  }
  for (const auto& [name, inner] : tree.scopes) {
    out += fmt::format("{}subgraph cluster_{} {{\n{}  label={};\n", indent, cluster++, indent, quoted(name));
    write(inner, prepared, indent + "  ", cluster, out);
    out += indent + "}\n";
  }
}

}  // namespace

std::string to_dot(const Diagram& diagram) {
  const Prepared prepared = prepare(diagram);
  Tree root;
  for (std::size_t i = 0; i < prepared.nodes.size(); ++i) {
    Tree* place = &root;
    for (const std::string& scope : prepared.nodes[i].scope) {
      place = &place->scopes[scope];
    }
    place->nodes.push_back(i);
  }
  std::string out = "digraph diptych {\n  graph [label=" +
                    quoted(shorten(printable(std::string_view(diagram.title).substr(0, 1000)), 200)) +
                    ", labelloc=t, rankdir=" + (diagram.direction == Direction::top_down ? "TB" : "LR") +
                    ", fontname=\"sans\"];\n";
  out +=
      "  node [shape=box, style=rounded, fontname=\"sans\", fontsize=11];\n  edge [fontname=\"sans\", fontsize=9];\n";
  int cluster = 0;
  write(root, prepared, "  ", cluster, out);
  for (const PlacedEdge& edge : prepared.layout.edges) {
    out += fmt::format("  n{} -> n{} [label={}];\n", edge.from, edge.to, quoted(edge.label));
  }
  return out + "}\n";
}

}  // namespace diptych::reports
