#include "reports/diagram.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "reports/assets.h"
#include "reports/format.h"
#include "reports/layout.h"
#include "reports/svg.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

constexpr std::array<const char*, 15> class_names = {
    "input",  "constant", "matmul",  "convolution", "elementwise", "reduction", "normalisation", "shape",
    "memory", "random",   "control", "optimizer",   "fused",       "output",    "other"};

const char* name_of(NodeClass node_class) { return class_names[static_cast<std::size_t>(node_class)]; }

const char* name_of(Emphasis emphasis) {
  switch (emphasis) {
    case Emphasis::added:
      return "added";
    case Emphasis::removed:
      return "removed";
    case Emphasis::fused:
      return "fused";
    case Emphasis::none:
      break;
  }
  return "";
}

std::string text_at(double x, double y, const std::string& css, const std::string& content,
                    const char* anchor = "middle") {
  return fmt::format(R"(<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>)", coordinate(x), coordinate(y), css,
                     anchor, escape_xml(content));
}

std::string rect_at(const Box& box, const char* css, double radius) {
  return fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" rx="{}" class="{}"/>)", coordinate(box.x),
                     coordinate(box.y), coordinate(box.width), coordinate(box.height), coordinate(radius), css);
}

std::string draw_cluster(const PlacedCluster& cluster) {
  return rect_at(cluster.box, "dg-scope", 8) +
         text_at(cluster.box.x + 10, cluster.box.y + 16, "dg-small", cluster.path.back(), "start") + "\n";
}

std::string draw_edge(const PlacedEdge& edge) {
  if (edge.curve.size() < 4) {
    return "";
  }
  std::string data = fmt::format("M{} {}C", coordinate(edge.curve[0].x), coordinate(edge.curve[0].y));
  for (std::size_t i = 1; i < edge.curve.size(); ++i) {
    data += fmt::format("{} {} ", coordinate(edge.curve[i].x), coordinate(edge.curve[i].y));
  }
  // The head is drawn here and not with a marker: markers need ids, and don't survive every converter.
  const Point tip = edge.curve.back();
  Point from = edge.curve[edge.curve.size() - 2];
  if (std::hypot(tip.x - from.x, tip.y - from.y) < 0.5) {
    from = edge.curve[edge.curve.size() - 3];
  }
  const double length = std::max(1e-6, std::hypot(tip.x - from.x, tip.y - from.y));
  const double ux = (tip.x - from.x) / length;
  const double uy = (tip.y - from.y) / length;
  const auto corner = [&](double back, double side) {
    return coordinate(tip.x - back * ux - side * uy) + " " + coordinate(tip.y - back * uy + side * ux);
  };
  return fmt::format(R"(<path d="{}" class="dg-edge"/><path d="M{}L{}L{}Z" class="dg-head"/>)", data, corner(0, 0),
                     corner(7, 3.2), corner(7, -3.2)) +
         "\n";
}

std::string draw_edge_label(const PlacedEdge& edge) {
  if (edge.label.empty() || edge.curve.size() < 4) {
    return "";
  }
  const Point middle = edge.curve[edge.curve.size() / 2];
  const Point at = edge.label_at.value_or(middle);
  return text_at(at.x, at.y + 4, "dg-small dg-halo", edge.label) + "\n";
}

std::string draw_node(const DiagramNode& node, const Box& box, const std::string& id) {
  const std::string emphasis = name_of(node.emphasis);
  std::string out = fmt::format(R"(<g id="{}" class="dg-node k-{}{}">)", id, name_of(node.node_class),
                                emphasis.empty() ? "" : " dg-" + emphasis);
  std::string tooltip = node.tooltip;
  if (!emphasis.empty()) {
    tooltip += (tooltip.empty() ? "" : ", ") + emphasis;
  }
  if (!tooltip.empty()) {
    out += fmt::format("<title>{}</title>", escape_xml(tooltip));
  }
  out += rect_at(box, "dg-box", 6) + rect_at(box, "dg-tint", 6);
  out += rect_at({box.x, box.y + 6, 3, box.height - 12}, "dg-stripe", 1.5);
  double y = box.y + 7 + 0.75 * line_height;
  const double centre = box.x + box.width / 2;
  for (std::size_t i = 0; i < node.label.size(); ++i) {
    out += text_at(centre, y, i == 0 ? "dg-name" : "dg-small", node.label[i]);
    y += line_height;
  }
  if (node.heat) {
    const double share = std::isfinite(*node.heat) ? std::clamp(*node.heat, 0.0, 1.0) : 0;
    const double room = box.width - 60;
    out += rect_at({box.x + 12, box.y + box.height - 14, std::max(1.0, room * share), 5}, "dg-heat", 2);
    out += text_at(box.x + box.width - 8, box.y + box.height - 8, "dg-small", format_percent(share), "end");
  }
  // A sign beside the colour, for eyes and printers that don't tell colours apart.
  const char* sign = node.emphasis == Emphasis::added ? "+" : node.emphasis == Emphasis::removed ? "−" : "";
  if (*sign != '\0') {
    out += text_at(box.x + box.width - 9, box.y + 14, "dg-name", sign);
  }
  return out + "</g>\n";
}

