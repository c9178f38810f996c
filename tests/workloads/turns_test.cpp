// Two processes that take turns, played by two threads: the order in which they work, what they agree on, and what
// happens when one ends early.

#include "workloads/harness/cell/turns.h"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace diptych::workloads {
namespace {

using ::testing::ElementsAre;

/// What both do, in the order in which it happens.
class Log {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(what);
  }
  const std::vector<std::string>& entries() const { return entries_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> entries_;
};

/// As a cell does: prepare, agree, rounds, the rest.
void work(Turns& turns, Log& log, const std::string& name, const Schedule& own, int rounds) {
  turns.take();
  log.add(name + " prepares");
  EXPECT_EQ(turns.agree(own), (Schedule{70, 8}));
  for (int round = 0; round < rounds; ++round) {
    turns.begin_round();
    log.add(name + std::to_string(round + 1));
    turns.end_round(round);
  }
  turns.take();
  log.add(name + " ends");
}

std::vector<std::string> played(int rounds) {
  Log log;
  auto [one, other] = connected_sockets();
  std::thread second([&log, rounds, socket = std::move(other)]() mutable {
    Turns turns(std::move(socket), false);
    work(turns, log, "B", {70, 5}, rounds);
  });
  {
    Turns turns(std::move(one), true);
    work(turns, log, "A", {50, 8}, rounds);
  }
  second.join();
  return log.entries();
}

TEST(Turns, EachRoundStandsBeforeAndBehindThatOfTheOther) {
  EXPECT_THAT(played(4), ElementsAre("A prepares", "B prepares", "A1", "B1", "B2", "A2", "A3", "B3", "B4", "A4",
                                     "A ends", "B ends"));
  EXPECT_THAT(played(3),
              ElementsAre("A prepares", "B prepares", "A1", "B1", "B2", "A2", "A3", "B3", "B ends", "A ends"));
}

TEST(Turns, NeverBothAtOnce) {
  auto [one, other] = connected_sockets();
  std::atomic<int> at_work = 0;
  const auto rounds = [&](Turns& turns) {
    turns.take();
    turns.agree({1, 200});
    for (int round = 0; round < 200; ++round) {
      turns.begin_round();
      EXPECT_EQ(at_work.fetch_add(1), 0);
      std::this_thread::yield();
      at_work.fetch_sub(1);
      turns.end_round(round);
    }
  };
  std::thread second([&rounds, socket = std::move(other)]() mutable {
    Turns turns(std::move(socket), false);
    rounds(turns);
  });
  {
    Turns turns(std::move(one), true);
    rounds(turns);
    EXPECT_TRUE(turns.has_partner());
    EXPECT_GT(turns.partner_cpu_seconds(), 0);
  }
  second.join();
}

TEST(Turns, WhoIsLeftGoesOnAlone) {
  for (const bool first : {true, false}) {
    auto [one, other] = connected_sockets();
    { const Turns dies(std::move(other), !first); }
    Turns turns(std::move(one), first);
    turns.take();
    EXPECT_EQ(turns.agree({30, 5}), (Schedule{30, 5}));
    for (int round = 0; round < 5; ++round) {
      turns.begin_round();
      turns.end_round(round);
    }
    turns.take();
    EXPECT_FALSE(turns.has_partner()) << first;
  }
  // One that never started: its end was closed.
  auto [one, other] = connected_sockets();
  other.close();
  Turns turns(std::move(one), false);
  turns.take();
  EXPECT_FALSE(turns.has_partner());
}

}  // namespace
}  // namespace diptych::workloads
