// What reads and shows large files takes n log n at most, whatever it is that there is much of.

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/graph/ir.h"
#include "reports/analysis/analyse.h"
#include "reports/diagrams/diagram.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/explorer/explorer.h"
#include "reports/explorer/outline.h"
#include "reports/explorer/places.h"
#include "reports/gate/calibration.h"
#include "reports/gate/compare.h"
#include "reports/gate/compare_side.h"
#include "reports/gate/gate.h"
#include "reports/history/reader.h"
#include "reports/html/compare_page.h"
#include "reports/html/html.h"
#include "reports/html/start_page.h"
#include "reports/run/google_benchmark.h"
#include "reports/run/run_file.h"
#include "reports/views/compare_views.h"
#include "reports/views/gate_views.h"
#include "reports/views/graph_inputs.h"
#include "reports/views/history_views.h"
#include "reports/views/markdown.h"
#include "reports/views/peers.h"
#include "reports/views/table.h"
#include "tests/reports/growth.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using Json = nlohmann::json;
using testing::expect_no_square;

/// `count` benchmarks of three repetitions; one in ten has another name where `renamed`.
Json many_benchmarks(std::size_t count, double factor, bool renamed) {
  Json list = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("BM_{}{}", renamed && i % 10 == 0 ? "New" : "Copy", i);
    for (int repetition = 0; repetition < 3; ++repetition) {
      list.push_back({{"name", name},
                      {"run_name", name},
                      {"run_type", "iteration"},
                      {"real_time", factor * (20 + 0.05 * repetition)},
                      {"time_unit", "us"}});
    }
  }
  return {{"context", {{"host_name", "here"}, {"num_cpus", 2}}}, {"benchmarks", std::move(list)}};
}

/// Several cells, or one with several arms: eager, replay, graph and others.
Json many_cells(std::size_t count, double factor, const std::string& kind = "cell") {
  std::vector<testing::SampleCell> cells(count);
  for (std::size_t i = 0; i < count; ++i) {
    cells[i].workload = fmt::format("{}/{}", kind, i);
    cells[i].arms = {"eager", "graph"};
    cells[i].seconds = {1e-4, factor * 0.7e-4};
    cells[i].compile = {0, 1e-3};
  }
  return testing::sample_run(cells, {.processes = 3, .rounds = 2});
}

Json many_arms(std::size_t count, double factor) {
  testing::SampleCell cell;
  for (std::size_t i = cell.arms.size(); i < count; ++i) {
    cell.arms.push_back(fmt::format("arm-{}", i));
    cell.seconds.push_back(factor * 0.7e-4);
    cell.compile.push_back(1e-3);
  }
  Json run = testing::sample_run({cell}, {.processes = 3, .rounds = 2});
  std::size_t i = 0;
  for (Json& arm : run["cells"][0]["arms"]) {
    if (i > 0) {  // as the ladder's arms: each has a pass more than the one before, in blocks of a dozen
      arm["groups"] = Json::array({fmt::format("block {}", i / 12)});
      for (std::size_t group = 0; group < i % 12; ++group) {
        arm["groups"].push_back(fmt::format("pass {}", group));
      }
    }
    ++i;
  }
  return run;
}

Json analysed(Json run) {
  analyse(run);
  return run;
}

/// All that `compare` and `report A B` write.
void show_comparison(const Json& comparison, const Json& base, const Json& head) {
  const SideNames names{"base", "head"};
  EXPECT_FALSE(render_comparison(comparison, names).empty());
  EXPECT_FALSE(render_comparison_markdown(comparison, names).empty());
  EXPECT_FALSE(render_compare_page(comparison, base, head, names).empty());
  EXPECT_FALSE(to_text(comparison).empty());
}

/// All that `gate` writes.
void show_gate(const Json& gate) {
  EXPECT_FALSE(render_gate(gate).empty());
  EXPECT_FALSE(render_gate_markdown(gate).empty());
  EXPECT_FALSE(render_junit(gate).empty());
  EXPECT_FALSE(render_annotations(gate).empty());
}

/// All that `report` writes.
void show_run(const Json& run) {
  EXPECT_FALSE(render_table(run).empty());
  EXPECT_FALSE(render_markdown(run).empty());
  EXPECT_FALSE(render_html(run).empty());
  EXPECT_FALSE(render_peers(run).empty());
  EXPECT_FALSE(render_peers_table(run).empty());
}

TEST(Growth, ReadingBenchmarks) {
  expect_no_square("read_side", 250, [](std::size_t size) {
    const auto document = std::make_shared<Json>(many_benchmarks(size, 1, false));
    return [document] { EXPECT_FALSE(read_side(*document).subjects.empty()); };
  });
}

TEST(Growth, ComparingBenchmarks) {
  expect_no_square("compare_sides", 150, [](std::size_t size) {
    const auto base = std::make_shared<Side>(read_side(many_benchmarks(size, 1, false)));
    const auto head = std::make_shared<Side>(read_side(many_benchmarks(size, 1.1, true)));
    return [base, head] { EXPECT_FALSE(compare_sides(*base, *head, {})["rows"].empty()); };
  });
}

TEST(Growth, ShowingAComparisonOfBenchmarks) {
  expect_no_square("views of a comparison", 80, [](std::size_t size) {
    const auto base = std::make_shared<Json>(many_benchmarks(size, 1, false));
    const auto head = std::make_shared<Json>(many_benchmarks(size, 1.1, true));
    const auto comparison = std::make_shared<Json>(compare_runs(*base, *head));
    return [=] { show_comparison(*comparison, *base, *head); };
  });
}

