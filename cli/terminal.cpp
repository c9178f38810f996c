#include "cli/terminal.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <signal.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/output.h"
#include "reports/text/text.h"
#include "workloads/harness/plan.h"

namespace diptych::cli {
namespace {

std::atomic<bool> stop_requested{false};

void request_stop(int signal_number) {
  stop_requested.store(true);
  signal(signal_number, SIG_DFL);
}

int columns_of(int descriptor, int otherwise) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) == "dumb";
}

}  // namespace

bool wants_colour() { return isatty(STDOUT_FILENO) != 0 && !is_dumb() && std::getenv("NO_COLOR") == nullptr; }

int terminal_width() { return isatty(STDOUT_FILENO) != 0 ? columns_of(STDOUT_FILENO, 140) : 140; }

std::string left_text(std::optional<double> seconds) {
  if (!seconds) {
    return "";
  }
  const auto whole = [](double value) { return static_cast<long>(std::ceil(value)); };
  if (*seconds < 100) {
    return fmt::format("about {} s left", whole(*seconds));
  }
  const long minutes = whole(*seconds / 60);
  return minutes < 100 ? fmt::format("about {} min left", minutes)
                       : fmt::format("about {} h {} min left", minutes / 60, minutes % 60);
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += line.empty() ? "" : " ";
    if (reports::printable(word) == word) {
      line += workloads::shell_quoted(word);
      continue;
    }
    line += "$'";  // as in bash, zsh and POSIX 2024
    for (const char c : word) {
      const bool plain = c >= ' ' && c <= '~' && c != '\'' && c != '\\';
      line += plain ? std::string(1, c) : fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    }
    line += "'";
  }
  return line;
}

StatusLine::StatusLine(std::chrono::duration<double> after)
    : active_(isatty(STDERR_FILENO) != 0 && !is_dumb()), from_(std::chrono::steady_clock::now()) {
  const char* const at_once = std::getenv("DIPTYCH_PROGRESS");
  if (at_once == nullptr || std::string_view(at_once) != "always") {
    from_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(after);
  }
}
StatusLine::~StatusLine() { clear(); }

void StatusLine::show(const std::string& text) {
  if (active_ && std::chrono::steady_clock::now() >= from_) {
    print_error("\r\x1b[K" + reports::shorten(reports::printable(text), columns_of(STDERR_FILENO, 80) - 1));
    shown_ = true;
  }
}

void StatusLine::say(const std::string& text) {
  show(text);
  if (shown_) {
    print_error("\n");
    shown_ = false;
  }
}

void StatusLine::clear() {
  if (shown_) {
    print_error("\r\x1b[K");
    shown_ = false;
  }
}

InterruptGuard::InterruptGuard() {
  stop_requested.store(false);
  signal(SIGINT, request_stop);
  signal(SIGTERM, request_stop);
}
InterruptGuard::~InterruptGuard() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}
const std::atomic<bool>& InterruptGuard::stop() { return stop_requested; }

}  // namespace diptych::cli
