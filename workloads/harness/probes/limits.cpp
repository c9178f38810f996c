// Compiled with contraction enabled: a * b + c below is one fused operation if the vectors have it.

#include "workloads/harness/probes/limits.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "framework/core/parallel.h"
#include "framework/graph/work.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

using Vector4 = float __attribute__((vector_size(16)));
using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));

/// More chains than latency times ports of any core so far (4 or 5 cycles, 2 ports), but few enough for 16 registers.
constexpr int kChains = 12;

template <class V>
[[gnu::always_inline]] inline void multiply_add(std::int64_t rounds) {
  V chains[kChains];
  V factor = V{} + 0.999F;
  V term = V{} + 0.001F;
  asm volatile("" : "+m"(factor), "+m"(term));  // not known at compile time
  for (int i = 0; i < kChains; ++i) {
    chains[i] = V{} + static_cast<float>(i);
  }
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      chains[i] = chains[i] * factor + term;
    }
  }
  V sum = chains[0];
  for (int i = 1; i < kChains; ++i) {
    sum += chains[i];
  }
  asm volatile("" : : "m"(sum));
}

void multiply_add_generic(std::int64_t rounds) { multiply_add<Vector4>(rounds); }
[[gnu::target("avx2,fma")]] void multiply_add_avx2(std::int64_t rounds) { multiply_add<Vector8>(rounds); }
[[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,fma")]] void multiply_add_avx512(std::int64_t rounds) {
  multiply_add<Vector16>(rounds);
}

/// Of so many streams, of `bytes` bytes each, a block in turn.
constexpr std::int64_t kMostStreams = 8;
constexpr std::int64_t kStreamBlock = 1024;

/// Reads all, or replaces each float by another one.
template <class V, bool kUpdates>
[[gnu::always_inline]] inline void sweep(std::byte* data, std::int64_t bytes, std::int64_t streams) {
  constexpr int kSums = 4;
  V sums[kSums] = {};
  const std::int64_t block = streams == 1 ? bytes : kStreamBlock;
  for (std::int64_t begin = 0; begin < bytes; begin += block) {
    for (std::int64_t stream = 0; stream < streams; ++stream) {
      std::byte* const from = data + stream * bytes + begin;
      for (std::int64_t at = 0; at < block; at += kSums * static_cast<std::int64_t>(sizeof(V))) {
#pragma GCC unroll 4
        for (int i = 0; i < kSums; ++i) {
          V value;
          std::byte* const place = from + at + i * static_cast<std::int64_t>(sizeof(V));
          std::memcpy(&value, place, sizeof(V));
          if constexpr (kUpdates) {
            value += 1.0F;
            std::memcpy(place, &value, sizeof(V));
          } else {
            sums[i] += value;
          }
        }
      }
    }
  }
  const V sum = sums[0] + sums[1] + sums[2] + sums[3];
  asm volatile("" : : "m"(sum));
}

using Sweep = void (*)(std::byte* data, std::int64_t bytes, std::int64_t streams);

void read_generic(std::byte* data, std::int64_t bytes, std::int64_t streams) {
  sweep<Vector4, false>(data, bytes, streams);
}
[[gnu::target("avx2,fma")]] void read_avx2(std::byte* data, std::int64_t bytes, std::int64_t streams) {
  sweep<Vector8, false>(data, bytes, streams);
}
[[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,fma")]] void read_avx512(std::byte* data, std::int64_t bytes,
                                                                           std::int64_t streams) {
  sweep<Vector16, false>(data, bytes, streams);
}
void update_generic(std::byte* data, std::int64_t bytes, std::int64_t streams) {
  sweep<Vector4, true>(data, bytes, streams);
}
[[gnu::target("avx2,fma")]] void update_avx2(std::byte* data, std::int64_t bytes, std::int64_t streams) {
  sweep<Vector8, true>(data, bytes, streams);
}
[[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,fma")]] void update_avx512(std::byte* data, std::int64_t bytes,
                                                                             std::int64_t streams) {
  sweep<Vector16, true>(data, bytes, streams);
}

constexpr double kProbeSeconds = 3e-3;

/// Memory of at least that many bytes, with separate pages: not from the engine's allocator, whose cache stays as the
/// program left it, and kept until the process ends, because fresh pages cost more than all sweeps.
std::byte* probe_memory(std::int64_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  static std::unique_ptr<std::byte, Release> memory;
  static std::int64_t size = 0;
  if (size < bytes) {
    memory.reset(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment)));
    std::memset(memory.get(), 0, static_cast<std::size_t>(bytes));  // otherwise all would be the zero page
    size = bytes;
  }
  return memory.get();
}

/// The shortest of repeated bursts, in seconds: what the machine can do, not what a neighbour leaves.
template <class Burst>
double best_of(const Burst& burst) {
  double best = 1e9;
  int bursts = 0;
  for (const double end = steady_seconds() + kProbeSeconds; bursts < 2 || steady_seconds() < end; ++bursts) {
    const double start = steady_seconds();
    burst();
    best = std::min(best, steady_seconds() - start);
  }
  return best;
}

/// Calls run(index) on `threads` threads at the same time.
template <class Run>
void on_each_of(int threads, const Run& run) {
  constexpr double kWorthIt = 1e9;
  const UseThreads use(threads);
  std::atomic<int> arrived{0};
  parallel_for(threads, kWorthIt, [&](std::int64_t first, std::int64_t last) {
    arrived += static_cast<int>(last - first);
    while (arrived < threads) {  // or one thread might do it all before another has woken up
      std::this_thread::yield();
    }
    for (std::int64_t thread = first; thread < last; ++thread) {
      run(thread);
    }
  });
}

}  // namespace

