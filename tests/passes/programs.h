#pragma once

#include <string>
#include <vector>

#include "framework/dispatch/op.h"
#include "framework/graph/ir.h"

namespace diptych::passes::testing {

inline std::vector<std::string> names_of(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.nodes) {
    names.emplace_back(node.op->name);
  }
  return names;
}

/// "%2: f32[4] = neg(%0)": the graph of such lines, with arguments %0 and %1 of this type.
inline graph::Graph program_of(const std::string& type, const std::string& lines, const std::string& results) {
  return graph::parse("graph \"g\"(%0: " + type + " argument \"x\", %1: " + type + " argument \"y\") {\n" + lines +
                      "  return " + results + "\n}");
}

}  // namespace diptych::passes::testing
