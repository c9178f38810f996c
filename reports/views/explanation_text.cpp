#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "reports/text/text.h"
#include "reports/views/explanation.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

constexpr int kColumns = 120;
constexpr int kLabelColumns = 11;
constexpr int kBodyColumns = kColumns - kLabelColumns;
constexpr std::size_t kMostLines = 24;

/// Lines of at most so many columns, broken at spaces; a word that is longer is cut.
std::vector<std::string> folded_lines(const std::string& text, int columns) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = shorten(text.substr(at, end - at), columns);
    if (!line.empty() && display_width(line) + 1 + display_width(word) > columns) {
      lines.push_back(line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  if (!line.empty()) {
    lines.push_back(line);
  }
  return lines;
}

/// At most `most` lines; "..." at the end says that there is more.
std::vector<std::string> capped(std::vector<std::string> lines, std::size_t most) {
  if (lines.size() > most) {
    lines.resize(most);
    lines.back() = shorten(lines.back(), kBodyColumns - 4) + " ...";
  }
  return lines;
}

std::vector<std::string> table_lines(const TextRows& rows) {
  std::vector<Align> columns(rows.front().size(), Align::right);
  columns.front() = columns.back() = Align::left;
  std::vector<std::string> lines = aligned_lines(rows, columns);
  for (std::string& line : lines) {
    line = shorten(line, kBodyColumns);
  }
  return lines;
}

std::vector<std::string> suggestion_lines(const std::vector<Suggestion>& suggestions) {
  constexpr int kCommandColumns = 62;
  TextRows rows;
  for (const Suggestion& each : suggestions) {
    // A command that is cut is none.
    if (display_width(each.command) <= kBodyColumns) {
      rows.push_back({each.command, each.reason});
    }
  }
  int widest = 0;
  for (const auto& row : rows) {
    const int width = display_width(row[0]);
    widest = width <= kCommandColumns ? std::max(widest, width) : widest;
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    const std::string command = padded(row[0], widest);
    const int left = kBodyColumns - display_width(command) - 2;
    constexpr int kLeastReason = 16;
    lines.push_back(left < kLeastReason ? row[0] : command + "  " + shorten(row[1], left));
  }
  return lines;
}

/// Where other frameworks take two lines, causes and fusion have one less each, so that what to try next stays whole.
std::size_t most_lines_of(const std::string& label, bool has_peers) {
  static const std::map<std::string, std::size_t> most = {{"Causes", 4}, {"Ops", 6}, {"Fusion", 3}, {"Next", 5}};
  const auto found = most.find(label);
  const std::size_t lines = found == most.end() ? 2 : found->second;
  return has_peers && (label == "Causes" || label == "Fusion") ? lines - 1 : lines;
}

std::string as_paragraph(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) {
    text += (text.empty() ? "" : " ") + sentence;
  }
  return text;
}

std::vector<std::string> lines_of(const AnswerPart& point, bool has_peers) {
  const std::size_t most = most_lines_of(point.label, has_peers);
  if (!point.rows.empty()) {
    return capped(table_lines(point.rows), most);
  }
  if (!point.suggestions.empty()) {
    return capped(suggestion_lines(point.suggestions), most);
  }
  return capped(folded_lines(as_paragraph(point.sentences), kBodyColumns), most);
}

}  // namespace

std::string render_explanation(const Run& run, const Cell& cell, double calls) {
  std::vector<std::string> lines = {
      shorten(fmt::format("{}, {}", shorten(printable(cell.workload()), 50), printable(setup_line(run))), kColumns)};
  const std::vector<AnswerPart> points = explain(run, cell, calls);
  const bool has_peers =
      std::any_of(points.begin(), points.end(), [](const AnswerPart& point) { return point.label == "Against"; });
  for (const AnswerPart& point : points) {
    const std::vector<std::string> body = lines_of(point, has_peers);
    for (std::size_t i = 0; i < body.size(); ++i) {
      lines.push_back(padded(i == 0 ? point.label : "", kLabelColumns) + body[i]);
    }
  }
  if (lines.size() > kMostLines) {
    lines.resize(kMostLines);
  }
  std::string out;
  for (const std::string& line : lines) {
    out += line + "\n";
  }
  return out;
}

std::string markdown_explanation(const Run& run, const Cell& cell, double calls) {
  std::string out = fmt::format("# Why: {}\n\n{}\n", escape_markdown(cell.workload()),
                                escape_markdown(setup_line(run, Glyphs::typographic)));
  for (const AnswerPart& point : explain(run, cell, calls, Glyphs::typographic)) {
    out += fmt::format("\n## {}\n\n", point.label);
    for (const std::string& sentence : point.sentences) {
      out += escape_markdown(sentence) + "\n";
    }
    for (std::size_t i = 0; i < point.rows.size(); ++i) {
      for (const std::string& field : point.rows[i]) {
        out += "| " + escape_markdown(field) + " ";
      }
      out += i == 0 ? "|\n|---|--:|--:|--:|---|\n" : "|\n";
    }
    for (const Suggestion& each : point.suggestions) {
      out += fmt::format("{}:\n\n{}\n", escape_markdown(each.reason), markdown_code_block(each.command));
    }
  }
  return out;
}

}  // namespace diptych::reports
