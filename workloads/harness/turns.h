#pragma once

#include <cstdint>
#include <utility>

/// Two measuring processes that take turns: round j of one beside round j of the other, tens of milliseconds apart, so
/// that what happens to the machine happens to both, and never both at once. Each round of the one stands before that
/// of the other as often as behind it: A1 | B1 B2 | A2 A3 | B3 B4 ...
namespace diptych::workloads {

/// One end of the connection, open while it lives.
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

/// Both ends, not inherited by children unless handed over. Throws Error.
std::pair<TurnSocket, TurnSocket> connected_sockets();

/// What a process times: so many rounds of blocks of so many calls.
struct Schedule {
  std::int64_t iterations = 0;
  std::int64_t rounds = 0;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// A process's view. Whoever is first has the turn at the beginning. When the other one has ended, every turn is ours.
class Turns {
 public:
  Turns(TurnSocket socket, bool first);
  ~Turns() { pass(); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Waits for the turn; returns at once if we have it.
  void take();
  /// Gives it to the other one; nothing if we don't have it.
  void pass();

  /// The larger of both numbers of iterations, and of rounds: the same for all that is compared. Takes and passes
  /// turns: returns in the first process when the second one has called it too.
  Schedule agree(const Schedule& own);
  /// Before and after each round.
  void begin_round() { take(); }
  void end_round(std::int64_t round) {
    if ((round % 2 == 0) == first_) {
      pass();
    }
  }

  /// CPU seconds of the other process when it last passed.
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
