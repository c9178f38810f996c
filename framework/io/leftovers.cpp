#include "framework/io/leftovers.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <signal.h>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace diptych::io {
namespace {

constexpr std::string_view kEnding = ".part";

/// So that the temporary file's name isn't too long where the output's fits.
std::string_view kept_of(std::string_view name) { return name.substr(0, 200); }

struct Leftover {
  std::string_view name;  ///< of the output
  pid_t process = 0;
};

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Of a file's name as temporary_beside() makes them.
std::optional<Leftover> parse_leftover(std::string_view file) {
  if (!file.starts_with('.') || !file.ends_with(kEnding)) {
    return std::nullopt;
  }
  file.remove_prefix(1);
  file.remove_suffix(kEnding.size());
  const std::size_t dot = file.rfind('.');
  const std::size_t dash = file.rfind('-');
  if (dot == std::string_view::npos || dot == 0 || dash == std::string_view::npos || dash < dot) {
    return std::nullopt;
  }
  const auto process = whole_number(file.substr(dot + 1, dash - dot - 1));
  if (!process || *process == 0 || *process > INT32_MAX || !whole_number(file.substr(dash + 1))) {
    return std::nullopt;
  }
  return Leftover{file.substr(0, dot), static_cast<pid_t>(*process)};
}

bool is_alive(pid_t process) { return kill(process, 0) == 0 || errno != ESRCH; }

/// Removes it if its writer has ended: another process may have that number by now, or have it in another container.
void remove_if_abandoned(const std::filesystem::path& file, pid_t process) {
  struct stat status {};
  const bool is_own = process == getpid();  // the first process of every container has the same number
  if (lstat(file.c_str(), &status) != 0 || status.st_uid != geteuid() || (!is_own && is_alive(process))) {
    return;
  }
  if (S_ISLNK(status.st_mode) && !is_own) {
    unlink(file.c_str());
  }
  if (!S_ISREG(status.st_mode)) {
    return;
  }
  const int descriptor = open(file.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    return;
  }
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    unlink(file.c_str());  // with the lock: a writer that has just made it gets to know
  }
  close(descriptor);
}

}  // namespace

std::filesystem::path temporary_beside(const std::filesystem::path& target) {
  static std::atomic<std::uint64_t> number{0};
  std::filesystem::path temporary = target;
  temporary.replace_filename(
      fmt::format(".{}.{}-{}{}", kept_of(target.filename().native()), getpid(), number++, kEnding));
  return temporary;
}

bool keep_from_removal(int descriptor) {
  struct stat status {};
  const bool is_taken = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return !is_taken && fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

void remove_leftovers(const std::filesystem::path& folder, std::string_view name) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename().native();
    const auto leftover = parse_leftover(file);
    if (leftover && (name.empty() || leftover->name == kept_of(name))) {
      remove_if_abandoned(entry->path(), leftover->process);
    }
  }
}

}  // namespace diptych::io
