#include "reports/views/graph_inputs.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/dispatch/op.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"

namespace diptych::reports {
namespace {

std::uint64_t traced_id(const graph::Node& node) {  // as runtime/lowering.cpp passes it to the tracer
  return node.provenance.source_ops.empty() ? 0 : node.provenance.source_ops.front() + std::uint64_t{1};
}

void collect_reads(const graph::Graph& graph, std::map<std::uint64_t, std::vector<std::string>>& reads) {
  std::map<graph::ValueId, std::string> names;
  for (const graph::Input& input : graph.inputs) {
    names[input.value] = input.name;
  }
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId value : node.inputs) {
      const auto name = names.find(value);
      if (name == names.end() || traced_id(node) == 0) {
        continue;
      }
      std::vector<std::string>& of_node = reads[traced_id(node)];
      if (std::find(of_node.begin(), of_node.end(), name->second) == of_node.end()) {
        of_node.push_back(name->second);
      }
    }
    for (const auto& region : node.regions) {
      collect_reads(*region, reads);
    }
  }
}

}  // namespace

std::vector<GraphInput> graph_inputs(const graph::Graph& graph, const std::map<std::uint64_t, double>& seconds) {
  std::map<graph::ValueId, std::vector<const graph::Node*>> readers;
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId value : node.inputs) {
      std::vector<const graph::Node*>& of_value = readers[value];
      if (of_value.empty() || of_value.back() != &node) {
        of_value.push_back(&node);
      }
    }
  }
  std::vector<GraphInput> inputs;
  for (const graph::Input& input : graph.inputs) {
    const TensorType& type = graph.types[input.value];
    GraphInput& entry = inputs.emplace_back();
    entry.name = input.name;
    entry.kind = graph::name_of(input.kind);
    entry.type = to_string(type);
    entry.bytes = static_cast<double>(type.shape.product()) * static_cast<double>(size_of(type.dtype));
    std::set<std::uint64_t> counted;
    for (const graph::Node* const node : readers[input.value]) {
      if (std::find(entry.readers.begin(), entry.readers.end(), node->op->name) == entry.readers.end()) {
        entry.readers.emplace_back(node->op->name);
      }
      const auto time = seconds.find(traced_id(*node));
      if (time != seconds.end() && counted.insert(time->first).second) {
        entry.seconds = entry.seconds.value_or(0) + time->second;
      }
    }
  }
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const GraphInput& a, const GraphInput& b) { return a.bytes > b.bytes; });
  return inputs;
}

std::map<std::uint64_t, std::vector<std::string>> reads_by_source_op(const graph::Graph& graph) {
  std::map<std::uint64_t, std::vector<std::string>> reads;
  collect_reads(graph, reads);
  return reads;
}

std::string render_inputs(const std::vector<GraphInput>& inputs, const TableOptions& options, std::size_t most) {
  const bool timed = std::any_of(inputs.begin(), inputs.end(), [](const GraphInput& each) { return each.seconds; });
  TextTable table(timed ? std::vector<std::string>{"input", "kind", "type", "memory", "read by", "their time"}
                        : std::vector<std::string>{"input", "kind", "type", "memory", "read by"});
  double rest = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const GraphInput& input = inputs[i];
    if (i >= most) {
      rest += input.bytes;
      continue;
    }
    constexpr int kNameColumns = 48;
    constexpr int kReaderColumns = 32;
    std::vector<std::string> fields = {shorten_middle(printable(input.name), kNameColumns), input.kind, input.type,
                                       format_bytes(input.bytes),
                                       shorten(fmt::format("{}", fmt::join(input.readers, ", ")), kReaderColumns)};
    if (timed) {
      fields.push_back(format_seconds(input.seconds));
    }
    table.add(std::move(fields));
  }
  if (table.empty()) {
    return "";
  }
  const std::size_t others = inputs.size() - std::min(inputs.size(), most);
  return table.render(options.colour, options.width) +
         (others > 0 ? fmt::format("and {} more: {}\n", others, format_bytes(rest)) : "");
}

nlohmann::json to_json(const std::vector<GraphInput>& inputs) {
  nlohmann::json out = nlohmann::json::array();
  for (const GraphInput& input : inputs) {
    out.push_back({{"name", input.name},
                   {"kind", input.kind},
                   {"type", input.type},
                   {"bytes", input.bytes},
                   {"readers", input.readers},
                   {"seconds", input.seconds ? nlohmann::json(*input.seconds) : nlohmann::json()}});
  }
  return out;
}

}  // namespace diptych::reports
