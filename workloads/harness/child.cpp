#include "workloads/harness/child.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "framework/core/error.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks programs to declare it

namespace diptych::workloads {

Child::Child(const std::vector<std::string>& command, const std::vector<std::string>& environment, int handed_over,
             int as) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(fmt::format("can't make a pipe for a measuring process: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (handed_over >= 0) {
    posix_spawn_file_actions_adddup2(&actions, handed_over, as);  // also of itself: without close-on-exec then
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: Ctrl-C reaches the parent alone, which then decides.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const auto pointers = [](const std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (const std::string& text : strings) {
      result.push_back(const_cast<char*>(text.c_str()));
    }
    result.push_back(nullptr);
    return result;
  };
  const std::vector<char*> argv = pointers(command);
  const std::vector<char*> envp = pointers(environment);
  const int failure = posix_spawn(&pid_, command[0].c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  output_ = ends[0];
  if (failure != 0) {
    close(output_);
    throw Error(fmt::format("can't start a measuring process ({}): {}", command[0], std::strerror(failure)));
  }
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  close(output_);
}

Child::Read Child::read_line(std::string& line, int milliseconds) {
  for (;;) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Read::line;
    }
    pollfd wait_for{output_, POLLIN, 0};
    const int ready = poll(&wait_for, 1, milliseconds);
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      return Read::timeout;
    }
    char chunk[1 << 16];
    const ssize_t got = read(output_, chunk, sizeof chunk);
    if (got <= 0) {
      return Read::end;
    }
    buffer_.append(chunk, static_cast<std::size_t>(got));
  }
}

bool Child::has_ended(std::string& how) {
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) {
    return false;
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) {
    how = fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    how = fmt::format("ended with exit code {}", WEXITSTATUS(status));
  }
  return true;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

}  // namespace diptych::workloads
