#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace diptych::cli {

/// Whether to colour standard output: it is a terminal, TERM is not "dumb", and NO_COLOR is not set.
bool wants_colour();
/// Columns of standard output; 140 if it is not a terminal.
int terminal_width();

/// "about 40 s left", "about 3 min left"; empty if unknown.
std::string left_text(std::optional<double> seconds);

/// These words as a line that a shell reads back unchanged. Safe to print, whatever the words contain.
std::string shell_line(const std::vector<std::string>& words);

/// One line on standard error that is rewritten as work progresses; does nothing unless that is a terminal.
class StatusLine {
 public:
  /// Work that is mostly done at once shows nothing before it has taken `after`.
  explicit StatusLine(std::chrono::duration<double> after = {});
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  void show(const std::string& text);
  /// Prints a permanent line above the changing one; on terminals only.
  void say(const std::string& text);
  void clear();

 private:
  bool active_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point from_;
};

/// When somebody who waits wants to see that something happens.
inline constexpr std::chrono::seconds kPatience{2};

/// While this lives, the first Ctrl-C (SIGINT or SIGTERM) sets `stop()`; the second ends the program.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static const std::atomic<bool>& stop();
};

}  // namespace diptych::cli
