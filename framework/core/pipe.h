#pragma once

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "framework/core/error.h"

namespace diptych {

/// A pipe of POSIX. Both ends close with the object, and when another program is executed. Throws Error if the process
/// has no descriptors left.
struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(fmt::format("can't make a pipe to another process: {}", std::strerror(errno)));
    }
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    shut(read_end);
    shut(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  /// Closes an end before its time: a reader sees the end of the stream when no writer is left.
  static void shut(int& end) {
    if (end >= 0) {
      close(std::exchange(end, -1));
    }
  }
};

/// During its lifetime, a write to a pipe that nobody reads any more is an error (EPIPE) and doesn't end this process:
/// the signal is blocked in this thread, and removed if it came.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_signal_);
    sigaddset(&pipe_signal_, SIGPIPE);
    sigset_t pending;
    was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_signal_, &before_);
  }
  ~NoPipeSignal() {
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&pipe_signal_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_signal_;
  sigset_t before_;
  bool was_pending_;
};

}  // namespace diptych
