#include "tests/e2e/process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks programs to declare it

namespace diptych::testing {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::generic_category().message(errno));
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    variables[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  variables.erase("NO_COLOR");
  variables["TERM"] = "xterm-256color";
  variables["GIT_CONFIG_GLOBAL"] = variables["GIT_CONFIG_SYSTEM"] = "/dev/null";  // no signatures, no hooks
  for (const auto& [name, value] : changes) {
    variables[name] = value;
  }
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) {
    result.push_back(name + "=" + value);
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

/// Appends what is readable; closes at the end. A terminal whose other side is gone gives EIO.
void read_some(int& descriptor, std::string& text) {
  char chunk[1 << 14];
  const ssize_t got = read(descriptor, chunk, sizeof chunk);
  if (got > 0) {
    text.append(chunk, static_cast<std::size_t>(got));
  } else if (got == 0 || errno != EINTR) {
    close(descriptor);
    descriptor = -1;
  }
}

struct ProcessState {
  pid_t pid, parent, session;
  char state;
};

std::vector<ProcessState> all_processes() {
  std::vector<ProcessState> result;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    std::ifstream file(entry.path() / "stat");
    std::stringstream text;
    text << file.rdbuf();
    // "pid (name) state parent group session ..."; the name may hold anything.
    const std::size_t end = text.str().rfind(')');
    if (end == std::string::npos) {
      continue;  // gone meanwhile
    }
    std::istringstream rest(text.str().substr(end + 1));
    ProcessState process{static_cast<pid_t>(std::stol(name)), 0, 0, ' '};
    pid_t group = 0;
    rest >> process.state >> process.parent >> group >> process.session;
    if (process.state != 'Z' && process.state != 'X') {
      result.push_back(process);
    }
  }
  return result;
}

}  // namespace

Process::Process(Command command) : command_(std::move(command)) {
  std::vector<std::string> environment = merged_environment(command_.environment);
  const std::vector<char*> argv = pointers(command_.arguments);
  const std::vector<char*> envp = pointers(environment);
  int output_ends[2], error_ends[2];
  if (pipe2(output_ends, O_CLOEXEC) != 0 || pipe2(error_ends, O_CLOEXEC) != 0) {
    fail("pipe");
  }
  int terminal_end = -1;
  if (command_.terminal != Terminal::none) {
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal_ < 0 || grantpt(terminal_) != 0 || unlockpt(terminal_) != 0) {
      fail("posix_openpt");
    }
    terminal_end = open(ptsname(terminal_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const winsize size{.ws_row = 50, .ws_col = 160, .ws_xpixel = 0, .ws_ypixel = 0};
    if (terminal_end < 0 || ioctl(terminal_end, TIOCSWINSZ, &size) != 0) {
      fail("pseudo-terminal");
    }
  }
  const bool output_is_terminal = command_.terminal == Terminal::output || command_.terminal == Terminal::both;
  const bool error_is_terminal = command_.terminal == Terminal::error || command_.terminal == Terminal::both;

  started_ = now_seconds();
  pid_ = fork();
  if (pid_ < 0) {
    fail("fork");
  }
  if (pid_ == 0) {
    setsid();
    int input = terminal_end;
    if (terminal_end >= 0) {
      ioctl(terminal_end, TIOCSCTTY, 0);
    } else {
      input = open("/dev/null", O_RDONLY);
    }
    dup2(input, STDIN_FILENO);
    dup2(output_is_terminal ? terminal_end : output_ends[1], STDOUT_FILENO);
    dup2(error_is_terminal ? terminal_end : error_ends[1], STDERR_FILENO);
    if (!command_.folder.empty() && chdir(command_.folder.c_str()) != 0) {
      _exit(126);
    }
    if (command_.file_size_limit > 0) {
      const rlimit limit{command_.file_size_limit, command_.file_size_limit};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (command_.memory_limit > 0) {
      const rlimit limit{command_.memory_limit, command_.memory_limit};
      setrlimit(RLIMIT_AS, &limit);
    }
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(output_ends[1]);
  close(error_ends[1]);
  if (terminal_end >= 0) {
    close(terminal_end);
  }
  const auto reading_end = [&](bool is_terminal, int pipe_end) {
    if (!is_terminal) {
      return pipe_end;
    }
    close(pipe_end);
    return fcntl(terminal_, F_DUPFD_CLOEXEC, 0);
  };
  output_ = reading_end(output_is_terminal, output_ends[0]);
  if (command_.terminal == Terminal::both) {
    close(error_ends[0]);
  } else {
    error_ = reading_end(error_is_terminal, error_ends[0]);
  }
}

Process::~Process() {
  if (!ended_) {
    for (const pid_t pid : descendants()) {
      kill(pid, SIGKILL);
    }
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int descriptor : {output_, error_, terminal_}) {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
}

void Process::send(int signal) const {
  if (!ended_) {
    kill(pid_, signal);
  }
}

void Process::type(const std::string& text) const {
  if (write(terminal_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail("write to the pseudo-terminal");
  }
}

std::vector<pid_t> Process::children() const {
  std::vector<pid_t> result;
  for (const ProcessState& process : all_processes()) {
    if (process.parent == pid_) {
      result.push_back(process.pid);
    }
  }
  return result;
}

std::vector<pid_t> Process::descendants() const {
  std::vector<pid_t> result;
  for (const ProcessState& process : all_processes()) {
    if (process.session == pid_ && process.pid != pid_) {
      result.push_back(process.pid);
    }
  }
  return result;
}

void Process::pump(int milliseconds) {
  pollfd wait_for[2] = {{output_, POLLIN, 0}, {error_, POLLIN, 0}};  // negative descriptors are skipped
  if (poll(wait_for, 2, milliseconds) <= 0) {
    return;
  }
  if (wait_for[0].revents != 0) {
    read_some(output_, outcome_.output);
  }
  if (wait_for[1].revents != 0) {
    read_some(error_, outcome_.error);
  }
}

bool Process::collect() {
  int status = 0;
  rusage usage{};
  if (!ended_ && wait4(pid_, &status, WNOHANG, &usage) == pid_) {
    ended_ = true;
    outcome_.seconds = now_seconds() - started_;
    outcome_.cpu_seconds = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    outcome_.machine = watch_.state();
    outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  return ended_;
}

bool Process::wait_until(const std::function<bool()>& condition) {
  while (!condition()) {
    if (collect() || now_seconds() - started_ > command_.timeout) {
      return condition();
    }
    pump(2);
  }
  return true;
}

Outcome Process::finish() {
  while (!collect()) {
    if (now_seconds() - started_ > command_.timeout) {
      outcome_.timed_out = true;
      for (const pid_t pid : descendants()) {
        kill(pid, SIGKILL);
      }
      kill(pid_, SIGKILL);
    }
    pump(20);
  }
  // A descendant that outlives it may hold the streams open: what is there counts, not their end.
  for (int idle = 0; idle < 3 && (output_ >= 0 || error_ >= 0);) {
    const std::size_t before = outcome_.output.size() + outcome_.error.size();
    pump(20);
    idle = outcome_.output.size() + outcome_.error.size() == before ? idle + 1 : 0;
  }
  return outcome_;
}

Outcome run_command(Command command) { return Process(std::move(command)).finish(); }

}  // namespace diptych::testing
