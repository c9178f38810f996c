// Fusion: nodes that hand results of one shape, or of the same rows, to one another become one node with a region,
// which runs as one kernel (codegen/tile_program.h). Exact, because the same loops and kernels run on the same
// elements. A result that others read, too, is an output of the fused node; nothing is computed twice.
//
//   %2 = exp(%0)               %3 = fused(%0, %1) [
//   %3 = mul(%2, %1)     =>        %2 = exp(%0)
//                                  %3 = mul(%2, %1) ]
//
// The pass `epilogue` does the same with a matrix product, or a convolution, and the elementwise ops behind it, which
// process each part of its results as its kernel finishes it:
//
//   %3 = linear(%0, %1, %2)    %5 = fused(%0, %1, %2, %4) [
//   %5 = add(gelu(%3), %4) =>      %3 = linear(%0, %1, %2)
//                                  %5 = add(gelu(%3), %4) ]
//
// A set of nodes can become one only if no way leads out of it and back in:
//
//   %2 = exp(%0)
//   %3 = matmul(%2, %1)        reads the set's result, and the set would read its
//   %4 = add(%2, %3)

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "framework/codegen/rows.h"
#include "framework/codegen/tile_program.h"
#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "framework/graph/rewriter.h"
#include "framework/passes/fused_node.h"
#include "framework/passes/fusion_forms.h"
#include "framework/passes/node_sets.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr std::uint32_t kNone = graph::Producers::kNone;
/// A kernel that a reduction, or an op of rows, is part of must save so many passes over its tensor (docs/fusion.md).
constexpr double kPassesOfReduction = 3;
constexpr double kPassesOfRows = 5;
/// And one more if the tensor is smaller, because the next op finds it in the second cache.
constexpr std::size_t kSecondCacheBytes = std::size_t{512} << 10;
/// Of larger tensors, whose rows come from memory, one is enough for each such op.
constexpr double kPassesFromMemory = 1;
constexpr std::size_t kRowsInCaches = std::size_t{8} << 20;
/// As for each op of channels, and for two of them if the tensor is larger. A reduction of channels takes a pass less
/// by itself, and has calls for each plane if planes are short.
constexpr std::size_t kChannelsInCaches = std::size_t{16} << 20;
constexpr double kPassesOfChannels = 1;
constexpr double kPassesOfChannelsFromMemory = 0.5;
constexpr double kPassesOfReducedChannels = 1.5;
constexpr double kPassesOfShortPlanes = 2.5;
/// A kernel of elements must save such a part of the passes over smaller tensors than these.
constexpr double kLeastPartSaved = 0.4;
constexpr std::size_t kElementsInCaches = std::size_t{2} << 20;
/// How much more a step on a tile takes than an instruction of its own.
constexpr double kNanosecondsOfStep = 2;

class Fusion {
 public:
  Fusion(Graph& graph, FusedKind kind, const PassContext& context)
      : graph_(graph),
        kind_(kind),
        context_(context),
        users_(graph),
        producers_(graph),
        forms_(forms_of(graph, users_, kind, context)) {}

  bool run() {
    if (kind_ == FusedKind::epilogues &&
        std::none_of(forms_.begin(), forms_.end(), [](const FusionForm& form) { return form.is_contraction; })) {
      return false;
    }
    do {
      join_all();
    } while (context_.least_fused_bytes > 0 && refuse_what_doesnt_pay());
    if (context_.refusals != nullptr) {
      note_refusals();
    }
    return rebuild();
  }

 private:
  void join_all() {
    sets_ = NodeSets(graph_);
    rows_.clear();
    for (const FusionForm& form : forms_) {
      rows_.push_back(form.rows);
    }
    // Again, because what is behind a product may be read by what was looked at before it was there.
    while (join_once() && kind_ == FusedKind::epilogues) {
    }
  }

