#include "cli/subprocess.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/pipe.h"
#include "reports/text/text.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks programs to declare it

namespace diptych::cli {
namespace {

/// Reads both streams until both end, so that neither pipe fills up.
void read_both(Pipe& output, Pipe& error, ProgramResult& result) {
  std::array<pollfd, 2> waiting = {{{output.read_end, POLLIN, 0}, {error.read_end, POLLIN, 0}}};
  const std::array<std::string*, 2> targets = {&result.output, &result.error};
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
      return;
    }
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) {
        continue;
      }
      std::array<char, 65536> chunk{};
      const ssize_t got = read(waiting[i].fd, chunk.data(), chunk.size());
      if (got > 0) {
        targets[i]->append(chunk.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        waiting[i].fd = -1;
      }
    }
  }
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& command, const std::string& folder) {
  Pipe output;
  Pipe error;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error.write_end, STDERR_FILENO);
  if (!folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  }
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failure = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    throw Error(fmt::format("can't run '{}': {}", reports::printable(command.front()), std::strerror(failure)));
  }
  Pipe::shut(output.write_end);
  Pipe::shut(error.write_end);
  ProgramResult result;
  read_both(output, error, result);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string last_lines(const std::string& text, int lines) {
  std::size_t end = text.find_last_not_of("\n ");
  if (end == std::string::npos) {
    return "";
  }
  std::size_t start = end + 1;
  for (int i = 0; i < lines && start != std::string::npos && start > 0; ++i) {
    start = text.rfind('\n', start - 1);
  }
  return text.substr(start == std::string::npos ? 0 : start + 1,
                     end + 1 - (start == std::string::npos ? 0 : start + 1));
}

}  // namespace diptych::cli
