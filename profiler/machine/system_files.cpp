#include "profiler/machine/system_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include "profiler/machine/cpu_times.h"

namespace diptych::profiler {

namespace {

constexpr std::string_view white_space = " \t\n\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(white_space);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(white_space) - first + 1);
}

template <typename Number>
std::optional<Number> parse_start(std::string_view text) {
  text = trimmed(text);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::filesystem::path SystemFiles::below_root(std::string_view path) const {
  return root_ / path.substr(path.starts_with('/') ? 1 : 0);
}

std::optional<std::string> SystemFiles::read(std::string_view path) const {
  std::error_code error;
  const std::filesystem::path file = below_root(path);
  if (std::filesystem::is_directory(file, error)) {
    return std::nullopt;
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return std::nullopt;
  }
  std::ostringstream text;
  text << stream.rdbuf();
  if (stream.bad()) {
    return std::nullopt;
  }
  std::string result = std::move(text).str();
  result.erase(result.find_last_not_of(white_space) + 1);
  return result;
}

bool SystemFiles::write(std::string_view path, std::string_view text) const {
  std::error_code error;
  const std::filesystem::path file = below_root(path);
  if (!std::filesystem::exists(file, error)) {
    return false;
  }
  std::ofstream stream(file, std::ios::binary);
  stream << text << std::flush;
  return stream.good();
}

std::optional<double> SystemFiles::read_number(std::string_view path) const {
  const std::optional<std::string> text = read(path);
  return text ? leading_number(*text) : std::nullopt;
}

std::optional<std::int64_t> SystemFiles::read_integer(std::string_view path) const {
  const std::optional<std::string> text = read(path);
  return text ? leading_integer(*text) : std::nullopt;
}

std::optional<std::string> SystemFiles::read_field(std::string_view path, std::string_view key) const {
  const std::optional<std::string> text = read(path);
  if (!text) {
    return std::nullopt;
  }
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t separator = line.find_first_of(":=");
    if (separator == std::string::npos || trimmed(std::string_view(line).substr(0, separator)) != key) {
      continue;
    }
    std::string_view value = trimmed(std::string_view(line).substr(separator + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return std::string(value);
  }
  return std::nullopt;
}

std::vector<std::string> SystemFiles::list(std::string_view path) const {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(below_root(path), error);
  if (!error) {
    for (const auto& entry : entries) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<double> leading_number(std::string_view text) { return parse_start<double>(text); }

std::optional<std::int64_t> leading_integer(std::string_view text) { return parse_start<std::int64_t>(text); }

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc()) {
      break;
    }
    int last = first;
    if (parsed.ptr != end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc() || last - first > 1 << 16) {
        break;
      }
    }
    for (int cpu = first; cpu <= last; ++cpu) {
      cpus.push_back(cpu);
    }
    at = parsed.ptr != end && *parsed.ptr == ',' ? parsed.ptr + 1 : end;
  }
  return cpus;
}

std::optional<std::string> selected_choice(std::string_view text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(text.substr(open + 1, close - open - 1));
}

double steal_seconds(const SystemFiles& files) {
  const std::optional<MachineTimes> machine = machine_times(files);
  return machine ? machine->all.stolen : std::numeric_limits<double>::quiet_NaN();
}

double load_average(const SystemFiles& files) {
  return files.read_number("/proc/loadavg").value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace diptych::profiler
