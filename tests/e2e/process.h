#pragma once

#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/support/machine_watch.h"

/// Runs a program as a user's shell would, and keeps all its output.
namespace diptych::testing {

/// The streams that are a terminal; the others are pipes.
enum class Terminal { none, output, error, both };

struct Command {
  std::vector<std::string> arguments;                   ///< the program first
  std::string folder = {};                              ///< to run in; empty: this process's
  std::map<std::string, std::string> environment = {};  ///< on top of this process's; TERM is set, NO_COLOR is not
  Terminal terminal = Terminal::none;
  std::size_t file_size_limit = 0;  ///< RLIMIT_FSIZE in bytes; 0: none
  std::size_t memory_limit = 0;     ///< RLIMIT_AS in bytes; 0: none
  double timeout = 180;             ///< seconds after which it is killed: for hangs, also beside others
};

struct Outcome {
  int exit_code = -1;  ///< -1: ended by a signal
  int signal = 0;
  bool timed_out = false;
  double seconds = 0;
  double cpu_seconds = 0;     ///< its own, and those of the processes that it has waited for
  MachineState machine = {};  ///< while it ran: it and this process aren't "others"
  std::string output, error;  ///< with a terminal for both, `output` has both
};

/// A running program in a session of its own, so that its descendants can be found whatever their process groups.
class Process {
 public:
  explicit Process(Command command);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const Outcome& so_far() const { return outcome_; }
  void send(int signal) const;
  /// As typed at its terminal.
  void type(const std::string& text) const;
  /// Direct children that are alive.
  std::vector<pid_t> children() const;
  /// Live processes of its session, without itself.
  std::vector<pid_t> descendants() const;
  /// Reads its output until `condition` holds; false if it ends, or time is up, before that.
  bool wait_until(const std::function<bool()>& condition);
  /// Waits for its end.
  Outcome finish();

 private:
  /// Reads what there is, waiting up to `milliseconds`.
  void pump(int milliseconds);
  bool collect();

  Command command_;
  Outcome outcome_;
  MachineWatch watch_;
  pid_t pid_ = -1;
  bool ended_ = false;
  double started_ = 0;
  int terminal_ = -1;
  int output_ = -1, error_ = -1;  ///< what this side reads; -1 once closed
};

Outcome run_command(Command command);

}  // namespace diptych::testing
