#include "reports/text/text_table.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "reports/text/text.h"

namespace diptych::reports {

std::string coloured(const std::string& value, const std::string& tone, bool colour) {
  if (!colour || value.empty()) {
    return value;
  }
  const char* code = tone == "faster" ? "34;1" : tone == "slower" ? "33;1" : tone == "dim" ? "2" : "1";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, value);
}

std::string wrapped(const std::string& label, const std::string& body, int width, bool colour) {
  const std::string indent(static_cast<std::size_t>(display_width(label)) + 2, ' ');
  const int room = std::max(20, width - static_cast<int>(indent.size()));
  std::string out;
  std::string line;
  const auto flush = [&] {
    out += (out.empty() ? fmt::format("  {}", coloured(label, "dim", colour)) : indent) + line + "\n";
    line.clear();
  };
  for (std::size_t start = 0; start < body.size();) {
    const std::size_t end = std::min(body.find(' ', start), body.size());
    const std::string word = shorten(body.substr(start, end - start), room);
    if (!line.empty() && display_width(line) + 1 + display_width(word) > room) {
      flush();
    }
    line += (line.empty() ? "" : " ") + word;
    start = end + 1;
  }
  flush();
  return out;
}

TextTable::TextTable(std::vector<std::string> header, std::string tone)
    : rows_{std::move(header)}, tones_{std::move(tone)}, notes_{""} {}

void TextTable::add(std::vector<std::string> fields, std::string tone, std::string note) {
  fields.resize(rows_.front().size());
  rows_.push_back(std::move(fields));
  tones_.push_back(std::move(tone));
  notes_.push_back(std::move(note));
}

int TextTable::width() const {
  const std::vector<int> widths = column_widths(rows_);
  return std::accumulate(widths.begin(), widths.end(), 2 * (static_cast<int>(widths.size()) - 1));
}

std::string TextTable::render(bool colour, int width) const {
  const std::vector<int> widths = column_widths(rows_);
  std::string out;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const std::vector<std::string>& fields = rows_[row];
    std::string line;
    for (std::size_t i = 0; i + 1 < fields.size(); ++i) {
      line += padded(fields[i], widths[i]) + "  ";
    }
    const std::string last = shorten(fields.back(), std::max(0, width - display_width(line)));
    out += shorten(line, width) + coloured(last, tones_[row], colour && !tones_[row].empty()) + "\n" + notes_[row];
    if (row == 0) {
      out += std::string(static_cast<std::size_t>(std::min(this->width(), width)), '-') + "\n";
    }
  }
  return out;
}

}  // namespace diptych::reports
