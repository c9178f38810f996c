// The counted side of instructions.h, which runs under valgrind.

#include <cstdio>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/isa.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/instructions.h"
#include "workloads/harness/worker.h"

/// callgrind counts from the entry of this function to its end, and then writes a file. It finds the function by name,
/// so the symbol must stay in the symbol table, whatever the optimiser would prefer.
extern "C" __attribute__((noinline, used)) void diptych_counted_calls(void (*call)(void*), void* context) {
  call(context);
  asm volatile("" : : : "memory");  // no tail call: the function has to end here
}

namespace diptych::workloads {
namespace {

using nlohmann::json;

void count_arm(const Workload& workload, const Arm& arm, std::uint64_t seed, std::int64_t extra) {
  ArmInstance instance(workload, arm, seed);
  std::int64_t step = 0;
  const auto calls = [&] {
    for (std::int64_t i = 0; i < kCountedCalls; ++i) {
      instance.call(step++);
      if (extra > 0) {
        execute_instructions(extra);
      }
    }
    instance.finish();
  };
  std::function<void()> counted = calls;
  calls();  // warms up
  diptych_counted_calls([](void* context) { (*static_cast<std::function<void()>*>(context))(); }, &counted);
  emit_event({{"event", "counted"}, {"arm", arm.name}, {"isa", kIsaNames[static_cast<std::size_t>(active_isa())]}});
}

}  // namespace

void execute_instructions(std::int64_t count) {
  std::int64_t iterations = (count + 1) / 2;
  if (iterations <= 0) {
    return;
  }
#if defined(__x86_64__)
  asm volatile("1: decq %0\n\tjnz 1b" : "+r"(iterations) : : "cc");
#elif defined(__aarch64__)
  asm volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(iterations) : : "cc");
#else
  while (iterations-- > 0) {
    asm volatile("");
  }
#endif
}

int run_counting_worker(const std::string& workload, const std::vector<std::string>& arms, std::uint64_t seed,
                        const std::map<std::string, std::int64_t>& extra) {
  int code = 0;
  // On a separate thread, so that the addresses of its stack and heap don't depend on the sizes of the environment and
  // of the program's path.
  std::thread counting([&] {
    try {
      for (const std::string& name : arms) {
        const auto found = extra.find(name);
        count_arm(*find_workload(workload), *find_arm(name), seed, found == extra.end() ? 0 : found->second);
      }
      emit_event({{"event", "done"}});
    } catch (const std::exception& error) {
      emit_event({{"event", "error"}, {"message", error.what()}});
      code = 1;
    }
  });
  counting.join();
  return code;
}

}  // namespace diptych::workloads