TEST(Growth, AGateOfManyCells) {
  expect_no_square("gate of cells", 20, [](std::size_t size) {
    const auto base = std::make_shared<Json>(analysed(many_cells(size, 1)));
    const auto head = std::make_shared<Json>(analysed(many_cells(size, 2)));
    return [=] {
      CompareOptions options;
      options.interleaved = true;
      const Json comparison = compare_runs(*base, *head, options);
      show_comparison(comparison, *base, *head);
      GateSetup setup;
      setup.time_decides = true;
      const Json gate = judge_gate(comparison, comparison, {}, setup);
      show_gate(gate);
      Json calibration = new_calibration((*base)["environment"], {{"workloads", {"cell"}}});
      add_calibration_run(calibration, *base, *head, gate);
    };
  });
}

TEST(Growth, AGateOfManyArms) {
  expect_no_square("gate of arms", 40, [](std::size_t size) {
    const auto base = std::make_shared<Json>(analysed(many_arms(size, 1)));
    const auto head = std::make_shared<Json>(analysed(many_arms(size, 2)));
    return [=] {
      CompareOptions options;
      options.interleaved = true;
      const Json comparison = compare_runs(*base, *head, options);
      show_comparison(comparison, *base, *head);
      GateSetup setup;
      setup.time_decides = true;
      show_gate(judge_gate(comparison, comparison, {}, setup));
    };
  });
}

TEST(Growth, AnalysingManyArms) {
  expect_no_square("analysis of arms", 40, [](std::size_t size) {
    const auto run = std::make_shared<Json>(many_arms(size, 1));
    return [run] {
      Json copy = *run;
      analyse(copy);
    };
  });
}

TEST(Growth, ShowingManyArms) {
  expect_no_square("views of arms", 40, [](std::size_t size) {
    const auto run = std::make_shared<Json>(analysed(many_arms(size, 1)));
    return [run] { show_run(*run); };
  });
}

TEST(Growth, ShowingManyCells) {
  expect_no_square("views of cells", 20, [](std::size_t size) {
    const auto run = std::make_shared<Json>(analysed(many_cells(size, 1)));
    return [run] { show_run(*run); };
  });
}

TEST(Growth, AHistoryOfManyCells) {
  expect_no_square("history of cells", 20, [](std::size_t size) {
    const auto run = std::make_shared<Json>(analysed(many_cells(size, 1)));
    return [run] {
      HistoryReader reader;
      for (int i = 0; i < 3; ++i) {
        reader.add({}, *run);
      }
      const History history = std::move(reader).finish();
      EXPECT_FALSE(render_start_page(history).empty());
      EXPECT_FALSE(render_history(history).empty());
    };
  });
}

/// A program of `count` ops that nowhere repeats, with a state for each fourth, and each in a module of its own.
graph::Graph long_graph(std::size_t count) {
  std::mt19937_64 random(7);
  const std::size_t states = count / 4;
  std::string text = "graph \"long\"(%0: f32[4] argument \"x\"";
  for (std::size_t i = 0; i < states; ++i) {
    text += fmt::format(", %{}: f32[4] state \"m{}.weight\"", count + 1 + i, i);
  }
  text += ") {\n";
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t before = i - random() % (std::min<std::size_t>(i, 6) + 1);
    const bool is_binary = random() % 2 == 0;
    static const std::vector<std::string> unary = {"tanh", "exp", "neg", "sigmoid"};
    const std::string call = is_binary ? fmt::format("{}(%{}, %{})", random() % 2 == 0 ? "add" : "mul", i,
                                                     i % 4 == 0 && i / 4 < states ? count + 1 + i / 4 : before)
                                       : fmt::format("{}(%{})", unary[random() % unary.size()], i);
    text += fmt::format("  %{}: f32[4] = {} @ [{}] \"m{}\" \"model.cpp\" 3\n", i + 1, call, i, i);
  }
  return graph::parse(text + fmt::format("  return %{}\n}}", count));
}

TEST(Growth, TheOutlineOfAGraph) {
  expect_no_square("outline", 500, [](std::size_t size) {
    const auto graph = std::make_shared<graph::Graph>(long_graph(size));
    return [graph] { EXPECT_FALSE(outline_of(*graph, Places(*graph)).empty()); };
  });
}

TEST(Growth, ThePageOfAGraph) {
  expect_no_square("graph.html", 50, [](std::size_t size) {
    const auto graph = std::make_shared<graph::Graph>(long_graph(size));
    return [graph] {
      ExplorerInput input{"program", {{"captured", graph.get(), true, 1e-3}}, {}};
      EXPECT_FALSE(render_explorer(input).empty());
    };
  });
}

TEST(Growth, ThePlainPictureOfAGraph) {
  expect_no_square("plain picture", 200, [](std::size_t size) {
    const auto graph = std::make_shared<graph::Graph>(long_graph(size));
    return [graph] {
      const Diagram diagram = graph_diagram(*graph, graph.get());
      EXPECT_FALSE(render_svg(diagram, {.most_nodes = 0}).empty());
      EXPECT_FALSE(to_dot(diagram).empty());
    };
  });
}

TEST(Growth, TheInputsOfAGraph) {
  expect_no_square("inputs", 500, [](std::size_t size) {
    const auto graph = std::make_shared<graph::Graph>(long_graph(size));
    return [graph] { EXPECT_FALSE(render_inputs(graph_inputs(*graph)).empty()); };
  });
}

}  // namespace
}  // namespace diptych::reports
