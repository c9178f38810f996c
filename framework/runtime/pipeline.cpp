#include "framework/runtime/pipeline.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/launches.h"
#include "framework/core/lengths.h"
#include "framework/dispatch/apply.h"
#include "framework/dispatch/eager_call.h"
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

/// The result of an op whose kernel is passed to the launch thread.
Tensor launch(LaunchQueue& queue, const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes,
              Location where) {
  const TensorType* types[kMaxInputs];
  Operand operands[kMaxInputs];
  const auto count = inputs.size();
  if (!op.takes(count)) [[unlikely]] {
    detail::fail_inputs(op, inputs, where);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const TensorBody* body = inputs[i]->body();
    if (body == nullptr || body->is_traced) [[unlikely]] {
      detail::fail_inputs(op, inputs, where);
    }
    if (body->is_pending && body->storage->launch_queue != queue.id()) [[unlikely]] {
      make_ready(*body);
    }
    types[i] = &body->type;
    operands[i] = {body->data, &body->type, &body->strides, body->contiguous};
  }

  TensorBody* output = new_body();
  Tensor result = Tensor::adopt(output);
  op.infer_type({op, {types, count}, attributes, where}, output->type);
  if (op.view != nullptr && detail::make_view(op, *inputs[0]->body(), attributes, output)) {
    return result;
  }
  check_countable(output->type, op.name, where);
  const auto bytes = static_cast<std::int64_t>(bytes_of(output->type));
  queue.reserve(bytes);
  allocate_dense(output, op.name, where);
  queue.submit(
      {&op, operands, static_cast<int>(count), attributes, {output->data, &output->type, &output->strides, true}},
      inputs, result, bytes, where);
  return result;
}

constexpr trace::Label kDispatch{"dispatch", trace::Category::op};

/// A pipelined kernel has its own zone, on the launch thread.
class PipelinedEager : public Interpreter {
 public:
  explicit PipelinedEager(LaunchQueue& queue) : queue_(queue) {}

  Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes,
               Location where) override {
    if (op.effect) {
      synchronize();  // its effect must be observed in program order
      const trace::Zone zone(&op.label);
      return apply_eager(op, inputs, attributes, where);
    }
    Tensor result;
    {
      const trace::Zone zone(&kDispatch);
      result = launch(queue_, op, inputs, attributes, where);
    }
    if (launch_blocking()) [[unlikely]] {
      synchronize();
    }
    return result;
  }

 private:
  LaunchQueue& queue_;
};

constinit thread_local LaunchQueue* own_queue = nullptr;
constinit thread_local PipelinedEager* own_eager = nullptr;

void set_dispatch_of_thread(Interpreter* dispatch) {
  ThreadContext& context = thread_context;
  if (context.tracer() == nullptr) {
    context.interpreter = dispatch;
  }
  context.dispatch = dispatch;
}

struct Owner {
  std::shared_ptr<LaunchQueue> queue;
  std::optional<PipelinedEager> eager;

  ~Owner() {
    if (queue == nullptr) {
      return;
    }
    queue->drain();
    if (const Failure* failure = queue->unreported()) {
      const std::string message = fmt::format("diptych: an error that no read has reported: {}, at {}\n", failure->what,
                                              to_string(failure->where));
      std::fputs(message.c_str(), stderr);  // fmt::print would throw where standard error can't be written
    }
    set_dispatch_of_thread(nullptr);
    own_queue = nullptr;
    own_eager = nullptr;
    const std::lock_guard lock(registry().mutex);
    registry().queues.erase(queue->id());
  }
};
thread_local Owner owner;

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
    if (other != nullptr) {  // otherwise its thread has ended, after waiting for all launches
      other->wait_from_outside(storage.launch);
    }
  }
  if (storage.failure != nullptr) [[unlikely]] {
    throw_failure(*storage.failure, false);
  }
}

void make_own_queue() {
  auto queue = std::make_shared<LaunchQueue>();
  {
    const std::lock_guard lock(registry().mutex);
    registry().queues.emplace(queue->id(), queue);
  }
  static constexpr launches::Hooks hooks{wait_for, diptych::synchronize};
  launches::hooks.store(&hooks, std::memory_order_release);
  owner.queue = std::move(queue);  // last: from here on the thread has one
  own_queue = owner.queue.get();
  own_eager = &owner.eager.emplace(*own_queue);
}

bool blocking_by_environment() {
  const char* value = std::getenv("DIPTYCH_LAUNCH_BLOCKING");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace
}  // namespace runtime

using runtime::own_queue;

void set_dispatch(Dispatch dispatch) {
  if (dispatch == Dispatch::pipelined && own_queue == nullptr) {
    runtime::make_own_queue();
  }
  runtime::set_dispatch_of_thread(dispatch == Dispatch::pipelined ? runtime::own_eager : nullptr);
}

Dispatch dispatch() { return thread_context.dispatch != nullptr ? Dispatch::pipelined : Dispatch::direct; }

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
  set_dispatch(previous_);
}

PipelineStats pipeline_stats() {
  return own_queue == nullptr
             ? PipelineStats{}
             : PipelineStats{own_queue->submitted(), own_queue->waits(), own_queue->worker_allocations()};
}

}  // namespace diptych
