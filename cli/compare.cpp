#include "reports/gate/compare.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/measurements.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "reports/gate/documents.h"
#include "reports/html/compare_page.h"
#include "reports/run/run_file.h"
#include "reports/run/verdicts.h"
#include "reports/text/text.h"
#include "reports/views/compare_views.h"

namespace diptych::cli {

int compare(const CompareVerbOptions& options) {
  reports::CompareOptions how;
  how.by = options.by == "arm"       ? reports::CompareBy::arm
           : options.by == "machine" ? reports::CompareBy::machine
                                     : reports::CompareBy::commit;
  how.force_time = options.force_time;
  const nlohmann::json base = load_measurements(options.base);
  const nlohmann::json head = load_measurements(options.head);
  const nlohmann::json comparison = reports::compare_runs(base, head, how);
  const reports::ComparisonDocument document = comparison;
  const reports::SideNames names{options.base, options.head};
  fmt::print("{}", reports::render_comparison(document, names, {wants_colour(), terminal_width()}));
  if (!options.json.empty()) {
    reports::write_atomically(options.json, reports::to_text(comparison));
  }
  if (!options.page.empty()) {
    const std::filesystem::path page = std::filesystem::path(options.page) / "compare.html";
    std::filesystem::create_directories(options.page);
    reports::write_atomically(page, reports::render_compare_page(document, base, head, names));
    fmt::print("{}\n", reports::printable(page.string()));
  }
  if (!options.markdown.empty()) {
    reports::write_atomically(options.markdown, reports::render_comparison_markdown(document, names));
  }
  if (document.summary().verdict() == reports::Verdict::invalid) {
    fmt::print(stderr, "diptych: nothing could be compared: {}\n",
               document.rows().empty() ? "the two sides have no cell in common" : "no row is valid");
    return kCannotTell;
  }
  return kSuccess;
}

}  // namespace diptych::cli
