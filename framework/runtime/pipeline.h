#pragma once

#include <cstdint>

/// Pipelined dispatch of eager ops. The host infers an op's type and allocates its output, then hands the kernel to a
/// launch thread through a bounded queue and goes on with the program, until it reads elements:
///
///   const PipelinedScope pipelined;
///   for (...) { step(x, y); }       // runs ahead of the kernels
///   loss.item();                    // waits for what writes `loss`
///
/// The results are those of direct dispatch to the bit: the same kernels on the same operands in the same order. Each
/// host thread has a queue and a launch thread of its own. See docs/pipeline.md.
///
/// A read waits for the launch that writes what is read: item(), data(), to_vector(), bitwise_equal(), to_string(), a
/// graph call, an op of another thread or under direct dispatch. An op with an effect waits for everything before it.
///
/// An error in a kernel is thrown, as an Error with the op and its source line, by the first read that waits for that
/// launch or a later one, or by synchronize(): once. Launches that need its result are skipped, and reading what one of
/// them should have written throws that error again. Errors of shapes and dtypes are thrown by the op, as ever.
namespace diptych {

enum class Dispatch : std::uint8_t { direct, pipelined };

/// Switches the calling thread. Doesn't wait: what was launched goes on. Throws Error if no thread can be started.
void set_dispatch(Dispatch dispatch);
Dispatch dispatch();

/// Waits for all launches of the calling thread and lets go of their operands. Throws what failed since the last read.
void synchronize();

/// Whether each pipelined op waits for its kernel, so that an error comes from the call that caused it. For this
/// thread; threads start with the environment's DIPTYCH_LAUNCH_BLOCKING=1, or without.
void set_launch_blocking(bool blocking);
bool launch_blocking();

/// Pipelined while this lives. At its end all launches are waited for; an error that nobody has read stays for the next
/// read or synchronize().
class PipelinedScope {
 public:
  PipelinedScope();
  ~PipelinedScope();
  PipelinedScope(const PipelinedScope&) = delete;
  PipelinedScope& operator=(const PipelinedScope&) = delete;

 private:
  Dispatch previous_;
};

/// What the calling thread's queue has done so far.
struct PipelineStats {
  std::uint64_t launches = 0;
  std::uint64_t waits = 0;       ///< times that the host had to wait, for a read or for room in the queue
  std::int64_t allocations = 0;  ///< blocks that kernels took on the launch thread
};
PipelineStats pipeline_stats();

}  // namespace diptych
