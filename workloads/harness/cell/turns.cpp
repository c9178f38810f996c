#include "workloads/harness/cell/turns.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "workloads/harness/cell/load.h"

namespace diptych::workloads {
namespace {

/// The message that passes a turn. Both processes are on the same machine and speak the same protocol (worker.h).
struct Message {
  Schedule schedule;
  double cpu_seconds;
};

Schedule longer(const Schedule& one, const Schedule& other) {
  return {std::max(one.iterations, other.iterations), std::max(one.rounds, other.rounds)};
}

}  // namespace

TurnSocket& TurnSocket::operator=(TurnSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void TurnSocket::close() {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
}

std::pair<TurnSocket, TurnSocket> connected_sockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(fmt::format("can't connect two measuring processes: {}", std::strerror(errno)));
  }
  return {TurnSocket(ends[0]), TurnSocket(ends[1])};
}

Turns::Turns(TurnSocket socket, bool first) : socket_(std::move(socket)), first_(first), ours_(first) {}

void Turns::take() {
  if (ours_ || !has_partner_) {
    return;
  }
  Message message{};
  ssize_t got = 0;
  do {
    got = recv(socket_.descriptor(), &message, sizeof message, 0);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof message) {
    schedule_ = longer(schedule_, message.schedule);
    partner_cpu_seconds_ = message.cpu_seconds;
    ours_ = true;
  } else {
    has_partner_ = false;
  }
}

void Turns::pass() {
  if (!ours_ || !has_partner_) {
    return;
  }
  const Message message{schedule_, own_cpu_seconds()};
  // Without a signal: the end of the other process is no reason to end this one.
  has_partner_ = send(socket_.descriptor(), &message, sizeof message, MSG_NOSIGNAL) == sizeof message;
  ours_ = false;
}

Schedule Turns::agree(const Schedule& own) {
  schedule_ = longer(schedule_, own);
  pass();
  take();
  return schedule_;
}

}  // namespace diptych::workloads
