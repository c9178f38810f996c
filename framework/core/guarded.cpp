#include "framework/core/guarded.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

namespace diptych {
namespace {

/// Incremented by every change of any Guarded, so that unchanged programs compare a single number.
std::atomic<std::uint64_t> changes{1};
constinit thread_local Guards* recorded = nullptr;

}  // namespace

Guarded::Guarded(std::string name, std::int64_t value)
    : state_(std::make_shared<GuardedState>(GuardedState{std::move(name), value})) {}

void Guarded::set(std::int64_t value) {
  if (state_->value != value) {
    state_->value = value;
    changes.fetch_add(1, std::memory_order_relaxed);
  }
}

void Guarded::note() const {
  if (recorded == nullptr) {
    return;
  }
  std::vector<Guards::Guard>& guards = recorded->guards_;
  if (std::none_of(guards.begin(), guards.end(), [&](const Guards::Guard& guard) { return guard.state == state_; })) {
    guards.push_back({state_, state_->value});
  }
}

bool Guards::hold() const {
  const std::uint64_t now = changes.load(std::memory_order_relaxed);
  if (checked_at_ != now) {
    hold_ = std::all_of(guards_.begin(), guards_.end(),
                        [](const Guard& guard) { return guard.state->value == guard.value; });
    checked_at_ = now;
  }
  return hold_;
}

std::string Guards::describe_change() const {
  for (const Guard& guard : guards_) {
    if (guard.state->value != guard.value) {
      return fmt::format("{}: {} -> {}", guard.state->name, guard.value, guard.state->value);
    }
  }
  return "";
}

Guards::Recorder::Recorder(Guards& guards) : previous_(recorded) { recorded = &guards; }
Guards::Recorder::~Recorder() { recorded = previous_; }

}  // namespace diptych
