#include "reports/gate/compare.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/measurements.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/io/naming.h"
#include "reports/gate/compare_side.h"
#include "reports/gate/documents.h"
#include "reports/html/compare_page.h"
#include "reports/run/run_file.h"
#include "reports/run/verdicts.h"
#include "reports/text/text.h"
#include "reports/views/compare_sentences.h"
#include "reports/views/compare_views.h"

namespace diptych::cli {

int compare(const CompareVerbOptions& options) {
  DocumentOutput json(options.json);
  DocumentOutput markdown(options.markdown);
  refuse_one_stream(json, "--json", markdown, "--markdown");
  reports::CompareOptions how;
  how.by = options.by == "arm"       ? reports::CompareBy::arm
           : options.by == "machine" ? reports::CompareBy::machine
                                     : reports::CompareBy::commit;
  how.force_time = options.force_time;
  const nlohmann::json base = load_measurements(options.base);
  const nlohmann::json head = load_measurements(options.head);
  const auto side = [](const std::string& file, const nlohmann::json& run) {
    return io::naming(file, [&] { return reports::read_side(run); });
  };
  StatusLine status(kPatience);
  how.progress = [&, shown = -1](double share) mutable {
    if (const int percent = static_cast<int>(100 * share); percent != shown) {
      shown = percent;
      status.show(fmt::format("comparing: {} %", percent));
    }
  };
  const nlohmann::json comparison = reports::compare_sides(side(options.base, base), side(options.head, head), how);
  status.clear();
  const reports::ComparisonDocument document = comparison;
  const reports::SideNames names{options.base, options.head};
  fmt::print("{}", reports::render_comparison(document, names, {wants_colour(), terminal_width()}));
  if (json.is_wanted()) {
    json.write(reports::to_text(comparison));
  }
  if (!options.page.empty()) {
    const std::filesystem::path page = std::filesystem::path(options.page) / "compare.html";
    std::filesystem::create_directories(options.page);
    reports::write_atomically(page, reports::render_compare_page(document, base, head, names));
    fmt::print("{}\n", reports::printable(page.string()));
  }
  if (markdown.is_wanted()) {
    markdown.write(reports::render_comparison_markdown(document, names));
  }
  if (document.summary().verdict() == reports::Verdict::invalid) {
    complain(reports::comparison_headline(document));
    return kCannotTell;
  }
  return kSuccess;
}

}  // namespace diptych::cli
