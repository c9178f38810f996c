#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "reports/run/run.h"

namespace diptych::reports {

/// A picture made by `render_svg`, with the caption under which it appears.
struct NamedSvg {
  std::string name;
  std::string svg;
  std::string file = {};      ///< that also holds it, next to the page
  std::string left_out = {};  ///< why the page only links to it: "412 nodes are more than 160"; empty if it shows it
};

/// The picture of a workload's graph in `file`, a path relative to the page's folder. A picture with very many nodes is
/// only linked.
NamedSvg graph_picture(const std::string& workload, std::string svg, const std::string& file);

struct RenderOptions {
  /// Shown after the cells. A picture that contains a script, a link or an event handler is refused, and named instead.
  std::vector<NamedSvg> diagrams;
  /// Called with the number of cells that stand on the page, and of all.
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

/// report.html: one file, no network, readable without JavaScript, light and dark. Order: headline, overview, one
/// section per cell, diagrams, environment. The run itself is embedded as JSON (#run).
std::string render_html(const Run& run, const RenderOptions& options = {});

}  // namespace diptych::reports
