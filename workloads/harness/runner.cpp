#include "workloads/harness/runner.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "workloads/workload.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks programs to declare it

namespace diptych::workloads {
namespace {

using nlohmann::json;

/// A child process whose standard output is read line by line.
class Child {
 public:
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(fmt::format("can't make a pipe for a measuring process: {}", std::strerror(errno)));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
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
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    close(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class Read { line, end, timeout };
  /// Waits up to `milliseconds` for a whole line.
  Read read_line(std::string& line, int milliseconds) {
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

  /// Whether the process has ended, and how: "" if well. Doesn't wait.
  bool has_ended(std::string& how) {
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

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string buffer_;
};

class Runner {
 public:
  Runner(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks)
      : plan_(plan), worker_command_(worker_command), hooks_(hooks) {}

  RunResult run() {
    full_check_done_ = plan_.first_process > 0;
    Rng rng(plan_.seed);
    for (int process = 0; process < plan_.size.processes && !result_.interrupted; ++process) {
      const std::uint64_t process_seed = rng.next_u64() >> 11U;  // under 2^53: JSON readers keep it exact
      const std::size_t padding = rng.below(4096);
      if (process >= plan_.first_process) {
        run_process(process, process_seed, padding);
      }
    }
    return std::move(result_);
  }

 private:
  void run_process(int process, std::uint64_t process_seed, std::size_t padding) {
    std::vector<std::string> command = worker_command_;
    const auto option = [&](const char* name, const std::string& value) {
      command.emplace_back(name);
      command.push_back(value);
    };
    option("--workloads", fmt::format("{}", fmt::join(plan_.workloads, ",")));
    if (!plan_.arms.empty()) {
      option("--arms", fmt::format("{}", fmt::join(plan_.arms, ",")));
    }
    option("--seed", std::to_string(plan_.seed));
    option("--process-seed", std::to_string(process_seed));
    option("--rounds", std::to_string(plan_.size.rounds));
    option("--block-seconds", fmt::format("{}", plan_.size.block_seconds));
    if (full_check_done_) {
      command.emplace_back("--first-call-check");
    }
    if (!plan_.benchmark_options.empty()) {
      command.emplace_back("--");
      command.insert(command.end(), plan_.benchmark_options.begin(), plan_.benchmark_options.end());
    }
    std::vector<std::string> environment;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment.emplace_back(*variable);
    }
    environment.push_back("DIPTYCH_PADDING=" + std::string(padding, 'x'));

    Child child(command, environment);
    RunProgress progress{process + 1, plan_.size.processes, 0, plan_.workloads.size(), "", ""};
    std::string line;
    bool done = false;
    for (;;) {
      if (hooks_.stop != nullptr && hooks_.stop->load()) {
        result_.interrupted = true;
        return;  // the child is ended with its object
      }
      const Child::Read read = child.read_line(line, 100);
      if (read == Child::Read::end) {
        break;
      }
      if (read == Child::Read::line) {
        done = handle(line, progress) || done;
      }
    }
    full_check_done_ = full_check_done_ || done;
    std::string end;
    while (!child.has_ended(end)) {  // it may have closed its output and live on
      if (hooks_.stop != nullptr && hooks_.stop->load()) {
        result_.interrupted = true;
        return;
      }
      poll(nullptr, 0, 20);
    }
    if (!end.empty() || !done) {
      result_.problems.push_back(fmt::format("measuring process {} {}{}", process + 1,
                                             end.empty() ? "ended before it was done" : end,
                                             progress.workload.empty() ? "" : " in " + progress.workload));
    }
  }

  /// True for the last line of a worker.
  bool handle(const std::string& line, RunProgress& progress) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object()) {
      return false;  // something else wrote to standard output
    }
    const std::string kind = event.value("event", "");
    if (kind == "progress") {
      const std::string workload = event.value("workload", "");
      progress.cell += workload != progress.workload ? 1 : 0;
      progress.workload = workload;
      progress.what = event.value("what", "");
      if (hooks_.progress) {
        hooks_.progress(progress);
      }
    } else if (kind == "context") {
      result_.context = event["context"];
    } else if (kind == "cell") {
      merge(event["workload"], event["cell"]);
      if (hooks_.cell_done) {
        hooks_.cell_done(result_.cells);
      }
    } else if (kind == "error") {
      result_.problems.push_back(fmt::format("{}: {}", event.value("workload", ""), event.value("message", "")));
    }
    return kind == "done";
  }

  void merge(const std::string& name, const json& part) {
    for (json& cell : result_.cells) {
      if (cell["workload"] == name) {
        for (const json& process : part["processes"]) {
          cell["processes"].push_back(process);
        }
        const bool was_valid = cell["validity"]["agree"] == true;
        if (was_valid && part["validity"]["agree"] == false) {
          cell["validity"] = part["validity"];
        } else if (was_valid && !full_check_done_) {
          // An earlier process died before its end: this one made the whole check again.
          cell["validity"] = part["validity"];
          cell["metrics"] = part.value("metrics", json::array());
        }
        return;
      }
    }
    const Workload& workload = *find_workload(name);
    json cell = part;
    cell["workload"] = workload.name;
    cell["suite"] = workload.suite;
    cell["title"] = workload.title;
    cell["unit"] = workload.unit;
    cell["comparisons"] = json::array();
    cell["rungs"] = json::array();
    result_.cells.push_back(std::move(cell));
  }

  const RunPlan& plan_;
  const std::vector<std::string>& worker_command_;
  const RunHooks& hooks_;
  RunResult result_;
  bool full_check_done_ = false;  ///< by a process that came to its end
};

}  // namespace

RunResult run_processes(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks) {
  return Runner(plan, worker_command, hooks).run();
}

}  // namespace diptych::workloads
