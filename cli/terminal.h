#pragma once

#include <atomic>
#include <string>

namespace diptych::cli {

/// Whether to colour what goes to standard output: a terminal, TERM not "dumb", NO_COLOR not set.
bool wants_colour();
/// Columns of standard output; 140 where it is no terminal.
int terminal_width();

/// One line on standard error that is rewritten as work goes on; nothing unless it is a terminal.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  void show(const std::string& text);
  /// A line that stays, above the one that changes; on terminals only.
  void say(const std::string& text);
  void clear();

 private:
  bool active_;
  bool shown_ = false;
};

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