  bool join_once() {
    bool joined = false;
    refused_.clear();
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const ValueId input : graph_.nodes[i].inputs) {
        if (const std::uint32_t before = producers_[input]; before != kNone && sets_.of(before) != sets_.of(i)) {
          const std::optional<Refusal> refusal = join(before, i);
          joined = joined || !refusal;
          if (refusal && context_.refusals != nullptr) {
            refused_.insert_or_assign({before, i}, *refusal);
          }
        }
      }
    }
    return joined;
  }

  /// For every node that computes, whose results it reads from another kernel.
  void note_refusals() const {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      std::set<std::uint32_t> known;
      for (const ValueId input : node.inputs) {
        std::uint32_t producer = producers_[input];
        while (producer != kNone && graph_.nodes[producer].op->view != nullptr) {
          producer = producers_[graph_.nodes[producer].inputs[0]];
        }
        if (kind_ == FusedKind::epilogues && !is_result_of_product(producer, node)) {
          continue;
        }
        if (node.op->view == nullptr && producer != kNone && are_apart(producer, i) && known.insert(producer).second) {
          const Refusal why = why_apart(producer, i, producer == producers_[input]);
          const bool is_measured = sets_.of(producer) == sets_.of(i);  // vetoed, by who knows how much
          const double by = why == Refusal::unprofitable && !is_measured ? std::max(lost(producer), lost(i)) : 0;
          context_.refusals->push_back({graph_.nodes[producer].output(), node.outputs.empty() ? 0 : node.output(),
                                        graph_.nodes[producer].op, node.op, why, by});
        }
      }
    }
  }

  bool are_apart(std::uint32_t producer, std::uint32_t consumer) const {
    return sets_.of(producer) != sets_.of(consumer) || is_vetoed(sets_.nodes(sets_.of(consumer)));
  }

  bool is_result_of_product(std::uint32_t producer, const Node& consumer) const {
    return producer != kNone && forms_[producer].is_contraction && consumer.op->elementwise();
  }

  Refusal why_apart(std::uint32_t producer, std::uint32_t consumer, bool directly) const {
    for (const std::uint32_t node : {consumer, producer}) {
      if (forms_[node].refusal) {
        return *forms_[node].refusal;
      }
    }
    if (sets_.of(producer) == sets_.of(consumer) || forms_[producer].repeats || forms_[consumer].repeats) {
      return Refusal::unprofitable;
    }
    const auto found = refused_.find({producer, consumer});
    return found != refused_.end() ? found->second : directly ? Refusal::shape : Refusal::layout;
  }

  /// How much longer a node would take in a kernel with others, in nanoseconds, roughly.
  double lost(std::uint32_t node) const {
    const FusionForm& form = forms_[node];
    if (form.is_contraction && !form.is_small) {
      return static_cast<double>(bytes_of(graph_.types[graph_.nodes[node].output()])) * kNanosecondsOfByte;
    }
    return std::max(form.lost, form.is_small ? kNanosecondsOfStep : 0);
  }

  /// Takes the nodes out of sets that save too little, if they are of rows all ops of rows; true if there were any.
  bool refuse_what_doesnt_pay() {
    bool changed = false;
    for (std::uint32_t set = 0; set < graph_.nodes.size(); ++set) {
      if (sets_.of(set) != set || sets_.nodes(set).size() < 2 || kind_ == FusedKind::epilogues) {
        continue;
      }
      const std::span<const std::uint32_t> nodes = sets_.nodes(set);
      const bool has_rows = rows_[set].count > 0;
      changed = (rows_[set].by_channel() && refuse_numbers_of_channels(nodes, rows_[set])) || changed;
      if (const double lost = has_rows ? lost_by_rows(nodes) : lost_by_elements(nodes); lost > 0) {
        for (const std::uint32_t node : nodes) {
          if (!has_rows || forms_[node].rows.count > 0) {
            forms_[node].refusal = Refusal::unprofitable;
            forms_[node].lost = lost * kNanosecondsOfByte;
            forms_[node].rows = {};
            changed = true;
          }
        }
      }
    }
    return changed;
  }

  /// What is one element a channel is computed channel by channel inside, otherwise by one call: nodes of such results
  /// that aren't between an op of channels and one that reads all of a channel are taken out; true if there were any.
  bool refuse_numbers_of_channels(std::span<const std::uint32_t> nodes, const RowLayout& rows) {
    std::set<ValueId> made;  // of ops of channels, and what follows from it
    for (const std::uint32_t at : nodes) {
      const Node& node = graph_.nodes[at];
      if (forms_[at].rows.count > 0 ||
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return made.contains(input); })) {
        made.insert(node.output());
      }
    }
    bool changed = false;
    std::set<ValueId> read;
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[nodes[i]];
      const bool is_between = made.contains(node.output()) && read.contains(node.output());
      if (node.op->elementwise() && codegen::is_of_channels(rows, graph_.types[node.output()].shape) && !is_between) {
        forms_[nodes[i]].refusal = Refusal::unprofitable;
        forms_[nodes[i]].lost = static_cast<double>(rows.count) * kNanosecondsOfStep;
        changed = true;
      } else if (!forms_[nodes[i]].is_view || read.contains(node.output())) {
        read.insert(node.inputs.begin(), node.inputs.end());
      }
    }
    return changed;
  }

  struct Readers {
    std::size_t inside = 0;   ///< nodes of the set that compute
    std::size_t outside = 0;  ///< others, and the graph's results
  };
  /// Those of a value, and of its views.
  void count_readers(ValueId value, std::uint32_t set, Readers& readers) const {
    readers.outside += users_.is_result(value) ? 1 : 0;
    for (const std::uint32_t user : users_.of(value)) {
      if (forms_[user].is_view) {
        count_readers(graph_.nodes[user].output(), set, readers);
      } else {
        ++(sets_.of(user) == set ? readers.inside : readers.outside);
      }
    }
  }

  struct Traffic {  // in bytes, by a kernel of the nodes
    std::size_t saved = 0;
    std::size_t all = 0;  ///< what the nodes read and write by themselves
  };
  Traffic traffic_of(std::span<const std::uint32_t> nodes) const {
    Traffic traffic;
    std::map<ValueId, std::size_t> reads;  // of what comes from outside: from the second on they find it in the tile
    for (const std::uint32_t at : nodes) {
      const Node& node = graph_.nodes[at];
      if (forms_[at].is_view) {
        continue;
      }
      for (const ValueId input : node.inputs) {
        const std::size_t bytes = bytes_of(graph_.types[input]);
        traffic.all += bytes;
        if ((producers_[input] == kNone || sets_.of(producers_[input]) != sets_.of(at)) && reads[input]++ > 0) {
          traffic.saved += bytes;
        }
      }
      Readers readers;
      count_readers(node.output(), sets_.of(at), readers);
      const std::size_t bytes = bytes_of(graph_.types[node.output()]);
      traffic.all += bytes;
      traffic.saved += (readers.inside + (readers.outside > 0 ? 0 : 1)) * bytes;
    }
    return traffic;
  }

  /// What a kernel of the nodes would have to save, less what it saves: kernels of rows cost more to call on a tile
  /// than on a tensor.
  double lost_by_rows(std::span<const std::uint32_t> nodes) const {
    double wanted = 0;
    for (const std::uint32_t at : nodes) {
      if (forms_[at].rows.count > 0) {
        const std::size_t largest = largest_of(graph_, graph_.nodes[at]);
        wanted += passes_wanted(*graph_.nodes[at].op, forms_[at].rows, largest) * static_cast<double>(largest);
      }
    }
    return wanted - static_cast<double>(traffic_of(nodes).saved);
  }
  /// The passes over its largest tensor that a kernel must save for an op.
  static double passes_wanted(const OpDef& op, const RowLayout& rows, std::size_t largest) {
    const bool is_reduction = op.kind == OpKind::reduction;
    if (rows.by_channel()) {
      const double of_reduction = rows.plane < kShortPlane ? kPassesOfShortPlanes : kPassesOfReducedChannels;
      return is_reduction                   ? of_reduction
             : largest >= kChannelsInCaches ? kPassesOfChannelsFromMemory
                                            : kPassesOfChannels;
    }
    if (largest >= kRowsInCaches) {
      return kPassesFromMemory;
    }
    return (is_reduction ? kPassesOfReduction : kPassesOfRows) + (largest < kSecondCacheBytes ? 1 : 0);
  }
  double lost_by_elements(std::span<const std::uint32_t> nodes) const {
    if (largest_of(graph_, graph_.nodes[nodes.front()]) >= kElementsInCaches) {
      return 0;
    }
    const Traffic traffic = traffic_of(nodes);
    return kLeastPartSaved * static_cast<double>(traffic.all) - static_cast<double>(traffic.saved);
  }

  /// Makes one set of the two nodes' sets; says why if it doesn't.
  std::optional<Refusal> join(std::uint32_t producer, std::uint32_t consumer) {
    for (const std::uint32_t node : {consumer, producer}) {
      if (forms_[node].refusal) {
        return forms_[node].refusal;
      }
    }
    const std::uint32_t a = sets_.of(producer);
    const std::uint32_t b = sets_.of(consumer);
    const RowLayout rows = rows_[a].count > 0 ? rows_[a] : rows_[b];
    if (rows_[b].count > 0 && rows_[b] != rows) {
      return Refusal::shape;
    }
    std::vector<std::uint32_t> both(sets_.nodes(a).begin(), sets_.nodes(a).end());
    both.insert(both.end(), sets_.nodes(b).begin(), sets_.nodes(b).end());
    if (const std::optional<Refusal> refusal =
            rows.count == 0 ? why_not_elements(producer, consumer) : why_not_rows(both, rows)) {
      return refusal;
    }
    if (const std::optional<Refusal> refusal = kind_ == FusedKind::epilogues ? why_not_epilogue(both) : std::nullopt) {
      return refusal;
    }
    if (both.size() > codegen::TileProgram::kMostSteps || inputs_of(both).size() > codegen::TileProgram::kMostInputs) {
      return Refusal::operands;
    }
    if (!sets_.join(a, b)) {
      return Refusal::cycle;
    }
    rows_[a] = rows;
    return std::nullopt;
  }

  /// Whether an epilogue reads or writes tensors besides the product, in parts of rows: such parts come from memory
  /// more slowly than row after row. One is still worth it where the parts are whole rows.
  bool reads_too_much(const Node& contraction, std::span<const std::uint32_t> nodes) const {
    const Shape& shape = graph_.types[contraction.output()].shape;
    std::int64_t tensors = 0;
    for (const ValueId input : inputs_of(nodes)) {
      const bool is_of_contraction =
          std::find(contraction.inputs.begin(), contraction.inputs.end(), input) != contraction.inputs.end();
      tensors += !is_of_contraction && graph_.types[input].shape == shape ? 1 : 0;
    }
    return context_.least_epilogue_bytes > 0 && tensors > (has_whole_rows(graph_, contraction) ? 1 : 0);
  }

  /// One of the nodes is a contraction, which comes first: it reads nothing that the others make.
  std::optional<Refusal> why_not_epilogue(std::span<const std::uint32_t> both) const {
    const std::set<std::uint32_t> nodes(both.begin(), both.end());
    std::size_t contractions = 0;
    for (const std::uint32_t at : both) {
      if (!forms_[at].is_contraction) {
        continue;
      }
      const Node& node = graph_.nodes[at];
      const bool reads_inside = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId value) {
        return producers_[value] != kNone && nodes.contains(producers_[value]);
      });
      if (reads_inside || ++contractions > 1) {
        return Refusal::kind;
      }
      if (reads_too_much(node, both)) {
        return Refusal::unprofitable;
      }
    }
    return contractions == 1 ? std::nullopt : std::optional(Refusal::kind);
  }

  std::optional<Refusal> why_not_elements(std::uint32_t producer, std::uint32_t consumer) const {
    if (forms_[producer].is_view || forms_[consumer].is_view ||
        graph_.types[graph_.nodes[producer].output()].shape != graph_.types[graph_.nodes[consumer].output()].shape) {
      return Refusal::shape;
    }
    const auto is_refused = [&](std::uint32_t node) { return forms_[node].is_small || forms_[node].repeats; };
    return is_refused(producer) || is_refused(consumer) ? std::optional(Refusal::unprofitable) : std::nullopt;
  }

  std::optional<Refusal> why_not_rows(std::span<const std::uint32_t> both, const RowLayout& rows) const {
    const std::set<std::uint32_t> nodes(both.begin(), both.end());
    for (const std::uint32_t at : both) {
      if (forms_[at].is_turned) {
        return Refusal::layout;
      }
      if (forms_[at].repeats && !rows.by_channel()) {
        return Refusal::unprofitable;
      }
      if (graph::why_not_in_region(graph_, graph_.nodes[at], rows, [&](ValueId value) {
            return producers_[value] != kNone && nodes.contains(producers_[value]);
          }) != nullptr) {
        return Refusal::shape;
      }
    }
    return std::nullopt;
  }

  std::vector<ValueId> inputs_of(std::span<const std::uint32_t> nodes) const {
    return passes::inputs_of(graph_, nodes);
  }

  /// Whether it was measured, and loses.
  bool is_vetoed(std::span<const std::uint32_t> nodes) const {
    const auto first = std::find_if(nodes.begin(), nodes.end(), [&](auto node) { return !forms_[node].is_view; });
    return first != nodes.end() && context_.vetoed.contains(graph_.nodes[*first].output());
  }

  /// Appends the nodes of a set: as one, with copies of its views that others read, or as they are.
  void append(std::span<const std::uint32_t> nodes, std::vector<Node>& to) const {
    const auto computing = std::count_if(nodes.begin(), nodes.end(), [&](auto node) { return !forms_[node].is_view; });
    if (computing < 2 || is_vetoed(nodes)) {
      for (const std::uint32_t node : nodes) {
        to.push_back(graph_.nodes[node]);
      }
      return;
    }
    // Who reads what, from the end: views stand where they are read.
    std::set<ValueId> inside;
    std::set<ValueId> outside;
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[nodes[i]];
      const ValueId output = node.output();
      const std::span<const std::uint32_t> users = users_.of(output);
      const bool leaves = users_.is_result(output) || std::any_of(users.begin(), users.end(), [&](std::uint32_t user) {
                            return sets_.of(user) != sets_.of(nodes[i]);
                          });
      const bool is_view = forms_[nodes[i]].is_view;
      if (leaves) {
        outside.insert(output);
      }
      if (is_view && outside.contains(output)) {
        outside.insert(node.inputs[0]);
      }
      if (!is_view || inside.contains(output)) {
        inside.insert(node.inputs.begin(), node.inputs.end());
      }
    }
    std::vector<std::uint32_t> members;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(members), [&](std::uint32_t node) {
      return !forms_[node].is_view || inside.contains(graph_.nodes[node].output());
    });
    to.push_back(fused(members, outside));
    if (context_.fused != nullptr) {
      context_.fused->push_back({to.back().output(), {}, {}});
      for (const std::uint32_t node : nodes) {
        if (!forms_[node].is_view) {
          context_.fused->back().members.push_back(graph_.nodes[node].output());
          context_.fused->back().ops.push_back(graph_.nodes[node].op);
        }
      }
    }
    for (const std::uint32_t node : nodes) {
      if (forms_[node].is_view && outside.contains(graph_.nodes[node].output())) {
        to.push_back(graph_.nodes[node]);
      }
    }
  }

  Node fused(std::vector<std::uint32_t> nodes, std::set<ValueId> outside) const {
    std::stable_partition(nodes.begin(), nodes.end(), [&](std::uint32_t node) { return forms_[node].is_contraction; });
    for (const std::uint32_t node : nodes) {
      if (forms_[node].is_view) {
        outside.erase(graph_.nodes[node].output());
      }
    }
    return fused_node(graph_, nodes, outside);
  }

  bool rebuild() {
    const std::vector<std::uint32_t> order = sets_.in_order();
    if (order.size() == graph_.nodes.size()) {
      return false;
    }
    std::vector<Node> nodes;
    for (const std::uint32_t set : order) {
      append(sets_.nodes(set), nodes);
    }
    graph_.nodes = std::move(nodes);
    return true;
  }

  Graph& graph_;
  const FusedKind kind_;
  const PassContext& context_;
  const graph::Users users_;
  NodeSets sets_;
  graph::Producers producers_;
  std::vector<FusionForm> forms_;
  std::vector<RowLayout> rows_;                                         ///< of sets
  std::map<std::pair<std::uint32_t, std::uint32_t>, Refusal> refused_;  ///< by (producer, consumer)
};

}  // namespace

bool fuse(Graph& graph, const PassContext& context) { return Fusion(graph, FusedKind::tiles, context).run(); }

bool fuse_epilogues(Graph& graph, const PassContext& context) {
  return Fusion(graph, FusedKind::epilogues, context).run();
}

}  // namespace diptych::passes
