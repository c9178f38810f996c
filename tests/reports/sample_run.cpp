#include "tests/reports/sample_run.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "reports/analysis/analyse.h"

namespace diptych::reports::testing {
namespace {

using Json = nlohmann::json;

Json sample_arm(const SampleCell& cell, std::size_t i) {
  const bool is_graph = cell.arms[i] != "eager";
  const double nodes = cell.arms[i] == "graph" ? 98 : 120;
  Json passes = Json::array();
  if (cell.arms[i] == "graph") {
    passes = {{{"name", "canonicalise"},
               {"nodes_before", 120},
               {"nodes_after", 120},
               {"seconds", 1.2e-5},
               {"changed", false}},
              {{"name", "cse"}, {"nodes_before", 120}, {"nodes_after", 112}, {"seconds", 2.1e-5}, {"changed", true}},
              {{"name", "fuse-elementwise"},
               {"nodes_before", 112},
               {"nodes_after", 98},
               {"seconds", 9e-5},
               {"changed", true}}};
  }
  return {
      {"name", cell.arms[i]},
      {"description", is_graph ? "the captured training step" : "op by op, with a tape where gradients are asked for"},
      {"exact",
       {{"nodes", is_graph ? Json(nodes) : Json()},
        {"dispatches", is_graph ? nodes - 4 : 120},
        {"allocations", is_graph ? 2 : 96},
        {"peak_bytes", 263000},
        {"planned_peak_bytes", is_graph ? Json(210432) : Json()},
        {"lower_bound_bytes", is_graph ? Json(198144) : Json()}}},
      {"passes", passes}};
}

}  // namespace

nlohmann::json sample_run(const std::vector<SampleCell>& cells, const SampleSize& size) {
  std::mt19937_64 random(size.seed);
  std::normal_distribution<double> normal;
  Json run = {{"schema", "diptych.run/1"},
              {"name", "sample"},
              {"created", "2026-11-21T00:31:25Z"},
              {"status", "complete"},
              {"command", {"diptych", "run", "--" + size.name}},
              {"size", {{"name", size.name}, {"processes", size.processes}, {"rounds", size.rounds}}},
              {"seed", 1},
              {"threads", 1},
              {"numerics", "exact"},
              {"environment",
               {{"cpu", {{"model", "Example CPU @ 2.60GHz"}, {"cores", 2}, {"flags", {"avx2", "fma", "avx512f"}}}},
                {"os", {{"kernel", "6.1.0"}, {"governor", nullptr}}}}},
              {"cells", Json::array()}};
  for (const SampleCell& sample : cells) {
    Json cell = {
        {"workload", sample.workload},
        {"suite", "mlp"},
        {"title", "Digits classifier 64-128-64-10, training step, batch 64, Adam"},
        {"unit", "training step"},
        {"reproduce", "diptych run " + sample.workload + " --seed 1"},
        {"validity",
         {{"agree", true}, {"checks", {"outputs bitwise equal", "420 losses bitwise equal"}}, {"reason", nullptr}}},
        {"metrics", Json::array()},
        {"arms", Json::array()},
        {"processes", Json::array()}};
    for (std::size_t i = 0; i < sample.arms.size(); ++i) {
      cell["arms"].push_back(sample_arm(sample, i));
      cell["metrics"].push_back(
          {{"name", "held-out accuracy"}, {"arm", sample.arms[i]}, {"value", 0.969}, {"unit", "fraction"}});
    }
    for (int p = 0; p < size.processes; ++p) {
      Json process = {{"seed", random()},     {"iterations", 200},     {"control_drift", 0.01},
                      {"steal_seconds", 0.0}, {"arms", Json::array()}, {"rounds", Json::array()}};
      std::vector<double> centre;
      for (std::size_t i = 0; i < sample.arms.size(); ++i) {
        centre.push_back(sample.seconds[i] * std::exp(size.process_noise * normal(random)));
        const double compile = sample.compile[i] * std::exp(5 * size.process_noise * normal(random));
        process["arms"].push_back({{"name", sample.arms[i]},
                                   {"first_call_seconds", 8 * sample.seconds[i] + compile},
                                   {"compile_seconds", compile},
                                   {"worst_call_seconds", 10 * sample.seconds[i] + compile}});
      }
      std::vector<std::string> order = sample.arms;
      for (int r = 0; r < size.rounds; ++r) {
        std::shuffle(order.begin(), order.end(), random);
        Json seconds;
        for (std::size_t i = 0; i < sample.arms.size(); ++i) {
          seconds[sample.arms[i]] = centre[i] * std::exp(size.round_noise * normal(random));
        }
        process["rounds"].push_back({{"order", order}, {"seconds", seconds}});
      }
      cell["processes"].push_back(std::move(process));
    }
    run["cells"].push_back(std::move(cell));
  }
  return run;
}

nlohmann::json analysed_run(const std::vector<SampleCell>& cells, const SampleSize& size) {
  Json run = sample_run(cells, size);
  analyse(run);
  return run;
}

nlohmann::json slowed_run(double factor, std::uint64_t seed, const SampleSize& size) {
  SampleCell cell;
  for (double& seconds : cell.seconds) {
    seconds *= factor;
  }
  SampleSize seeded = size;
  seeded.seed = seed;
  return analysed_run({cell}, seeded);
}

}  // namespace diptych::reports::testing
