#include "reports/diagrams/diagram.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reports/assets.h"
#include "reports/diagrams/layout.h"
#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"

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

/// A sign in addition to the colour, for eyes and printers that don't distinguish colours.
const char* sign_of(Emphasis emphasis) {
  return emphasis == Emphasis::added ? "+" : emphasis == Emphasis::removed ? "−" : "";
}

/// Escapes text of several lines, such as a tooltip.
std::string escape_lines(const std::string& text) {
  std::string out;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    out += (start == 0 ? "" : "\n") + escape_xml(std::string_view(text).substr(start, end - start));
    start = end + 1;
  }
  return out;
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
  if (edge.hidden || edge.curve.size() < 4) {
    return "";
  }
  std::string data = fmt::format("M{} {}C", coordinate(edge.curve[0].x), coordinate(edge.curve[0].y));
  for (std::size_t i = 1; i < edge.curve.size(); ++i) {
    data += fmt::format("{} {} ", coordinate(edge.curve[i].x), coordinate(edge.curve[i].y));
  }
  // The head is drawn here rather than as a marker: markers need ids, and not every converter keeps them.
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
  std::string out =
      fmt::format(R"(<g{} class="dg-node k-{}{}"{}>)", id.empty() ? "" : fmt::format(R"( id="{}")", id),
                  name_of(node.node_class), emphasis.empty() ? "" : " dg-" + emphasis, op_attributes(node.place));
  std::string tooltip = node.tooltip;
  if (!emphasis.empty()) {
    tooltip += (tooltip.empty() ? "" : ", ") + emphasis;
  }
  if (!tooltip.empty()) {
    out += fmt::format("<title>{}</title>", escape_lines(tooltip));
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
  if (const char* sign = sign_of(node.emphasis); *sign != '\0') {
    out += text_at(box.x + box.width - 9, box.y + 14, "dg-name", sign);
  }
  return out + "</g>\n";
}

/// Beside the node's group, not in it: a button in a button is none.
std::string draw_chips(const DiagramNode& node, const Box& box) {
  std::string out;
  double y = box.y + box.height - 7 - chips_height(node.chips.size());
  for (const std::string& chip : node.chips) {
    y += chip_gap;
    out += R"(<g class="dg-chip">)" + rect_at({box.x + 8, y, box.width - 16, chip_height}, "dg-chip-box", 6) +
           text_at(box.x + box.width / 2, y + 14, "dg-small", chip) + "</g>\n";
    y += chip_height;
  }
  return out;
}

/// The meaning of a colour or a sign in the picture.
struct LegendEntry {
  NodeClass node_class = NodeClass::other;
  Emphasis emphasis = Emphasis::none;  ///< a small box in this style
  std::string sign;                    ///< text instead of the sample
  std::string text;

  double sample_width() const {
    return sign.empty() ? emphasis == Emphasis::none ? 10 : 16 : text_width(sign, name_size);
  }
  double width() const { return sample_width() + 5 + text_width(text, small_size) + 18; }
  bool is_colour() const { return sign.empty() && emphasis == Emphasis::none; }
};

std::vector<LegendEntry> legend_of(const Diagram& diagram, const Prepared& prepared) {
  std::vector<LegendEntry> entries;
  if (!diagram.legend) {
    return entries;
  }
  std::set<NodeClass> classes;
  std::set<Emphasis> emphases;
  for (const DiagramNode& node : prepared.nodes) {
    classes.insert(node.node_class);
    emphases.insert(node.emphasis);
  }
  for (const NodeClass node_class : classes) {
    entries.push_back({node_class, Emphasis::none, "", name_of(node_class)});
  }
  if (emphases.contains(Emphasis::added)) {
    entries.push_back(
        {NodeClass::other, Emphasis::none, sign_of(Emphasis::added), "new or changed since the stage before"});
  }
  if (emphases.contains(Emphasis::removed)) {
    entries.push_back({NodeClass::other, Emphasis::none, sign_of(Emphasis::removed), "gone since the stage before"});
  }
  if (emphases.contains(Emphasis::fused)) {
    entries.push_back({NodeClass::other, Emphasis::fused, "", "stands for other source ops than before"});
  }
  if (diagram.numbers) {
    entries.push_back({NodeClass::other, Emphasis::none, "%9 =", "the value that nodes further away read as %9"});
  }
  return entries;
}

constexpr double legend_line = 18;
constexpr const char* kNotFinished = "Graphviz did not finish";

/// The rows of the legend, and the room that they take.
struct DrawnLegend {
  std::string svg;
  double width = 0, height = 0;
};

