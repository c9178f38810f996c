#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/explorer/outline.h"

/// What is equal about parts of a graph: ops, types, attributes and edges, never names.
namespace diptych::reports {

class Structures {
 public:
  explicit Structures(const graph::Graph& graph);

  struct Form {
    int key = 0;                        ///< equal for equal structures, of one graph
    std::vector<graph::ValueId> reads;  ///< from outside and no parameters, in the order of their first use
  };
  Form form_of(const GraphPart& part);

 private:
  const graph::Graph& graph_;
  std::set<graph::ValueId> parameters_;              ///< states and captured tensors
  std::map<graph::ValueId, std::string> constants_;  ///< as text
  std::map<std::string, int> keys_;
};

/// Replaces neighbours that repeat by repeats: modules from two of them on; series of ops only in lists of more than
/// `many_ops`, where they save room.
std::vector<GraphPart> fold_repeats(const graph::Graph& graph, Structures& structures, std::vector<GraphPart> parts,
                                    std::size_t many_ops);

}  // namespace diptych::reports
