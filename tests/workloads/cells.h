#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/diptych.h"
#include "reports/analysis/analyse.h"
#include "reports/run/schema.h"
#include "workloads/harness/cell/cell.h"

/// What the tests of measured cells share: a program whose behaviour they choose, its measurement, and its run.
namespace diptych::workloads::testing {

/// x + 1 plus what the test asks for. `instance` counts the programs made: each arm has its own.
class Adding final : public Program {
 public:
  struct Behaviour {
    std::function<double(int instance, std::int64_t step)> output = [](int, std::int64_t) { return 0.0; };
    std::function<double(int instance)> state = [](int) { return 0.0; };
    std::function<std::size_t(int instance)> outputs = [](int) { return std::size_t{1}; };
    std::vector<Metric> metrics;
    int throws_in_instance = -1;
  };
  Adding(Behaviour behaviour, int instance) : behaviour_(std::move(behaviour)), instance_(instance) {
    state_ = Variable(full({2}, behaviour_.state(instance_)), "counter");
  }
  std::span<const Tensor> inputs(std::int64_t step) override {
    inputs_ = {full({2}, 1 + behaviour_.output(instance_, step))};
    return inputs_;
  }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    if (instance_ == behaviour_.throws_in_instance) {
      throw Error("the program broke");
    }
    return std::vector<Tensor>(behaviour_.outputs(instance_), inputs[0] + 1.0);
  }
  Variables state() const override { return {state_}; }
  std::vector<Metric> metrics() override { return behaviour_.metrics; }

 private:
  Behaviour behaviour_;
  int instance_;
  Variable state_;
  std::array<Tensor, 1> inputs_;
};

inline Workload adding(Adding::Behaviour behaviour, std::vector<Workload::Target> targets = {}) {
  auto instances = std::make_shared<int>(0);
  return {.name = "test/adding",
          .suite = "test",
          .title = "adds",
          .unit = "call",
          .check_steps = 3,
          .targets = std::move(targets),
          .make = [behaviour = std::move(behaviour), instances](std::uint64_t) {
            return std::make_unique<Adding>(behaviour, (*instances)++);
          }};
}

/// Under the arms that `run` takes.
inline nlohmann::json measure(const Workload& workload, bool full_check = true, std::uint64_t process_seed = 5) {
  CellPlan plan{.workload = &workload,
                .settings = {.process_seed = process_seed, .layout_seed = 9, .rounds = 4, .block_seconds = 0.0005},
                .full_check = full_check};
  for (const char* arm : {"eager", "replay", "graph"}) {
    plan.arms.push_back(find_arm(arm));
  }
  return measure_cell(plan, [](const std::string&) {});
}

/// The run that `diptych run` would make of the cell.
inline nlohmann::json run_with_cell(nlohmann::json cell) {
  cell.update({{"workload", "test/adding"},
               {"suite", "test"},
               {"title", "adds"},
               {"unit", "call"},
               {"reproduce", "diptych run test/adding"},
               {"comparisons", nlohmann::json::array()},
               {"rungs", nlohmann::json::array()}});
  nlohmann::json run = {{"schema", reports::schema_id},
                        {"name", "test"},
                        {"created", "2026-01-01T00:00:00Z"},
                        {"status", "complete"},
                        {"command", {"diptych", "run"}},
                        {"size", {{"name", "quick"}, {"processes", 1}, {"rounds", 4}}},
                        {"seed", 1},
                        {"threads", 1},
                        {"numerics", "exact"},
                        {"environment", nlohmann::json::object()},
                        {"cells", {std::move(cell)}}};
  reports::analyse(run);
  return run;
}

}  // namespace diptych::workloads::testing