/// Draws downwards from `y`; colours and signs don't share a row.
DrawnLegend draw_legend(const std::vector<LegendEntry>& entries, double y, double room) {
  DrawnLegend drawn;
  double x = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const LegendEntry& entry = entries[i];
    if (i == 0 || (x > 0 && (x + entry.width() > room || entry.is_colour() != entries[i - 1].is_colour()))) {
      x = 0;
      drawn.height += legend_line;
    }
    const double line = y + drawn.height;
    if (!entry.sign.empty()) {
      drawn.svg += text_at(x, line, "dg-name", entry.sign, "start");
    } else if (entry.emphasis != Emphasis::none) {
      drawn.svg += fmt::format(R"(<g class="k-other dg-{}">{}</g>)", name_of(entry.emphasis),
                               rect_at({x + 1, line - 9, 14, 9}, "dg-tint", 2));
    } else {
      drawn.svg += fmt::format(R"(<g class="k-{}">{}</g>)", name_of(entry.node_class),
                               rect_at({x, line - 9, 10, 10}, "dg-stripe", 2));
    }
    drawn.svg += text_at(x + entry.sample_width() + 5, line, "dg-small", entry.text, "start");
    x += entry.width();
    drawn.width = std::max(drawn.width, x);
  }
  return drawn;
}

Layout plainly(const Prepared& prepared, std::string why) {
  Layout plain = plain_layout(prepared);
  plain.note = "plain layout: " + std::move(why);
  return plain;
}

Layout lay_out(const Prepared& prepared, const DiagramOptions& options) {
  if (prepared.nodes.size() > options.most_nodes) {
    return plainly(prepared, fmt::format("{} nodes are more than {}", prepared.nodes.size(), options.most_nodes));
  }
  const std::optional<Layout> layout = graphviz_layouts({&prepared, 1}, options.cpu_seconds).front();
  return layout ? *layout : plainly(prepared, kNotFinished);
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

std::string draw(const Prepared& prepared, const Layout& layout, const std::string& prefix) {
  std::string out;
  for (const PlacedCluster& cluster : layout.clusters) {
    out += draw_cluster(cluster);
  }
  for (const PlacedEdge& edge : layout.edges) {
    out += draw_edge(edge);
  }
  for (std::size_t i = 0; i < prepared.nodes.size(); ++i) {
    out += draw_node(prepared.nodes[i], layout.nodes[i], prefix.empty() ? "" : fmt::format("{}-n{}", prefix, i)) +
           draw_chips(prepared.nodes[i], layout.nodes[i]);
  }
  for (const PlacedEdge& edge : layout.edges) {
    out += draw_edge_label(edge);
  }
  return out;
}

/// The signs that a page puts on a box's corner lie half outside of it.
constexpr double bare_margin = 10;

std::string bare_svg(const Prepared& prepared, const Layout& layout) {
  const std::string width = coordinate(layout.width + 2 * bare_margin);
  const std::string height = coordinate(layout.height + 2 * bare_margin);
  return fmt::format(
      R"svg(<svg class="dg" width="{0}" height="{1}" viewBox="0 0 {0} {1}"><g transform="translate({2} {2})">)svg"
      "\n{3}</g></svg>\n",
      width, height, coordinate(bare_margin), draw(prepared, layout, ""));
}

}  // namespace

std::vector<std::string> bare_svgs(const std::vector<Diagram>& diagrams, int cpu_seconds,
                                   const std::function<void(std::size_t done)>& done) {
  std::vector<Prepared> prepared;
  std::transform(diagrams.begin(), diagrams.end(), std::back_inserter(prepared), prepare);
  const std::vector<std::optional<Layout>> layouts = graphviz_layouts(prepared, cpu_seconds, done);
  std::vector<std::string> pictures;
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    pictures.push_back(bare_svg(prepared[i], layouts[i] ? *layouts[i] : plainly(prepared[i], kNotFinished)));
  }
  return pictures;
}

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
  constexpr double title_size = 15;
  constexpr double least_width = 480;  // so that the legend of a small graph still has two columns
  const double heading = std::max(text_width(title, title_size), text_width(layout.note, small_size));
  const DrawnLegend legend = draw_legend(legend_of(diagram, prepared), head + layout.height + 10,
                                         std::max({layout.width, heading, least_width}));
  const double width = std::max({layout.width, heading, legend.width}) + 2 * margin;
  const double height = layout.height + head + (diagram.legend ? legend.height + 12 : 0) + 2 * margin;
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="dg" id="{}" width="{}" height="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">)",
      prefix, coordinate(width), coordinate(height), coordinate(width), coordinate(height), escape_xml(title));
  out += fmt::format("<style>{}</style>\n", assets::diagram_css());
  // The background is drawn here and not left to the viewer, which may put a dark picture on a white page.
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
  out += draw(prepared, layout, prefix);
  out += "</g>\n" + legend.svg + "</g></svg>\n";
  return out;
}

}  // namespace diptych::reports
