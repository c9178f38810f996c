#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/core/isa.h"
#include "framework/graph/ir.h"
#include "profiler/machine/system_files.h"

/// The best that the machine can do, measured next to the rounds, because clocks and neighbours change.
namespace diptych::workloads {

/// A place that data is read from: a cache, or the main memory behind all caches.
struct MemoryLevel {
  std::string name;         ///< "L1", "L2", "L3", "memory"
  std::int64_t size = 0;    ///< bytes that it holds; 0: memory
  std::int64_t probed = 0;  ///< bytes that the probe reads again and again
};
/// Data and unified caches of the first CPU, smallest first, then memory; memory alone if sysfs doesn't tell.
std::vector<MemoryLevel> memory_levels(const profiler::SystemFiles& files = profiler::SystemFiles());

/// f32 operations per second of independent multiply-adds in registers (two operations each), with the vectors of
/// `isa`, on `threads` threads of the pool at the same time: the best of several bursts, about 3 ms in total.
double peak_flops_per_second(Isa isa, int threads = 1);

/// Bytes per second when each thread reads its own `bytes` again and again, from one end to the other or in eight
/// streams, whichever is faster: the best of several sweeps, about 3 ms in total for each way, or two sweeps.
double read_bytes_per_second(std::int64_t bytes, Isa isa, int threads = 1);
/// The same where each thread replaces its floats by others: bytes read and bytes written. More than reading gives, if
/// the machine writes lines back beside fetching others.
double update_bytes_per_second(std::int64_t bytes, Isa isa, int threads = 1);
/// The better of both: the limit.
double best_bytes_per_second(std::int64_t bytes, Isa isa, int threads = 1);

/// {"threads", "fma_flops_per_second", "bandwidth": [{"level", "size_bytes", "bytes_per_second"}]}, of reading or of
/// updating in place, whichever moves more. Several threads
/// share the last level and the memory; of what stands before them, each is taken to have its own, as on separate
/// cores.
nlohmann::json measure_limits(const std::vector<MemoryLevel>& levels, int threads);

/// The work of one call of a captured graph, by the ops' cost functions: {"flops", "op_bytes" (what all ops read and
/// write), "compulsory_bytes" (inputs and states read, outputs and new states written: no execution moves less)}; or
/// {"reason"} if the graph has control flow, whose trip counts aren't known.
nlohmann::json analytic_work(const graph::Graph& graph);

}  // namespace diptych::workloads
