#pragma once

#include <cstdint>

/// Pipelined dispatch of eager ops. The host infers an op's type and allocates its output, then passes the kernel to a
/// launch thread through a bounded queue and continues with the program, until it reads elements:
///
///   const PipelinedScope pipelined;
///   for (...) { step(x, y); }       // runs ahead of the kernels
///   loss.item();                    // waits for the launch that writes `loss`
///
/// The results equal those of direct dispatch to the bit: the same kernels on the same operands in the same order. Each
/// host thread has its own queue and launch thread. See docs/pipeline.md.
///
/// Reads wait for the launch that writes the tensor: item(), data(), to_vector(), bitwise_equal(), to_string(), a graph
/// call, an op of another thread or under direct dispatch. An op with an effect waits for all earlier launches.
///
/// An error in a kernel is thrown once, as an Error with the op and its source line, by the first read that waits for
/// that launch or a later one, or by synchronize(). Launches that need its result are skipped, and reading a tensor
/// that one of them should have written throws that error again. Errors of shapes and dtypes are thrown by the op, as
/// usual.
namespace diptych {

enum class Dispatch : std::uint8_t { direct, pipelined };

/// Switches the calling thread. Doesn't wait: launches in progress continue. Throws Error if no thread can be started.
void set_dispatch(Dispatch dispatch);
Dispatch dispatch();

/// Waits for all launches of the calling thread and releases their operands. Throws any failure since the last read.
void synchronize();

/// Whether each pipelined op waits for its kernel, so that an error comes from the call that caused it. Applies to this
/// thread; threads start with it on if the environment has DIPTYCH_LAUNCH_BLOCKING=1, else off.
void set_launch_blocking(bool blocking);
bool launch_blocking();

/// Pipelined dispatch while this lives. Its end waits for all launches; an error that no read has reported stays for
/// the next read or synchronize().
class PipelinedScope {
 public:
  PipelinedScope();
  ~PipelinedScope();
  PipelinedScope(const PipelinedScope&) = delete;
  PipelinedScope& operator=(const PipelinedScope&) = delete;

 private:
  Dispatch previous_;
};

/// Statistics of the calling thread's queue so far.
struct PipelineStats {
  std::uint64_t launches = 0;
  std::uint64_t waits = 0;       ///< number of times that the host had to wait, for a read or for room in the queue
  std::int64_t allocations = 0;  ///< blocks that kernels allocated on the launch thread
};
PipelineStats pipeline_stats();

}  // namespace diptych
