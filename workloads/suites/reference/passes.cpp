// The graph as captured and after each pass: as text on the terminal, and as pictures.
//
//   reference_passes [FOLDER]      default: a new folder in the temporary folder

#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/run/run_file.h"

using namespace diptych;

int main(int argc, char** argv) {
  const std::filesystem::path folder =
      argc > 1 ? std::filesystem::path(argv[1])
               : std::filesystem::temp_directory_path() / fmt::format("diptych-passes-{}", getpid());
  std::filesystem::create_directories(folder);

  // observe() sees the graph as captured, then after each pass. `changed` is false if a pass found nothing to do.
  graph::Graph before;
  int stage = 0;
  std::size_t captured = 0;
  auto observe = [&](const std::string& name, const graph::Graph& graph, bool changed) {
    fmt::print("{}{}: {} nodes\n", stage == 0 ? "" : "\nafter ", name, graph::count_nodes(graph));
    fmt::print("{}", changed || stage == 0 ? graph::print(graph) : "(unchanged)\n");
    reports::Diagram picture = reports::graph_diagram(graph, stage == 0 ? nullptr : &before);
    picture.title = fmt::format("{}{}", name, changed ? "" : " (unchanged)");
    const auto file = folder / fmt::format("{:02}-{}.svg", stage, name);
    reports::write_atomically(file, reports::render_svg(picture));
    captured = stage == 0 ? graph.nodes.size() : captured;
    before = graph;
    ++stage;
  };

  // Something for each pass: a constant part, an identity, the same expression twice, an unused result.
  auto function = [](const Tensor& x, const Tensor& w) {
    const Tensor scale = full({3}, 2.0) * 0.25;  // constant folding
    const Tensor a = tanh(matmul(x, w)) * 1.0;   // x * 1 is x: simplification
    const Tensor b = tanh(matmul(x, w));         // common subexpressions
    exp(b);                                      // dead code
    return (a + b) * scale;
  };
  auto compiled = jit(function, {.name = "example", .pipeline = {.observe = observe}});
  const Tensor x = Rng(1).normal({2, 4});
  const Tensor w = Rng(2).normal({4, 3});
  const bool equal_bits = bitwise_equal(compiled(x, w), function(x, w));
  fmt::print("\n{} pictures in {}\nequal bits to eager: {}\n", stage, folder.string(), equal_bits ? "yes" : "no");
  return equal_bits && before.nodes.size() < captured ? 0 : 1;
}
