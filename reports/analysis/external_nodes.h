#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "reports/analysis/aligned_profile.h"

/// Another framework's own profile as an arm of an aligned one. Pure functions of plain values.
namespace diptych::reports {

/// A node that the framework ran, as it says.
struct ExternalNode {
  std::string node;    ///< a name of the model, one made from such names ("MatMul_7/MatMulAddFusion"), or its own
  std::string op;      ///< "FusedMatMul"
  double seconds = 0;  ///< of a call
  double runs = 1;     ///< in a call
};

/// The source ops of a model's nodes, by the names of these.
using SourceOpsOfNodes = std::map<std::string, std::vector<std::uint64_t>>;

/// The source ops that each node is of, in the order of `nodes`: those whose nodes' names stand in its own. One whose
/// name the framework has made (a fused node) is matched by order: it has the source ops without a node of their own
/// between those of the nodes that ran before and after it. Nothing: there are none.
std::vector<std::vector<std::uint64_t>> source_ops_of_nodes(std::span<const ExternalNode> nodes,
                                                            const SourceOpsOfNodes& known,
                                                            std::span<const SourceOp> ops);

/// The arm: a kernel for each node, and what each source op is in it. `nodes`: in the order in which they ran.
ProfiledArm external_arm(const std::string& name, std::span<const ExternalNode> nodes, const SourceOpsOfNodes& known,
                         std::span<const SourceOp> ops, double total_seconds);

}  // namespace diptych::reports
