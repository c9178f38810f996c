// How near ops that only wait for memory come to it, each alone in its graph, as one kernel: a table of docs/fusion.md.
// Not a test.

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "tests/speed/ratio.h"
#include "workloads/harness/probes/limits.h"
#include "workloads/processes/timing.h"

namespace diptych::testing {
namespace {

// 48 MiB a tensor: beyond a last cache of 32 MiB, and twice that with a result.
constexpr std::int64_t kRows = 16384;
constexpr std::int64_t kColumns = 768;

using Compute = std::function<Tensor(const Tensor& x, const Tensor& labels)>;
struct Case {
  const char* name;
  Compute compute;
};

Tensor row_mean(const Tensor& x) { return mean(x, {-1}, true); }

const Case kCases[] = {
    {"softmax", [](const Tensor& x, const Tensor&) { return softmax(x, -1); }},
    {"softmax written by hand",
     [](const Tensor& x, const Tensor&) {
       const Tensor e = exp(x - max(x, {-1}, true));
       return e / sum(e, {-1}, true);
     }},
    {"layer norm", [](const Tensor& x, const Tensor&) { return layer_norm(x, {kColumns}); }},
    {"layer norm written by hand",
     [](const Tensor& x, const Tensor&) {
       const Tensor centred = x - row_mean(x);
       return centred / sqrt(row_mean(centred * centred) + 1e-5);
     }},
    {"GELU", [](const Tensor& x, const Tensor&) { return gelu(x); }},
    {"GELU by tanh", [](const Tensor& x, const Tensor&) { return gelu_tanh(x); }},
    {"cross-entropy", [](const Tensor& x, const Tensor& labels) { return cross_entropy(x, labels); }},
};

/// Read and written by memcpy, which writes past the caches: the best of three.
double copied_bytes_per_second() {
  static std::vector<char> from(64 << 20, 1);
  static std::vector<char> to(from.size(), 2);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const double start = workloads::steady_seconds();
    std::memcpy(to.data(), from.data(), from.size());
    best = std::max(best, 2 * static_cast<double>(from.size()) / (workloads::steady_seconds() - start));
  }
  return best;
}

/// "80 % [78, 82]" of reading and of copying.
std::string shares(graph::JitFunction& function, const std::vector<Tensor>& arguments) {
  constexpr int kRounds = 15;
  constexpr int kCalls = 3;
  constexpr std::int64_t kProbed = std::int64_t{96} << 20;
  const auto call = [&] { function.call(arguments, Location::current()); };
  call();
  const double bytes = workloads::analytic_work(*function.graph()).at("compulsory_bytes").get<double>();
  std::vector<double> of_reading;
  std::vector<double> of_copying;
  for (int i = 0; i < kRounds; ++i) {
    const double start = workloads::steady_seconds();
    for (int k = 0; k < kCalls; ++k) {
      call();
    }
    const double rate = kCalls * bytes / (workloads::steady_seconds() - start);
    of_reading.push_back(100 * rate / workloads::read_bytes_per_second(kProbed, active_isa()));
    of_copying.push_back(100 * rate / copied_bytes_per_second());
  }
  const auto text = [](const std::vector<double>& of) {
    const auto interval = reports::sign_interval(of);
    return fmt::format("{:.0f} % [{:.0f}, {:.0f}]", reports::median(of), interval->low, interval->high);
  };
  return fmt::format("{} | {} | {}", text(of_reading), text(of_copying), function.executable()->stats().instructions);
}

graph::JitFunction graph_of(const std::function<std::vector<Tensor>(std::span<const Tensor>)>& compute) {
  return graph::JitFunction(
      [compute](std::span<const Tensor> inputs, std::shared_ptr<void>& /*structure*/) { return compute(inputs); },
      graph::JitOptions());
}

void print_table() {
  fmt::print(
      "| f32 [{}, {}] | of reading | of copying | instructions | its gradient: of reading | of copying | instructions "
      "|\n"
      "|---|--:|--:|--:|--:|--:|--:|\n",
      kRows, kColumns);
  Rng rng(1);
  const Tensor x = rng.normal({kRows, kColumns});
  const Tensor cotangent = rng.normal({kRows, kColumns});
  std::vector<std::int64_t> numbers(kRows);
  for (std::int64_t i = 0; i < kRows; ++i) {
    numbers[static_cast<std::size_t>(i)] = i % kColumns;
  }
  const Tensor labels = Tensor::from(numbers, {kRows});
  for (const Case& of : kCases) {
    graph::JitFunction forward =
        graph_of([&](std::span<const Tensor> inputs) { return std::vector{of.compute(inputs[0], inputs[1])}; });
    graph::JitFunction backward = graph_of([&](std::span<const Tensor> inputs) {
      const auto loss = [&](const Tensor& at) {
        const Tensor result = of.compute(at, inputs[1]);
        return result.rank() == 0 ? result : sum(result * inputs[2]);
      };
      return std::vector{grad(loss)(inputs[0])};
    });
    fmt::print("| {} | {} | {} |\n", of.name, shares(forward, {x, labels}), shares(backward, {x, labels, cotangent}));
    std::fflush(stdout);
  }
  Variables parameters;
  parameters.emplace_back(x, "p");
  optim::Adam optimizer(parameters);
  graph::JitFunction step = graph_of([&](std::span<const Tensor> inputs) {
    optimizer.step(inputs);
    return std::vector<Tensor>();
  });
  fmt::print("| Adam | {} | | | |\n", shares(step, {cotangent}));
}

}  // namespace
}  // namespace diptych::testing

int main() {
  diptych::testing::print_table();
  return 0;
}
