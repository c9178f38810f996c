#pragma once

#include <string>
#include <vector>

namespace diptych::profiler {

enum class Align : unsigned char { left, right };

/// Formats rows of printable cells as aligned columns, separated by two spaces, without trailing spaces.
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
