#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace diptych::profiler {

/// Reads (and writes switches in) /proc, /sys and /etc below a root, so that tests can substitute a machine of their
/// own.
class SystemFiles {
 public:
  explicit SystemFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}

  /// The whole file without trailing white space; nullopt if it can't be read. `path` is absolute.
  [[nodiscard]] std::optional<std::string> read(std::string_view path) const;
  /// The file as one integer or decimal number.
  [[nodiscard]] std::optional<double> read_number(std::string_view path) const;
  [[nodiscard]] std::optional<std::int64_t> read_integer(std::string_view path) const;
  /// The value of the first line "key : value" or "key=value" (quotes removed).
  [[nodiscard]] std::optional<std::string> read_field(std::string_view path, std::string_view key) const;
  /// Writes to an existing file, such as the kernel's switches; false if that fails.
  [[nodiscard]] bool write(std::string_view path, std::string_view text) const;
  /// The sorted names in a folder; empty if it doesn't exist.
  [[nodiscard]] std::vector<std::string> list(std::string_view path) const;
  [[nodiscard]] bool is_this_machine() const { return root_ == "/"; }

 private:
  [[nodiscard]] std::filesystem::path below_root(std::string_view path) const;
  std::filesystem::path root_;
};

/// The number that `text` starts with, after white space.
std::optional<double> leading_number(std::string_view text);
std::optional<std::int64_t> leading_integer(std::string_view text);

/// "0-2,5" -> {0, 1, 2, 5}; stops at the first part that isn't a list.
std::vector<int> parse_cpu_list(std::string_view text);

/// The choice in brackets: "always [madvise] never" -> "madvise".
std::optional<std::string> selected_choice(std::string_view text);

/// Seconds that the hypervisor withheld from this machine's CPUs since boot (/proc/stat); NaN if unknown. Real
/// machines, and hypervisors that don't report it, give 0.
double steal_seconds(const SystemFiles& files = SystemFiles());

/// The 1-minute load average; NaN if unknown.
double load_average(const SystemFiles& files = SystemFiles());

}  // namespace diptych::profiler
