#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/io/atomic_file.h"

namespace diptych::cli {
namespace {

std::string cannot_write(int error) {
  return fmt::format("cannot write to standard output{}; what was to be printed is lost",
                     error != 0 ? fmt::format(": {}", std::strerror(error)) : "");
}

}  // namespace

void claim_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0) {
      // The lowest free descriptor, which is this one. Standard output is open for reading, so that writes fail.
      [[maybe_unused]] const int opened = open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
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

void print_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void complain(std::string_view message) { print_error(fmt::format("diptych: {}\n", message)); }

DocumentOutput::DocumentOutput(std::string place) : place_(std::move(place)) {
  if (place_ != "-" && (place_.empty() || io::own_descriptor(place_) != STDOUT_FILENO)) {
    return;
  }
  std::fflush(stdout);
  output_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (output_ < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    throw FileError(cannot_write(errno));
  }
}

DocumentOutput::~DocumentOutput() {
  if (is_standard_output()) {
    std::fflush(stdout);
    dup2(output_, STDOUT_FILENO);
    close(output_);
  }
}

void DocumentOutput::write(const std::string& text) {
  if (!is_standard_output()) {
    io::AtomicFile file(place_, "another file");
    file.write(text.data(), text.size());
    file.commit();
    return;
  }
  std::fflush(stdout);
  if (const int error = io::write_all(output_, text); error != 0) {
    throw FileError(cannot_write(error));
  }
}

void refuse_one_stream(const DocumentOutput& a, std::string_view option_a, const DocumentOutput& b,
                       std::string_view option_b) {
  if (a.is_standard_output() && b.is_standard_output()) {
    throw Error(fmt::format("{} and {} both go to standard output, where they can't be told apart; name a file for one",
                            option_a, option_b));
  }
}

}  // namespace diptych::cli