std::vector<MemoryLevel> memory_levels(const profiler::SystemFiles& files) {
  std::vector<MemoryLevel> levels;
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache";
  for (const std::string& index : files.list(folder)) {
    const std::string path = folder + "/" + index;
    const auto size = files.read(path + "/size");  // "32K"
    const auto level = files.read_integer(path + "/level");
    if (!size || !level || files.read(path + "/type") == "Instruction") {
      continue;
    }
    const std::int64_t unit = size->ends_with('M') ? 1 << 20 : size->ends_with('K') ? 1 << 10 : 1;
    const std::int64_t bytes = profiler::leading_integer(*size).value_or(0) * unit;
    if (bytes > 0) {
      levels.push_back({fmt::format("L{}", *level), bytes, bytes / 2});
    }
  }
  std::sort(levels.begin(), levels.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
  constexpr std::int64_t kLeast = std::int64_t{32} << 20;
  constexpr std::int64_t kMost = std::int64_t{128} << 20;
  const std::int64_t last = levels.empty() ? 0 : levels.back().size;
  if (last > kMost / 2) {
    levels.pop_back();  // larger than what a probe can sweep in a few milliseconds, and shared with other machines
  }
  levels.push_back({"memory", 0, std::clamp(2 * last, kLeast, kMost)});
  for (MemoryLevel& level : levels) {
    level.probed = std::min(level.probed, kMost);
  }
  return levels;
}

double peak_flops_per_second(Isa isa, int threads) {
  const std::int64_t rounds = threads == 1 ? 4096 : 32768;  // long compared with what starting together takes
  const auto [run, lanes] = isa == Isa::avx512 ? std::pair(&multiply_add_avx512, 16)
                            : isa == Isa::avx2 ? std::pair(&multiply_add_avx2, 8)
                                               : std::pair(&multiply_add_generic, 4);
  const double seconds =
      best_of([&, run = run] { on_each_of(threads, [&](std::int64_t /*thread*/) { run(rounds); }); });
  return 2.0 * threads * lanes * kChains * static_cast<double>(rounds) / seconds;
}

namespace {

/// Bytes of data per second that `run` goes over.
double swept_bytes_per_second(Sweep run, std::int64_t bytes, int threads) {
  // Long compared with what reading the clock takes, and starting together.
  const std::int64_t burst = std::int64_t{threads == 1 ? 1 : 16} << 20;
  double best = 0;
  // One stream is best from the caches; from memory, several keep more lines under way.
  for (const std::int64_t streams : {std::int64_t{1}, kMostStreams}) {
    const std::int64_t grain = streams == 1 ? 256 : streams * kStreamBlock;
    if (bytes < grain && streams > 1) {
      continue;
    }
    const std::int64_t read = std::max(bytes / grain, std::int64_t{1}) * grain;
    std::byte* data = probe_memory(threads * read);
    const std::int64_t sweeps = std::max<std::int64_t>(1, burst / read);
    const double seconds = best_of([&] {
      on_each_of(threads, [&](std::int64_t thread) {
        for (std::int64_t sweep = 0; sweep < sweeps; ++sweep) {
          run(data + thread * read, read / streams, streams);
        }
      });
    });
    best = std::max(best, static_cast<double>(threads * read * sweeps) / seconds);
  }
  return best;
}

}  // namespace

double read_bytes_per_second(std::int64_t bytes, Isa isa, int threads) {
  return swept_bytes_per_second(isa == Isa::avx512 ? read_avx512
                                : isa == Isa::avx2 ? read_avx2
                                                   : read_generic,
                                bytes, threads);
}

double update_bytes_per_second(std::int64_t bytes, Isa isa, int threads) {
  return 2 * swept_bytes_per_second(isa == Isa::avx512 ? update_avx512
                                    : isa == Isa::avx2 ? update_avx2
                                                       : update_generic,
                                    bytes, threads);
}

double best_bytes_per_second(std::int64_t bytes, Isa isa, int threads) {
  return std::max(read_bytes_per_second(bytes, isa, threads), update_bytes_per_second(bytes, isa, threads));
}

nlohmann::json measure_limits(const std::vector<MemoryLevel>& levels, int threads) {
  json bandwidth = json::array();
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const MemoryLevel& level = levels[i];
    // Memory comes last, behind the last cache.
    const std::int64_t own = i + 2 < levels.size() ? level.probed : level.probed / threads;
    bandwidth.push_back({{"level", level.name},
                         {"size_bytes", level.size > 0 ? json(level.size) : json()},
                         {"bytes_per_second", best_bytes_per_second(own, active_isa(), threads)}});
  }
  return {{"threads", threads},
          {"fma_flops_per_second", peak_flops_per_second(active_isa(), threads)},
          {"bandwidth", std::move(bandwidth)}};
}

nlohmann::json analytic_work(const graph::Graph& graph) {
  Cost total;
  double compulsory = 0;
  for (const graph::Node& node : graph.nodes) {
    const std::optional<Cost> work = graph::work_of(graph, node);
    if (!work) {
      return {{"reason", fmt::format("{} is control flow: how often it runs isn't known ahead", node.op->name)}};
    }
    total.flops += work->flops;
    total.bytes += work->bytes;
  }
  const auto add = [&](graph::ValueId value) { compulsory += static_cast<double>(bytes_of(graph.types[value])); };
  for (const graph::Input& input : graph.inputs) {
    add(input.value);
  }
  for (const graph::ValueId output : graph.outputs) {
    add(output);
  }
  for (const graph::Update& update : graph.updates) {
    add(update.value);
  }
  return {{"flops", total.flops}, {"op_bytes", total.bytes}, {"compulsory_bytes", compulsory}};
}

}  // namespace diptych::workloads
