#include "reports/analysis/external_nodes.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <set>

namespace diptych::reports {
namespace {

bool is_part_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Whether `name` stands in `text`, and is no part of a longer one: "MatMul_7" isn't in "MatMul_70".
bool has_name(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_part_of_a_name(text[at - 1])) && (end == text.size() || !is_part_of_a_name(text[end]))) {
      return true;
    }
  }
  return false;
}

using Ids = std::vector<std::uint64_t>;

Ids ids_by_name(const std::string& node, const SourceOpsOfNodes& known) {
  if (const auto found = known.find(node); found != known.end()) {
    return found->second;
  }
  std::set<std::uint64_t> ids;
  for (const auto& [name, of_name] : known) {
    if (!name.empty() && has_name(node, name)) {
      ids.insert(of_name.begin(), of_name.end());
    }
  }
  return {ids.begin(), ids.end()};
}

}  // namespace

std::vector<Ids> source_ops_of_nodes(std::span<const ExternalNode> nodes, const SourceOpsOfNodes& known,
                                     std::span<const SourceOp> ops) {
  std::vector<Ids> result;
  std::set<std::uint64_t> named;
  for (const ExternalNode& node : nodes) {
    const Ids& ids = result.emplace_back(ids_by_name(node.node, known));
    named.insert(ids.begin(), ids.end());
  }
  std::vector<bool> is_named;
  std::transform(result.begin(), result.end(), std::back_inserter(is_named),
                 [](const Ids& ids) { return !ids.empty(); });
  std::uint64_t before = 0;  // the last source op of the nodes so far
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (is_named[i]) {
      before = std::max(before, *std::max_element(result[i].begin(), result[i].end()));
      continue;
    }
    std::uint64_t behind = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t k = i + 1; k < result.size() && behind == std::numeric_limits<std::uint64_t>::max(); ++k) {
      for (const std::uint64_t id : is_named[k] ? result[k] : Ids{}) {
        behind = id > before ? std::min(behind, id) : behind;
      }
    }
    for (const SourceOp& op : ops) {
      if (op.id > before && op.id < behind && !named.contains(op.id)) {
        result[i].push_back(op.id);
      }
    }
  }
  return result;
}

ProfiledArm external_arm(const std::string& name, std::span<const ExternalNode> nodes, const SourceOpsOfNodes& known,
                         std::span<const SourceOp> ops, double total_seconds) {
  ProfiledArm arm{.name = name, .kernels = {}, .fates = {}, .tape_seconds = 0, .total_seconds = total_seconds};
  const std::vector<Ids> sources = source_ops_of_nodes(nodes, known, ops);
  for (const SourceOp& op : ops) {
    arm.fates[op.id] = {.fate = Fate::unseen};
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    // Without a source op it has a row of its own, not that of an op of ours that happens to have its name.
    arm.kernels.push_back({sources[i].empty() ? nodes[i].op + " (" + name + ")" : nodes[i].op, sources[i],
                           nodes[i].seconds, nodes[i].runs});
    for (const std::uint64_t id : sources[i]) {
      const auto found = arm.fates.find(id);
      if (found == arm.fates.end()) {
        continue;
      }
      OpFate& fate = found->second;
      fate.fate = Fate::node;
      if (std::find(fate.with.begin(), fate.with.end(), nodes[i].op) == fate.with.end()) {
        fate.with.push_back(nodes[i].op);
      }
    }
  }
  return arm;
}

}  // namespace diptych::reports