std::string draw_legend(const Prepared& prepared, double y) {
  std::set<NodeClass> present;
  for (const DiagramNode& node : prepared.nodes) {
    present.insert(node.node_class);
  }
  std::string out;
  double x = 0;
  for (const NodeClass node_class : present) {
    const std::string name = name_of(node_class);
    out += fmt::format(R"(<g class="k-{}">{}</g>)", name, rect_at({x, y - 9, 10, 10}, "dg-stripe", 2));
    out += text_at(x + 15, y, "dg-small", name, "start");
    x += 34 + static_cast<double>(name.size()) * 6.2;
  }
  return out;
}

double legend_width(const Prepared& prepared) {
  std::set<NodeClass> present;
  double width = 0;
  for (const DiagramNode& node : prepared.nodes) {
    if (present.insert(node.node_class).second) {
      width += 34 + static_cast<double>(std::string(name_of(node.node_class)).size()) * 6.2;
    }
  }
  return width;
}

Layout lay_out(const Prepared& prepared, const DiagramOptions& options) {
  if (prepared.nodes.size() > options.most_nodes) {
    Layout plain = plain_layout(prepared);
    plain.note = fmt::format("plain layout: {} nodes are more than {}", prepared.nodes.size(), options.most_nodes);
    return plain;
  }
  if (auto layout = graphviz_layout(prepared, options.cpu_seconds)) {
    return *layout;
  }
  Layout plain = plain_layout(prepared);
  plain.note = "plain layout: Graphviz did not finish";
  return plain;
}

std::string safe_prefix(const std::string& prefix) {
  std::string out;
  for (const char c : prefix) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out.push_back(c);
    }
  }
  return out.empty() || std::isdigit(static_cast<unsigned char>(out.front())) != 0 ? "d" + out : out;
}

}  // namespace

NodeClass node_class_from(const std::string& name) {
  const auto found = std::find(class_names.begin(), class_names.end(), name);
  return found == class_names.end() ? NodeClass::other : static_cast<NodeClass>(found - class_names.begin());
}

std::string render_svg(const Diagram& diagram, const DiagramOptions& options) {
  const Prepared prepared = prepare(diagram);
  const Layout layout = lay_out(prepared, options);
  const std::string title = shorten(printable(std::string_view(diagram.title).substr(0, 1000)), 100);
  const std::string prefix = safe_prefix(options.id_prefix);
  constexpr double margin = 16;
  const double head = (title.empty() ? 0.0 : 26.0) + (layout.note.empty() ? 0.0 : 18.0);
  const double text_width = std::max({diagram.legend ? legend_width(prepared) : 0.0, display_width(title) * 8.6,
                                      static_cast<double>(layout.note.size()) * 6.2});
  const double width = std::max(layout.width, text_width) + 2 * margin;
  const double height = layout.height + head + (diagram.legend ? 30 : 0) + 2 * margin;
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="dg" id="{}" width="{}" height="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">)",
      prefix, coordinate(width), coordinate(height), coordinate(width), coordinate(height), escape_xml(title));
  out += fmt::format("<style>{}</style>\n", assets::diagram_css());
  // Drawn and not left to the viewer, which may put a dark picture on a white page.
  out += rect_at({0, 0, width, height}, "dg-box", 0);
  out += fmt::format(R"svg(<g transform="translate({} {})">)svg", coordinate(margin), coordinate(margin));
  if (!title.empty()) {
    out += text_at(0, 14, "dg-title", title, "start");
  }
  if (!layout.note.empty()) {
    out += text_at(0, head - 8, "dg-small", layout.note, "start");
  }
  out += fmt::format(R"svg(<g transform="translate({} {})">)svg", coordinate(0.5 * (width - 2 * margin - layout.width)),
                     coordinate(head)) +
         "\n";
  for (const PlacedCluster& cluster : layout.clusters) {
    out += draw_cluster(cluster);
  }
  for (const PlacedEdge& edge : layout.edges) {
    out += draw_edge(edge);
  }
  for (std::size_t i = 0; i < prepared.nodes.size(); ++i) {
    out += draw_node(prepared.nodes[i], layout.nodes[i], fmt::format("{}-n{}", prefix, i));
  }
  for (const PlacedEdge& edge : layout.edges) {
    out += draw_edge_label(edge);
  }
  out +=
      "</g>\n" + (diagram.legend ? draw_legend(prepared, head + layout.height + 28) : std::string()) + "</g></svg>\n";
  return out;
}

}  // namespace diptych::reports
