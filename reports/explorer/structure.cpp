#include "reports/explorer/structure.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "framework/dispatch/op.h"
#include "reports/diagrams/graph_diagram.h"

namespace diptych::reports {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// Writes the structure of nodes as text, values numbered in the order in which they are met.
class Writer {
 public:
  using Constants = std::map<ValueId, std::string>;
  Writer(const Graph& graph, const std::set<ValueId>& parameters, const Constants& constants)
      : graph_(graph), parameters_(parameters), constants_(constants) {}

  void write(const Node& node) {
    text_ += fmt::format("{}{{{}}}(", node.op->name, node.attributes.print());
    for (const ValueId input : node.inputs) {
      if (const auto constant = constants_.find(input); constant != constants_.end()) {
        text_ += constant->second + ",";
        continue;
      }
      const auto [entry, is_new] = numbers_.try_emplace(input, numbers_.size());
      const bool is_parameter = parameters_.contains(input);
      text_ += fmt::format("{}{}:{},", is_parameter ? "p" : "", entry->second, to_string(graph_.types[input]));
      if (is_new && !is_parameter) {
        reads_.push_back(input);
      }
    }
    text_ += ")";
    for (const ValueId output : node.outputs) {
      numbers_.try_emplace(output, numbers_.size());
      text_ += to_string(graph_.types[output]) + ",";
    }
    for (const auto& region : node.regions) {
      const Constants constants = constant_texts(*region);
      Writer inner(*region, parameters_of_regions(), constants);
      for (const Node& inner_node : region->nodes) {
        inner.write(inner_node);
      }
      text_ += "[" + inner.text_ + "]";
    }
    text_ += ";";
  }
  void write(const GraphPart& part) {
    if (part.kind == GraphPart::Kind::op) {
      write(graph_.nodes[part.node]);
      return;
    }
    text_ += part.kind == GraphPart::Kind::repeat ? "x(" : "(";
    for (const GraphPart& inner : part.parts) {
      write(inner);
    }
    text_ += ")";
  }

  const std::string& text() const { return text_; }
  std::vector<ValueId> reads() && { return std::move(reads_); }

 private:
  static const std::set<ValueId>& parameters_of_regions() {
    static const std::set<ValueId> none;
    return none;
  }

  const Graph& graph_;
  const std::set<ValueId>& parameters_;
  const Constants& constants_;
  std::map<ValueId, std::size_t> numbers_;
  std::vector<ValueId> reads_;
  std::string text_;
};

constexpr std::size_t nowhere = SIZE_MAX;

/// Neighbours with their structures, and from which neighbour each reads.
class Row {
 public:
  Row(const Graph& graph, Structures& structures, const std::vector<GraphPart>& parts) : parts_(parts) {
    std::map<ValueId, std::size_t> made_by;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (const std::size_t node : nodes_of(parts[i])) {
        for (const ValueId output : graph.nodes[node].outputs) {
          made_by[output] = i;
        }
      }
    }
    for (const GraphPart& part : parts) {
      const Structures::Form form = structures.form_of(part);
      keys_.push_back(form.key);
      std::vector<std::size_t>& producers = producers_.emplace_back();
      for (const ValueId read : form.reads) {
        const auto maker = made_by.find(read);
        producers.push_back(maker == made_by.end() ? nowhere : maker->second);
      }
    }
  }

  struct Run {
    std::size_t period = 0, count = 1;
    std::size_t length() const { return period * count; }
  };
  /// The longest run of equal periods from `start` on that is worth a box of its own.
  Run run_from(std::size_t start, bool fold_ops) const {
    constexpr std::size_t longest_period = 24;
    Run best;
    for (std::size_t period = 1; period <= std::min(longest_period, (parts_.size() - start) / 2); ++period) {
      Run run{period, 1};
      while (repeats(start, start + run.length(), period)) {
        ++run.count;
      }
      const bool has_module = std::any_of(at(start), at(start + period), [](const GraphPart& part) {
        return part.kind != GraphPart::Kind::op && part.kind != GraphPart::Kind::stretch;
      });
      const bool is_worth_it = has_module ? run.count >= 2 : fold_ops && run.count >= 3;
      if (is_worth_it && run.length() > best.length()) {
        best = run;
      }
    }
    return best;
  }

 private:
  std::vector<GraphPart>::const_iterator at(std::size_t i) const {
    return parts_.begin() + static_cast<std::ptrdiff_t>(i);
  }
  /// Whether the period at `next` is like the one before it.
  bool repeats(std::size_t start, std::size_t next, std::size_t period) const {
    if (next + period > parts_.size()) {
      return false;
    }
    for (std::size_t i = next; i < next + period; ++i) {
      if (keys_[i] != keys_[i - period] || !reads_alike(start, i - period, i, period)) {
        return false;
      }
    }
    return true;
  }
  /// Both read from outside of the run, or from neighbours a period apart. The first period reads from
  /// what stands before the run where the others read from the period before.
  bool reads_alike(std::size_t start, std::size_t first, std::size_t second, std::size_t period) const {
    for (std::size_t k = 0; k < producers_[first].size(); ++k) {
      const std::size_t a = producers_[first][k];
      const std::size_t b = producers_[second][k];
      const bool from_outside = a == b && (a == nowhere || a < start);
      const bool in_turn = a != nowhere && b == a + period;
      const bool enters = first < start + period && (a == nowhere || a < start) && b != nowhere && b >= start;
      if (!from_outside && !in_turn && !enters) {
        return false;
      }
    }
    return true;
  }

  const std::vector<GraphPart>& parts_;
  std::vector<int> keys_;
  std::vector<std::vector<std::size_t>> producers_;
};

}  // namespace

Structures::Structures(const Graph& graph) : graph_(graph), constants_(constant_texts(graph)) {
  for (const graph::Input& input : graph.inputs) {
    if (input.kind != graph::InputKind::argument) {
      parameters_.insert(input.value);
    }
  }
}

Structures::Form Structures::form_of(const GraphPart& part) {
  Writer writer(graph_, parameters_, constants_);
  writer.write(part);
  const int key = keys_.try_emplace(writer.text(), static_cast<int>(keys_.size())).first->second;
  return {key, std::move(writer).reads()};
}

std::vector<GraphPart> fold_repeats(const Graph& graph, Structures& structures, std::vector<GraphPart> parts,
                                    std::size_t many_ops) {
  const Row row(graph, structures, parts);
  const bool fold_ops = parts.size() > many_ops;
  std::vector<GraphPart> folded;
  for (std::size_t start = 0; start < parts.size();) {
    const auto run = row.run_from(start, fold_ops);
    const auto take = [&](std::size_t first, std::size_t count) {
      const auto from = std::make_move_iterator(parts.begin() + static_cast<std::ptrdiff_t>(first));
      return std::vector<GraphPart>(from, from + static_cast<std::ptrdiff_t>(count));
    };
    if (run.count < 2) {
      folded.push_back(std::move(parts[start]));
      ++start;
      continue;
    }
    GraphPart repeat{GraphPart::Kind::repeat, ""};
    for (std::size_t i = 0; i < run.count; ++i) {
      std::vector<GraphPart> period = take(start + i * run.period, run.period);
      const bool is_module = period.size() == 1 && period.front().kind == GraphPart::Kind::scope;
      repeat.parts.push_back(is_module ? std::move(period.front())
                                       : GraphPart{GraphPart::Kind::stretch, "", 0, std::move(period)});
    }
    folded.push_back(std::move(repeat));
    start += run.length();
  }
  return folded;
}

}  // namespace diptych::reports
