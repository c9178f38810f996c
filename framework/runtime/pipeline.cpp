#include "framework/runtime/pipeline.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/runtime/launch_queue.h"

namespace diptych {
namespace runtime {
namespace {

/// The queues of live threads, for reads from another thread. Never destroyed: threads may end after main().
struct Registry {
  std::mutex mutex;
  std::map<std::uint32_t, std::shared_ptr<LaunchQueue>> queues;
};
Registry& registry() {
  static auto& instance = *new Registry;
  return instance;
}

constinit thread_local LaunchQueue* own_queue = nullptr;

struct Owner {
  std::shared_ptr<LaunchQueue> queue;

  ~Owner() {
    if (queue == nullptr) {
      return;
    }
    queue->drain();
    if (const Failure* failure = queue->unreported()) {
      fmt::print(stderr, "diptych: an error that no read has reported: {}, at {}\n", failure->what,
                 to_string(failure->where));
    }
    thread_context.launch_queue = nullptr;
    own_queue = nullptr;
    const std::lock_guard lock(registry().mutex);
    registry().queues.erase(queue->id());
  }
};
thread_local Owner owner;

LaunchQueue* make_own_queue() {
  owner.queue = std::make_shared<LaunchQueue>();
  own_queue = owner.queue.get();
  const std::lock_guard lock(registry().mutex);
  registry().queues.emplace(own_queue->id(), owner.queue);
  return own_queue;
}

bool blocking_by_environment() {
  const char* value = std::getenv("DIPTYCH_LAUNCH_BLOCKING");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

void wait_for(const TensorBody& body) {
  const Storage& storage = *body.storage;
  if (own_queue != nullptr && own_queue->id() == storage.launch_queue) {
    own_queue->wait(storage.launch);
  } else {
    std::shared_ptr<LaunchQueue> other;
    {
      const std::lock_guard lock(registry().mutex);
      const auto found = registry().queues.find(storage.launch_queue);
      if (found != registry().queues.end()) {
        other = found->second;
      }
    }
    if (other != nullptr) {  // else its thread has ended, and waited for everything before
      other->wait_from_outside(storage.launch);
    }
  }
  if (storage.failure != nullptr) [[unlikely]] {
    throw_failure(*storage.failure, false);
  }
}

}  // namespace runtime

using runtime::own_queue;

void set_dispatch(Dispatch dispatch) {
  if (dispatch == Dispatch::direct) {
    thread_context.launch_queue = nullptr;
  } else {
    thread_context.launch_queue = own_queue != nullptr ? own_queue : runtime::make_own_queue();
  }
}

Dispatch dispatch() { return thread_context.launch_queue != nullptr ? Dispatch::pipelined : Dispatch::direct; }

void synchronize() {
  if (own_queue != nullptr) {
    own_queue->drain();
    own_queue->report(own_queue->submitted());
  }
}

namespace {
thread_local bool blocking = runtime::blocking_by_environment();
}

void set_launch_blocking(bool value) { blocking = value; }
bool launch_blocking() { return blocking; }

PipelinedScope::PipelinedScope() : previous_(dispatch()) { set_dispatch(Dispatch::pipelined); }
PipelinedScope::~PipelinedScope() {
  own_queue->drain();
  thread_context.launch_queue = previous_ == Dispatch::pipelined ? own_queue : nullptr;
}

PipelineStats pipeline_stats() {
  return own_queue == nullptr
             ? PipelineStats{}
             : PipelineStats{own_queue->submitted(), own_queue->waits(), own_queue->worker_allocations()};
}

}  // namespace diptych
