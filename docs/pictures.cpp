// Draws the pictures of docs/architecture.md and docs/fusion.md with reports/diagrams/diagram.h.

#include <filesystem>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "reports/diagrams/diagram.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/run/run_file.h"

namespace {

using diptych::reports::Diagram;
using diptych::reports::NodeClass;

Diagram dependencies() {
  Diagram d;
  d.title = "Who may include whom";
  d.legend = false;
  const auto part = [&](const char* id, NodeClass node_class, std::vector<std::string> lines) {
    diptych::reports::DiagramNode node;
    node.id = id;
    node.label = std::move(lines);
    node.node_class = node_class;
    d.nodes.push_back(std::move(node));
  };
  part("cli", NodeClass::output, {"cli/", "the diptych program, a file a verb"});
  part("reports", NodeClass::fused, {"reports/", "statistics, verdicts, HTML, diagrams"});
  part("workloads", NodeClass::reduction, {"workloads/", "suites, arms, harness"});
  part("profiler", NodeClass::normalisation, {"profiler/", "clock, tracer, counters, fingerprint"});
  part("framework", NodeClass::matmul, {"framework/", "tensors, ops, tape, graphs"});
  part("hooks", NodeClass::memory, {"framework/core/trace_points.h", "all that the two know of each other"});
  d.edges = {{"cli", "reports", ""},         {"cli", "workloads", ""},           {"workloads", "profiler", ""},
             {"workloads", "framework", ""}, {"reports", "framework", "graphs"}, {"profiler", "hooks", ""},
             {"framework", "hooks", ""}};
  return d;
}

/// Of framework/floors.txt: each folder above those of the next lower floor.
Diagram floors(const std::filesystem::path& list) {
  Diagram d;
  d.title = "The floors of framework/: a folder includes what stands on lower ones";
  d.legend = false;
  std::vector<std::string> below;
  std::vector<std::string> here;
  std::istringstream lines(diptych::reports::read_text_file(list));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.empty()) {
      below = std::exchange(here, {});
    } else if (!line.starts_with('#') && colon != std::string::npos) {
      const std::string folder = line.substr(0, colon);
      diptych::reports::DiagramNode node;
      node.id = folder;
      node.label = {folder + "/", line.substr(colon + 2)};
      node.node_class = NodeClass::matmul;
      d.nodes.push_back(std::move(node));
      for (const std::string& other : below) {
        d.edges.push_back({folder, other, ""});
      }
      here.push_back(folder);
    }
  }
  return d;
}

Diagram data_flow() {
  Diagram d;
  d.title = "diptych run: from a program to a verdict";
  d.legend = false;
  d.direction = diptych::reports::Direction::left_right;
  const auto part = [&](const char* id, NodeClass node_class, std::vector<std::string> lines,
                        std::vector<std::string> scope) {
    diptych::reports::DiagramNode node;
    node.id = id;
    node.label = std::move(lines);
    node.node_class = node_class;
    node.scope = std::move(scope);
    d.nodes.push_back(std::move(node));
  };
  part("suite", NodeClass::input, {"suite", "makes one program"}, {});
  const std::vector<std::string> process = {"each measuring process"};
  part("eager", NodeClass::elementwise, {"eager", "op by op"}, process);
  part("replay", NodeClass::elementwise, {"replay", "captured, no pass"}, process);
  part("graph", NodeClass::elementwise, {"graph", "all passes"}, process);
  part("check", NodeClass::control, {"check", "the same bits?"}, process);
  part("rounds", NodeClass::random, {"rounds", "random order, one count"}, process);
  part("json", NodeClass::fused, {"run.json", "raw rounds, estimates, verdicts"}, {});
  part("table", NodeClass::output, {"terminal table"}, {});
  part("html", NodeClass::output, {"report.html"}, {});
  part("markdown", NodeClass::output, {"summary.md"}, {});
  d.edges = {
      {"suite", "eager", ""},  {"suite", "replay", ""}, {"suite", "graph", ""},     {"eager", "check", ""},
      {"replay", "check", ""}, {"graph", "check", ""},  {"check", "rounds", "yes"}, {"check", "json", "no: INVALID"},
      {"rounds", "json", ""},  {"json", "table", ""},   {"json", "html", ""},       {"json", "markdown", ""}};
  return d;
}

/// A layer norm written by hand, as the pass `fuse` leaves it.
Diagram fusion() {
  using diptych::Tensor;
  diptych::passes::PipelineOptions pipeline;
  Diagram picture;
  pipeline.observe = [&](const std::string& stage, const diptych::graph::Graph& graph, bool /*changed*/) {
    if (stage == "fuse") {
      picture = diptych::reports::graph_diagram(graph);
    }
  };
  auto norm = diptych::jit(
      [](const Tensor& x) {
        const Tensor centred = x - diptych::mean(x, {-1}, true);
        return centred / diptych::sqrt(diptych::mean(diptych::square(centred), {-1}, true) + 1e-5);
      },
      {.name = "a layer norm written by hand", .pipeline = pipeline});
  norm(diptych::Rng(1).normal({4096, 768}));
  picture.title = "A layer norm written by hand: one kernel";
  return picture;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: diptych_pictures SOURCE FOLDER\n");
    return 1;
  }
  const std::filesystem::path folder = argv[2];
  diptych::reports::write_atomically(folder / "dependencies.svg", diptych::reports::render_svg(dependencies()));
  diptych::reports::write_atomically(
      folder / "floors.svg",
      diptych::reports::render_svg(floors(std::filesystem::path(argv[1]) / "framework/floors.txt")));
  diptych::reports::write_atomically(folder / "fusion.svg", diptych::reports::render_svg(fusion()));
  diptych::reports::write_atomically(folder / "data-flow.svg", diptych::reports::render_svg(data_flow()));
}
