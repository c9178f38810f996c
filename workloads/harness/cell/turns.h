#pragma once

#include <cstdint>
#include <utility>

/// Two measuring processes that take turns: round j of one runs next to round j of the other, tens of milliseconds
/// apart and never at the same time, so that what happens to the machine happens to both. Each process's round comes
/// first as often as second: A1 | B1 B2 | A2 A3 | B3 B4 ...
namespace diptych::workloads {

/// One end of the connection, open for the object's lifetime.
class TurnSocket {
 public:
  TurnSocket() = default;
  explicit TurnSocket(int descriptor) : descriptor_(descriptor) {}
  ~TurnSocket() { close(); }
  TurnSocket(TurnSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  TurnSocket& operator=(TurnSocket&& other) noexcept;
  TurnSocket(const TurnSocket&) = delete;
  TurnSocket& operator=(const TurnSocket&) = delete;

  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
};

/// Both ends; children don't inherit them unless they are handed over. Throws Error.
std::pair<TurnSocket, TurnSocket> connected_sockets();

/// What a process times: a number of rounds, with blocks of a number of calls.
struct Schedule {
  std::int64_t iterations = 0;
  std::int64_t rounds = 0;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// One process's view. The process that is first starts with the turn. Once the other one has ended, every turn is
/// ours.
class Turns {
 public:
  Turns(TurnSocket socket, bool first);
  ~Turns() { pass(); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Waits for the turn; returns at once if we have it.
  void take();
  /// Passes the turn to the other process; does nothing if we don't have it.
  void pass();

  /// Returns the larger number of iterations and the larger number of rounds of both processes, so that all that is
  /// compared has the same. Takes and passes turns: in the first process, it returns when the second one has called it
  /// too.
  Schedule agree(const Schedule& own);
  /// Before and after each round.
  void begin_round() { take(); }
  void end_round(std::int64_t round) {
    if ((round % 2 == 0) == first_) {
      pass();
    }
  }

  /// CPU seconds of the other process when it last passed the turn.
  double partner_cpu_seconds() const { return partner_cpu_seconds_; }
  bool has_partner() const { return has_partner_; }

 private:
  TurnSocket socket_;
  bool first_;
  bool ours_;
  bool has_partner_ = true;
  Schedule schedule_;
  double partner_cpu_seconds_ = 0;
};

}  // namespace diptych::workloads
