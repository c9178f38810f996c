#include "workloads/arms/arm.h"

#include "framework/core/allocator.h"
#include "framework/core/parallel.h"
#include "framework/kernels/use_gemm.h"

namespace diptych::workloads {

ArmInstance::ArmInstance(const Workload& workload, const Arm& arm, std::uint64_t seed, int threads)
    : arm_(arm), program_(workload.make(seed)), threads_(threads) {
  if (arm.pipeline) {
    graph::JitOptions options;
    options.name = workload.name;
    options.pipeline = *arm.pipeline;
    jit_.emplace([program = program_.get()](std::span<const Tensor> inputs,
                                            std::shared_ptr<void>& /*structure*/) { return program->body(inputs); },
                 std::move(options));
  }
}

namespace {
/// Instead of PipelinedScope, which would wait at its end: calls overlap here, like the steps of a program.
class UseDispatch {
 public:
  explicit UseDispatch(Dispatch wanted) : previous_(dispatch()) { set_dispatch(wanted); }
  ~UseDispatch() { set_dispatch(previous_); }
  UseDispatch(const UseDispatch&) = delete;
  UseDispatch& operator=(const UseDispatch&) = delete;

 private:
  Dispatch previous_;
};
}  // namespace

std::vector<Tensor> ArmInstance::call(std::int64_t step) {
  const UseDispatch use(arm_.dispatch);
  const kernels::UseGemm multiplied(arm_.gemm.value_or(kernels::active_gemm()));
  const UseThreads on(arm_.on_threads ? threads_ : thread_count());
  const std::span<const Tensor> inputs = program_->inputs(step);
  return jit_ ? jit_->call(inputs, Location::current()).outputs : program_->body(inputs);
}

void ArmInstance::finish() const {
  if (arm_.dispatch == Dispatch::pipelined) {
    synchronize();
  }
}

double ArmInstance::compile_seconds() const {
  double seconds = 0;
  if (jit_) {
    for (const graph::Compilation& compilation : jit_->ledger()) {
      seconds += compilation.seconds();
    }
  }
  return seconds;
}

ExactMetrics ArmInstance::count(std::int64_t step) {
  finish();
  allocator::reset_peak();
  const AllocatorStats before = allocator::stats();
  const std::uint64_t dispatches = thread_context.dispatches;
  const PipelineStats launched = pipeline_stats();
  call(step);
  finish();
  const AllocatorStats after = allocator::stats();

  ExactMetrics metrics;
  metrics.dispatches = static_cast<std::int64_t>(thread_context.dispatches - dispatches);
  metrics.allocations = after.allocations - before.allocations + pipeline_stats().allocations - launched.allocations;
  metrics.peak_bytes = after.peak_bytes - before.bytes_in_use;
  if (jit_) {
    const runtime::ExecutableStats& stats = jit_->executable()->stats();
    metrics.nodes = static_cast<std::int64_t>(jit_->graph()->nodes.size());
    metrics.dispatches = stats.instructions;
    metrics.lower_bound_bytes = static_cast<std::int64_t>(stats.lower_bound_bytes);
    *metrics.peak_bytes += static_cast<std::int64_t>(stats.packed_bytes);  // like the arena, outside the call
    if (*stats.heuristic != '\0') {                                        // else memory isn't planned
      metrics.planned_peak_bytes = static_cast<std::int64_t>(stats.planned_peak_bytes);
      *metrics.peak_bytes += *metrics.planned_peak_bytes;  // the arena is outside the call
    }
  }
  return metrics;
}

}  // namespace diptych::workloads
