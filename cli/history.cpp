#include "cli/history.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "cli/run_folders.h"
#include "cli/terminal.h"
#include "framework/core/error.h"
#include "reports/history/reader.h"
#include "reports/html/start_page.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "reports/views/history_views.h"

namespace diptych::cli {

namespace {

namespace fs = std::filesystem;

/// The messages of files name them by their whole path, which stands beside the reason.
std::string reason_of(const std::exception& error, const fs::path& file) {
  std::string reason = error.what();
  const std::string quoted = fmt::format("'{}' ", reports::printable(file.string()));
  if (const std::size_t at = reason.find(quoted); at != std::string::npos) {
    reason.erase(at, quoted.size());
  }
  return reason;
}

/// Another page of that name, for example a site's, is not Diptych's to replace.
void refuse_foreign_page(const fs::path& page) {
  std::ifstream file(page, std::ios::binary);
  if (!file) {
    return;
  }
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  if (head.find("<meta name=\"generator\" content=\"Diptych\">") == std::string::npos) {
    throw Error(fmt::format("'{}' is there and was not written by Diptych; name another folder with --out, or move it",
                            reports::printable(page.string())));
  }
}

class FolderOfRuns {
 public:
  FolderOfRuns(std::string folder, fs::path out) : folder_(std::move(folder)), out_(std::move(out)) {}

  reports::History read() {
    RunFolders found = find_run_folders(folder_);
    left_out_ = std::move(found.left_out);
    StatusLine status;
    std::size_t done = 0;
    for (const fs::path& file : found.files) {
      status.show(fmt::format("reading run {} of {}", ++done, found.files.size()));
      add(file);
    }
    status.clear();
    if (reader_.runs() == 0) {
      refuse(found);
    }
    reports::History history = std::move(reader_).finish();
    history.folder = folder_;
    history.left_out = std::move(left_out_);
    history.looked_at = looked_at(found);
    return history;
  }

 private:
  std::string looked_at(const RunFolders& found) const {
    return fmt::format("Looked at {} run.json in {} folder{}, up to {} levels below {}", found.files.size(),
                       found.folders, found.folders == 1 ? "" : "s", kFolderLevels, reports::printable(folder_));
  }

  void add(const fs::path& file) {
    const fs::path path = fs::path(folder_) / file;
    try {
      const std::string content = reports::read_text_file(path);
      const auto [place, is_new] = contents_.try_emplace({content.size(), std::hash<std::string>()(content)}, file);
      if (!is_new) {
        left_out_.push_back({file.string(), "the same file as " + place->second.string()});
        return;
      }
      const nlohmann::json run = reports::parse_json(path, content);
      reports::check_run(path, run);
      reports::RunOfHistory about;
      about.folder = file.parent_path().string();
      about.report = report_beside(path);
      reader_.add(std::move(about), run);
    } catch (const std::exception& error) {
      left_out_.push_back({file.string(), reason_of(error, path)});
    }
  }

  /// Relative to the page; empty if there is none.
  std::string report_beside(const fs::path& run) const {
    const fs::path report = run.parent_path() / "report.html";
    std::error_code error;
    if (!fs::is_regular_file(report, error)) {
      return "";
    }
    return fs::absolute(report, error)
        .lexically_normal()
        .lexically_relative(fs::absolute(out_, error).lexically_normal())
        .string();
  }

  [[noreturn]] void refuse(const RunFolders& found) const {
    const std::string place = reports::printable(folder_);
    if (found.files.empty() && left_out_.empty()) {
      throw Error(fmt::format(
          "no run.json in '{}', nor in the {} folders up to {} levels below it; `diptych run --quick --out {}` "
          "measures a run into it, or name the folder that holds the runs' folders",
          place, found.folders, kFolderLevels, reports::shell_word(folder_)));
    }
    const reports::LeftOut& first = left_out_.front();
    throw Error(fmt::format("none of the {} runs below '{}' can be read; {}: {}", found.files.size(), place,
                            reports::printable(first.path), reports::printable(first.reason)));
  }

  std::string folder_;
  fs::path out_;
  reports::HistoryReader reader_;
  std::vector<reports::LeftOut> left_out_;
  std::map<std::pair<std::size_t, std::size_t>, fs::path> contents_;  // by length and hash
};

}  // namespace

int report_history(const ReportOptions& options) {
  const fs::path out = options.out.empty() ? options.run : options.out;
  const bool is_page = options.format == "html";
  const fs::path file = out / (is_page ? "index.html" : "history.json");
  if (is_page) {
    refuse_foreign_page(file);
  }
  const reports::History history = FolderOfRuns(options.run, out).read();
  fs::create_directories(out);
  reports::write_atomically(
      file, is_page ? reports::render_start_page(history) : reports::to_text(reports::history_document(history)));
  fmt::print("{}\n{}\n", reports::render_history(history, {wants_colour(), terminal_width()}),
             reports::printable(file.string()));
  return kSuccess;
}

}  // namespace diptych::cli
