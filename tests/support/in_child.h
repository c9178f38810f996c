#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace diptych::testing {

/// Runs `body` in a child of fork(), which has none of the threads that this process has, and may take a minute; true
/// if it returns true. Under ThreadSanitizer it can't start threads of its own.
template <class Body>
bool in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace diptych::testing
