#pragma once

#include <cerrno>
#include <cstring>
#include <fcntl.h>
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

}  // namespace diptych
