#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

/// A child process and all that it has started, wherever that has gone: a process that leaves its group and session,
/// and whose parent has ended, still belongs to its family.
namespace diptych::workloads {

/// "DIPTYCH_CHILD=...": with it in a child's environment, those that it starts can be told from another child's.
std::string family_mark();
bool is_family_mark(const std::string& variable);

class Family {
 public:
  struct Member {
    pid_t pid = 0;
    pid_t parent = 0;
    bool has_ended = false;  ///< it waits for its parent to take note
    double cpu_seconds = 0;  ///< with that of those that it has waited for

    std::filesystem::path folder() const;
  };

  /// From now on this process is the parent of all orphans among its descendants. Called before a child is started.
  static void adopt_orphans();

  Family() = default;  ///< of nobody
  /// `root`: a child of this process and the leader of its own group; `mark`: the family_mark() in its environment;
  /// empty: none.
  Family(pid_t root, std::string mark);
  ~Family();
  Family(Family&& other) noexcept;
  Family& operator=(Family&& other) noexcept;
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  /// The root, while it hasn't been waited for, and the others. Empty if /proc can't be read.
  std::vector<Member> members() const;
  /// Ends all of them and waits for them, but for the root: whoever started it waits for it.
  void end() const;

 private:
  pid_t root_ = -1;
  std::string mark_;
};

}  // namespace diptych::workloads
