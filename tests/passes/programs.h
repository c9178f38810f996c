#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/dispatch/op.h"
#include "framework/graph/ir.h"
#include "tests/support/message_of.h"

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

/// errors_of(good)(from, to): what is wrong with the text of a graph in which `from` is replaced.
inline auto errors_of(std::string good) {
  return [good = std::move(good)](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return diptych::testing::message_of<Error>([&] { graph::parse(text); });
  };
}

}  // namespace diptych::passes::testing
