#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace diptych::profiler {

/// `text` without control characters and invalid UTF-8 (a terminal would obey the first), cut to `max_width`
/// characters.
std::string printable(std::string_view text, std::size_t max_width = 200);

/// Characters, not bytes.
std::size_t display_width(std::string_view printable_text);

enum class Align : unsigned char { left, right };

/// Rows of cells as aligned columns, two spaces between them, no trailing spaces.
class TextTable {
 public:
  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] std::string render() const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "812 ns", "1.24 us", "17.3 ms", "2.50 s"; keeps a minus sign.
std::string format_duration(double nanoseconds);

/// "512 B", "64.0 KiB", "3.20 GiB"
std::string format_bytes(double bytes);

}  // namespace diptych::profiler
