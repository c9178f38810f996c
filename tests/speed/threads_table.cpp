// How many times as fast the suites are on several threads: the table of docs/threads.md. Not a test.
//
//   threads_table [THREADS [WORKLOAD ...]]

#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "framework/kernels/gemm.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"
#include "tests/support/with_threads.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/probes/limits.h"

namespace diptych::testing {
namespace {

/// The time on one thread divided by that on `threads`.
std::string speedup(const std::vector<std::vector<double>>& rounds) { return ratio_of(rounds, 1, 0).text; }

std::vector<std::vector<double>> rounds_of(const std::vector<Block>& contenders) {
  MeasuringOptions options;
  options.block_seconds = 0.02;
  InterleavedRounds round(contenders, {}, options);
  return take_rounds(round, 21);
}

void print_row(const std::string& name, int threads) {
  const workloads::Workload& workload = *workloads::find_workload(name);
  std::vector<std::string> cells;
  double seconds = 0;
  for (const char* arm : {"eager", "graph"}) {
    workloads::ArmInstance alone(workload, *workloads::find_arm(arm), 1);
    workloads::ArmInstance shared(workload, *workloads::find_arm(arm), 1);
    std::int64_t step = 0;
    const auto rounds = rounds_of({block_of([&] {
                                     const WithThreads one(1);
                                     alone.call(step++);
                                   }),
                                   block_of([&] {
                                     const WithThreads all(threads);
                                     shared.call(step++);
                                   })});
    seconds = median_seconds(rounds, 0);
    cells.push_back(fmt::format("{:.3f} ms | {}", seconds * 1e3, speedup(rounds)));
  }
  fmt::print("| {} | {} | {} |\n", name, cells[0], cells[1]);
  std::fflush(stdout);
}

void print_table(int threads, const std::vector<std::string>& names) {
  fmt::print("{} threads; kernels for {}\n\n", threads, kIsaNames[static_cast<std::size_t>(active_isa())]);
  fmt::print("| workload | eager, one thread | {0} threads | graph, one thread | {0} threads |\n", threads);
  fmt::print("|---|--:|--:|--:|--:|\n");
  for (const std::string& name : names) {
    print_row(name, threads);
  }
}

}  // namespace
}  // namespace diptych::testing

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  std::vector<std::string> names(given.empty() ? given.end() : given.begin() + 1, given.end());
  if (names.empty()) {
    names = {"vit/b16",       "vit/tiny",       "vit/reference-b1", "vit/reference-b32", "vit/reference-train",
             "conv/resnet18", "conv/block",     "conv/block-train", "attention/block",   "attention/sdpa-1024",
             "gpt/mini",      "gpt/mini-infer", "mlp/simplenet",    "mlp/digits",        "reference/rigid-512",
             "micro/fusion",  "micro/dispatch"};
  }
  diptych::testing::print_table(given.empty() ? 2 : std::atoi(given[0].c_str()), names);
  return 0;
}
