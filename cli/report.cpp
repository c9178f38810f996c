#include <filesystem>

#include <fmt/format.h>

#include "cli/artifacts.h"
#include "cli/history.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "reports/html/html.h"
#include "reports/run/google_benchmark.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "reports/views/explanation.h"
#include "reports/views/markdown.h"
#include "reports/views/table.h"

namespace diptych::cli {

namespace {

int report_two(const ReportOptions& options) {
  if (options.format != "html") {
    throw Error(fmt::format("--format {} renders {}; leave out the second run, or the option", options.format,
                            options.format == "json" ? "a folder of runs" : "one run"));
  }
  const std::filesystem::path head = options.head;
  const std::filesystem::path beside = std::filesystem::is_directory(head) ? head : head.parent_path();
  CompareVerbOptions compared;
  compared.base = options.run;
  compared.head = options.head;
  compared.by = options.by;
  compared.force_time = options.force_time;
  compared.page = !options.out.empty() ? options.out : beside.empty() ? "." : beside.string();
  return compare(compared);
}

/// A folder with a run.json is that run's, whatever else it holds.
bool is_folder_of_runs(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) &&
         !std::filesystem::exists(std::filesystem::symlink_status(path / "run.json", ignored));
}

}  // namespace

int report(const ReportOptions& options) {
  if (!options.head.empty()) {
    return report_two(options);
  }
  if (options.by != "commit" || options.force_time) {
    throw Error("--by and --force-time belong to a page of two runs; name the second: `diptych report A B`");
  }
  std::filesystem::path path = options.run;
  if (is_folder_of_runs(path) && options.format != "google-benchmark") {
    return report_history(options);
  }
  if (!options.out.empty() || options.format == "json") {
    throw Error(
        "--out and --format json belong to a page of two runs or of a folder of runs; the views of one run stand "
        "beside its run.json: `diptych report A B` for two, `diptych report DIR` for a folder");
  }
  if (std::filesystem::is_directory(path)) {
    path /= "run.json";
  }
  const nlohmann::json run = reports::load_run(path);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (options.format == "google-benchmark") {
    const std::filesystem::path target = folder / "benchmark.json";
    reports::write_atomically(target, reports::to_text(reports::to_google_benchmark(run)));
    fmt::print("{}\n", reports::printable(target.string()));
    return kSuccess;
  }
  reports::write_atomically(folder / "summary.md", reports::render_markdown(run));
  StatusLine status(kPatience);
  reports::RenderOptions page{report_pictures(run, folder.string())};
  page.progress = [&](std::size_t done, std::size_t of) {
    status.show(fmt::format("report.html: cell {} of {}", done, of));
  };
  reports::write_atomically(folder / "report.html", reports::render_html(run, page));
  status.clear();
  if (const reports::Run view(run); view.why_calls() && !view.cells().empty()) {
    reports::write_atomically(folder / "why.md",
                              reports::markdown_explanation(view, view.cells()[0], *view.why_calls()));
  }
  fmt::print("{}\n{}\n{}\n", reports::render_table(run, {wants_colour(), terminal_width()}),
             reports::printable((folder / "report.html").string()),
             reports::printable((folder / "summary.md").string()));
  return kSuccess;
}

}  // namespace diptych::cli
