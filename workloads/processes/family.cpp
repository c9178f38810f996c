#include "workloads/processes/family.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <signal.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "DIPTYCH_CHILD=";

/// The roots of this process's families.
class Roots {
 public:
  void add(pid_t root) {
    const std::lock_guard lock(mutex_);
    roots_.insert(root);
  }
  void remove(pid_t root) {
    const std::lock_guard lock(mutex_);
    roots_.erase(root);
  }
  std::set<pid_t> all() const {
    const std::lock_guard lock(mutex_);
    return roots_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<pid_t> roots_;
};
Roots roots;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): processes are the whole program's

struct Relations {
  Family::Member member;
  pid_t group = 0;
};

/// From "pid (name) state ppid pgrp ...": the name may contain anything. The times are fields 14 to 17.
std::optional<Relations> relations_of(const fs::path& process) {
  std::ifstream file(process / "stat");
  std::string line;
  std::getline(file, line);
  Relations found;
  found.member.pid = static_cast<pid_t>(std::strtol(process.filename().c_str(), nullptr, 10));
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string state;
  fields >> state >> found.member.parent >> found.group;
  found.member.has_ended = state == "Z" || state == "X";
  for (int i = 0; i < 8; ++i) {
    fields >> state;
  }
  double ticks = 0;
  for (int i = 0; i < 4; ++i) {
    double part = 0;
    fields >> part;
    ticks += part;
  }
  found.member.cpu_seconds = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  return fields ? std::optional(found) : std::nullopt;
}

std::vector<Relations> all_processes() {
  std::vector<Relations> processes;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const char first = entry->path().filename().native()[0];
    if (first >= '0' && first <= '9') {
      if (const auto process = relations_of(entry->path())) {
        processes.push_back(*process);
      }
    }
  }
  return processes;
}

/// The mark that the process was started with; empty if there is none, or it can't be read.
std::string mark_of(const fs::path& process) {
  std::ifstream file(process / "environ");
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (is_family_mark(variable)) {
      return variable;
    }
  }
  return "";
}

}  // namespace

bool is_family_mark(const std::string& variable) { return variable.starts_with(kMark); }

std::string family_mark() {
  static std::atomic<unsigned> number{0};
  return fmt::format("{}{:08x}{:08x}", kMark, getpid(), number++);  // as long for every process
}

fs::path Family::Member::folder() const { return fmt::format("/proc/{}", pid); }

void Family::adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

Family::Family(pid_t root, std::string mark) : root_(root), mark_(std::move(mark)) { roots.add(root); }

Family::~Family() {
  if (root_ > 0) {
    roots.remove(root_);
  }
}

Family::Family(Family&& other) noexcept : root_(std::exchange(other.root_, -1)), mark_(std::move(other.mark_)) {}

Family& Family::operator=(Family&& other) noexcept {
  std::swap(root_, other.root_);
  std::swap(mark_, other.mark_);
  return *this;
}

std::vector<Family::Member> Family::members() const {
  const std::vector<Relations> processes = all_processes();
  const std::set<pid_t> own = roots.all();
  const pid_t self = getpid();
  const pid_t own_group = getpgrp();
  // One that lost its parent is ours now. Without the mark it is the only family's, or that of the last one to end,
  // unless it is in our group, like what other parts of this program start.
  const auto is_orphan = [&](const Relations& process) {
    if (process.member.parent != self || own.contains(process.member.pid)) {
      return false;
    }
    const std::string mark = mark_of(process.member.folder());
    return (!mark.empty() && mark == mark_) || (own.size() == 1 && process.group != own_group);
  };
  std::set<pid_t> family;
  for (const Relations& process : processes) {
    if (process.member.pid == root_ || process.group == root_ || is_orphan(process)) {
      family.insert(process.member.pid);
    }
  }
  for (bool grows = true; grows;) {
    grows = false;
    for (const Relations& process : processes) {
      grows = (family.contains(process.member.parent) && family.insert(process.member.pid).second) || grows;
    }
  }
  std::vector<Member> members;
  for (const Relations& process : processes) {
    if (family.contains(process.member.pid)) {
      members.push_back(process.member);
    }
  }
  return members;
}

void Family::end() const {
  if (root_ < 0) {
    return;
  }
  using SteadyClock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{2};  // one that waits for a disk ends later
  const SteadyClock::time_point latest = SteadyClock::now() + kPatience;
  kill(-root_, SIGKILL);
  const pid_t self = getpid();
  // What has been killed starts nothing more, but what it had started meanwhile is seen only by looking again.
  for (bool some_left = true; some_left && SteadyClock::now() < latest;) {
    some_left = false;
    for (const Member& member : members()) {
      if (member.pid == root_) {
        some_left = some_left || !member.has_ended;
        continue;
      }
      kill(member.pid, SIGKILL);
      some_left = member.parent != self || waitpid(member.pid, nullptr, WNOHANG) == 0 || some_left;
    }
    if (some_left) {
      usleep(1000);
    }
  }
}

}  // namespace diptych::workloads
