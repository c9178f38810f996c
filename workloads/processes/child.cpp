#include "workloads/processes/child.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/pipe.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks programs to declare it

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) {
    result.push_back(const_cast<char*>(text.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

int milliseconds_until(SteadyClock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, -1, 1 << 30));
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// From "ran waited timeslices", in nanoseconds.
double waited_in(const fs::path& schedstat) {
  std::ifstream file(schedstat);
  double ran = 0;
  double waited = 0;
  file >> ran >> waited;
  return file ? waited * 1e-9 : 0;
}

}  // namespace

// Uses fork rather than posix_spawn, because the child must be told in between to end with its parent. The calls made
// there are safe with other threads.
Child::Child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
             const ChildOptions& options)
    : most_line_(options.most_line) {
  Pipe output;
  Pipe input;
  Pipe problem;  // why it can't be started; closed by the exec
  std::vector<std::string> variables = environment;
  std::erase_if(variables, is_family_mark);  // of a program that has started us
  const std::string mark = options.is_told ? family_mark() : "";
  if (!mark.empty()) {
    variables.push_back(mark);
  }
  const std::vector<char*> argv = pointers(command);
  const std::vector<char*> envp = pointers(variables);
  Family::adopt_orphans();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    throw Error(fmt::format("can't start a process ({}): {}", command[0], std::strerror(errno)));
  }
  if (child == 0) {
    // A separate group, so that Ctrl-C reaches only the parent, which then decides.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(127);
    }
    dup2(output.write_end, STDOUT_FILENO);
    if (options.is_told) {
      dup2(input.read_end, STDIN_FILENO);
    }
    if (problem.write_end == options.as) {
      problem.write_end = fcntl(problem.write_end, F_DUPFD_CLOEXEC, options.as + 1);
    }
    if (options.handed_over >= 0 && options.handed_over != options.as) {
      dup2(options.handed_over, options.as);
    } else if (options.handed_over >= 0) {
      fcntl(options.as, F_SETFD, 0);  // otherwise it would close with an exec
    }
    if (options.search_path) {
      execvpe(argv[0], argv.data(), envp.data());
    } else {
      execve(argv[0], argv.data(), envp.data());
    }
    const int why = errno;
    [[maybe_unused]] const ssize_t written = write(problem.write_end, &why, sizeof why);
    _exit(127);
  }
  pid_ = child;
  Pipe::shut(problem.write_end);
  int why = 0;
  ssize_t got = 0;
  do {
    got = read(problem.read_end, &why, sizeof why);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof why) {
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    throw Error(fmt::format("can't start a process ({}): {}", command[0], std::strerror(why)));
  }
  family_ = Family(pid_, mark);
  output_ = std::exchange(output.read_end, -1);
  if (options.is_told) {
    input_ = std::exchange(input.write_end, -1);
    fcntl(input_, F_SETFL, O_NONBLOCK);
  }
}

Child::~Child() {
  if (pid_ > 0) {
    family_.end();
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Pipe::shut(output_);
  Pipe::shut(input_);
}

bool Child::write_line(const std::string& line, int milliseconds) {
  const std::string bytes = line + '\n';
  const SteadyClock::time_point end_of_wait = SteadyClock::now() + std::chrono::milliseconds(milliseconds);
  std::size_t written = 0;
  const NoPipeSignal child_may_have_ended;
  while (written < bytes.size()) {
    const ssize_t count = write(input_, bytes.data() + written, bytes.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && errno == EAGAIN) {
      pollfd wait_for{input_, POLLOUT, 0};
      const int left = milliseconds_until(end_of_wait);
      if (left < 0 || poll(&wait_for, 1, left) == 0) {
        break;
      }
    } else if (count == 0 || errno != EINTR) {
      break;
    }
  }
  return written == bytes.size();
}

Child::Read Child::read_line(std::string& line, int milliseconds) {
  const SteadyClock::time_point end_of_wait = SteadyClock::now() + std::chrono::milliseconds(milliseconds);
  std::size_t searched = 0;
  bool looked = false;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (most_line_ > 0 && std::min(end, buffer_.size()) > most_line_) {
      return Read::too_long;
    }
    if (end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Read::line;
    }
    searched = buffer_.size();
    pollfd wait_for{output_, POLLIN, 0};
    const int left = milliseconds_until(end_of_wait);
    const int ready = left < 0 && looked ? 0 : poll(&wait_for, 1, std::max(left, 0));
    looked = true;  // at least once, however late it is
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
  if (pid_ < 0) {
    return true;
  }
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return false;
  }
  family_.end();  // what it has started; its process id stays taken until it is waited for
  int status = 0;
  rusage usage{};
  while (wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  family_ = Family();
  cpu_seconds_ = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  if (WIFSIGNALED(status)) {
    how = fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    how = fmt::format("ended with exit code {}", WEXITSTATUS(status));
  }
  return true;
}

double Child::cpu_seconds() {
  if (pid_ < 0) {
    return cpu_seconds_;
  }
  double seconds = 0;
  for (const Family::Member& member : family_.members()) {
    seconds += member.cpu_seconds;
  }
  // The time of a process that has ended without being waited for would be lost.
  cpu_seconds_ = std::max(cpu_seconds_, seconds);
  return cpu_seconds_;
}

double Child::waited_seconds() const {
  double seconds = 0;
  for (const profiler::ThreadTimes& thread : threads()) {
    seconds += thread.waited;
  }
  return seconds;
}

std::vector<profiler::ThreadTimes> Child::threads() const {
  std::vector<profiler::ThreadTimes> threads;
  for (const Family::Member& member : pid_ < 0 ? std::vector<Family::Member>() : family_.members()) {
    const auto found = profiler::thread_times(profiler::SystemFiles(), member.folder().string());
    threads.insert(threads.end(), found.begin(), found.end());
  }
  return threads;
}

double own_waited_seconds() { return waited_in("/proc/thread-self/schedstat"); }

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

}  // namespace diptych::workloads
