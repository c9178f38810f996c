#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// A picture made by `render_svg`, with the caption under which it appears.
struct NamedSvg {
  std::string name;
  std::string svg;
};

struct RenderOptions {
  /// Shown after the cells. What contains a script, a link or an event handler is refused and named instead.
  std::vector<NamedSvg> diagrams;
};

/// report.html: one file, no network, readable without JavaScript, light and dark. Order: headline, overview, one
/// section per cell, diagrams, environment. The run itself is embedded as JSON (#run).
std::string render_html(const nlohmann::json& run, const RenderOptions& options = {});

}  // namespace diptych::reports
