#pragma once

#include <string_view>

/// Files of reports/schema and reports/assets, embedded at build time.
namespace diptych::reports::assets {

std::string_view run_schema();
std::string_view report_css();
std::string_view report_js();
/// Used by the diagrams, alone and inside the report.
std::string_view diagram_css();

}  // namespace diptych::reports::assets
