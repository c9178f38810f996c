#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/graph/ir.h"
#include "reports/text/table_options.h"

/// What a graph reads from outside, by name: a model's weights and inputs, variables.
namespace diptych::reports {

struct GraphInput {
  std::string name;  ///< as in the IR: untrusted until escaped
  std::string kind;  ///< argument, state, captured
  std::string type;
  double bytes = 0;
  std::vector<std::string> readers;    ///< ops, each once
  std::optional<double> seconds = {};  ///< taken by the ops that read it
};

/// Largest first. `seconds`: by source op (counted from 1), as in traces.
std::vector<GraphInput> graph_inputs(const graph::Graph& graph, const std::map<std::uint64_t, double>& seconds = {});

/// The names of the inputs that each source op's node reads, including those read in regions.
std::map<std::uint64_t, std::vector<std::string>> reads_by_source_op(const graph::Graph& graph);

/// A table for terminals of the `most` largest inputs, with the sum of the others; empty if there are no inputs.
std::string render_inputs(const std::vector<GraphInput>& inputs, const TableOptions& options = {},
                          std::size_t most = 20);

nlohmann::json to_json(const std::vector<GraphInput>& inputs);

}  // namespace diptych::reports
