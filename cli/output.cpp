#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

#include <fmt/format.h>

#include "framework/core/error.h"

namespace diptych::cli {
namespace {

std::string cannot_write(int error) {
  return fmt::format("cannot write to standard output{}; what was to be printed is lost",
                     error != 0 ? fmt::format(": {}", std::strerror(error)) : "");
}

}  // namespace

void claim_standard_output() {
  if (fcntl(STDOUT_FILENO, F_GETFD) < 0) {
    while (true) {
      const int descriptor = open("/dev/null", O_RDONLY);  // for reading, so that writes fail as they should
      if (descriptor < 0 || descriptor >= STDOUT_FILENO) {
        return;
      }
    }
  }
}

std::string lost_output() {
  errno = 0;
  const bool failed_before = std::ferror(stdout) != 0;  // errno may have changed since
  if (failed_before) {
    std::fputc('\n', stdout);  // fails for the same reason, even if nothing was left to write
  }
  const bool fails_now = std::fflush(stdout) != 0;
  return failed_before || fails_now ? cannot_write(fails_now ? errno : 0) : "";
}

DocumentOnStandardOutput::DocumentOnStandardOutput() {
  std::fflush(stdout);
  output_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (output_ < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    throw FileError(cannot_write(errno));
  }
}

DocumentOnStandardOutput::~DocumentOnStandardOutput() {
  std::fflush(stdout);
  dup2(output_, STDOUT_FILENO);
  close(output_);
}

void DocumentOnStandardOutput::write(const std::string& text) {
  std::fflush(stdout);
  for (std::string_view left = text; !left.empty();) {
    const ssize_t written = ::write(output_, left.data(), left.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      throw FileError(cannot_write(errno));
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace diptych::cli
