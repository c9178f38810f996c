#pragma once

#include <string_view>

/// Files of reports/schema and reports/assets, embedded at build time.
namespace diptych::reports::assets {

std::string_view run_schema();
std::string_view report_css();
std::string_view report_js();
/// Used by the diagrams, alone and inside the report.
std::string_view diagram_css();
/// Used by the pictures of profiles, alone and inside the report.
std::string_view profile_css();
/// The graph explorer: its page with "{{name}}" where something is filled in, and its script in three parts.
std::string_view graph_html();
std::string_view graph_css();
std::string_view graph_js();
std::string_view graph_heat_js();
std::string_view graph_panel_js();

}  // namespace diptych::reports::assets
