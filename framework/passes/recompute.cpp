// Memory: a value that waits for the backward pass while the program needs most memory, and that is cheap to compute
// from what waits there anyway, is computed again where it is read next. Exact, because it is the same op on the same
// values.
//
//   %3 = gelu(%2)                        %3 = gelu(%2)
//   %4 = matmul(%3, %w)                  %4 = matmul(%3, %w)
//   ...                            =>    ...
//   %8 = gelu_backward(%7, %2)           %9 = gelu(%2)
//   %10 = matmul(permute(%3), %7)        %8 = gelu_backward(%7, %2)
//                                        %10 = matmul(permute(%9), %7)
//
// It is done only if that lowers the peak by a twentieth, and takes no more than a fiftieth of the graph's time, as
// estimated.

#include <algorithm>
#include <map>
#include <vector>

#include "framework/dispatch/op.h"
#include "framework/graph/rewriter.h"
#include "framework/graph/work.h"
#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr std::uint32_t kNone = graph::Producers::kNone;
constexpr double kLeastPartSaved = 0.05;
constexpr double kMostPartOfTime = 0.02;
/// For a rough estimate of times.
constexpr double kFlopsPerSecond = 1e11;
constexpr double kBytesPerSecond = 2e10;
/// Functions like exp count as several operations, but run at a fraction of the speed of multiply-adds.
constexpr double kFlopsPerSecondOfElements = 3e10;
constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

double seconds_of(const Graph& graph, const Node& node) {
  if (!node.regions.empty()) {
    return 0;
  }
  const Cost cost = graph::work_of(graph, node).value_or(Cost());
  const double speed = node.op->kind == OpKind::contraction ? kFlopsPerSecond : kFlopsPerSecondOfElements;
  return std::max(cost.flops / speed, cost.bytes / kBytesPerSecond);
}

/// When the memory of each value is in use. Views have that of what they look at.
class Lifetimes {
 public:
  explicit Lifetimes(const Graph& graph)
      : graph_(graph), producers_(graph), storage_(graph.types.size()), last_(graph.types.size(), 0) {
    for (ValueId value = 0; value < storage_.size(); ++value) {
      storage_[value] = value;
    }
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.op->view != nullptr) {
        storage_[node.output()] = storage_[node.inputs[0]];
      }
      for (const ValueId input : node.inputs) {
        last_[storage_[input]] = i;
      }
    }
    const auto stays = [&](ValueId value) { last_[storage_[value]] = static_cast<std::uint32_t>(graph.nodes.size()); };
    std::for_each(graph.outputs.begin(), graph.outputs.end(), stays);
    for (const graph::Update& update : graph.updates) {
      stays(update.value);
    }
    find_peak();
  }

  std::uint32_t producer(ValueId value) const { return producers_[value]; }
  ValueId storage(ValueId value) const { return storage_[value]; }
  std::uint32_t last(ValueId value) const { return last_[storage_[value]]; }
  std::uint32_t peak_at() const { return peak_at_; }
  double peak_bytes() const { return peak_bytes_; }

 private:
  void find_peak() {
    std::vector<double> change(graph_.nodes.size() + 2,
                               0);  // sizes that no memory has, together, don't fit into 64 bits
    for (ValueId value = 0; value < storage_.size(); ++value) {
      if (producers_[value] != kNone && storage_[value] == value) {
        const auto bytes = static_cast<double>(bytes_of(graph_.types[value]));
        change[producers_[value]] += bytes;
        change[std::max(last_[value], producers_[value]) + 1] -= bytes;
      }
    }
    double live = 0;
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      live += change[i];
      if (live > peak_bytes_) {
        peak_bytes_ = live;
        peak_at_ = i;
      }
    }
  }

  const Graph& graph_;
  graph::Producers producers_;
  std::vector<ValueId> storage_;
  std::vector<std::uint32_t> last_;  ///< node that reads it, by storage
  std::uint32_t peak_at_ = 0;
  double peak_bytes_ = 0;
};

class Recompute {
 public:
  Recompute(Graph& graph, std::size_t least_bytes) : graph_(graph), least_bytes_(least_bytes) {
    for (const Node& node : graph.nodes) {
      budget_ += kMostPartOfTime * seconds_of(graph, node);
    }
  }

  /// True if it found a value and computes it again.
  bool once() {
    const Lifetimes lifetimes(graph_);
    const graph::Users users(graph_);
    Choice best;
    for (std::uint32_t i = 0; i < lifetimes.peak_at(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!is_cheap(node) || bytes_of(graph_.types[node.output()]) < least_bytes_) {
        continue;
      }
      const double seconds = seconds_of(graph_, node);
      const double bytes_per_second = static_cast<double>(bytes_of(graph_.types[node.output()])) / seconds;
      if (seconds <= budget_ && bytes_per_second > best.bytes_per_second) {
        if (const std::uint32_t next = next_reader(node.output(), lifetimes, users);
            next != kNone && keeps_inputs(node, next, lifetimes)) {
          best = {i, next, bytes_per_second};
        }
      }
    }
    if (best.node == kNone) {
      return false;
    }
    budget_ -= seconds_of(graph_, graph_.nodes[best.node]);
    move(best, lifetimes);
    return true;
  }

 private:
  struct Choice {
    std::uint32_t node = kNone;
    std::uint32_t next = kNone;   ///< the first node that reads it after the peak
    double bytes_per_second = 0;  ///< freed at the peak, by the time that it takes
  };

  static bool is_cheap(const Node& node) {
    return (node.op->kind == OpKind::elementwise || node.op->kind == OpKind::row) && node.outputs.size() == 1 &&
           node.regions.empty() && !node.op->effect && !node.op->can_fail;
  }

  /// The first node behind the peak that reads the value or a view of it; kNone if there is none, or it is read at the
  /// peak.
  std::uint32_t next_reader(ValueId value, const Lifetimes& lifetimes, const graph::Users& users) const {
    if (lifetimes.last(value) <= lifetimes.peak_at() || lifetimes.last(value) >= graph_.nodes.size()) {
      return kNone;
    }
    const std::uint32_t reader = first_reader(value, lifetimes.peak_at(), users);
    return reader == lifetimes.peak_at() ? kNone : reader;
  }
  /// From the peak on.
  std::uint32_t first_reader(ValueId value, std::uint32_t peak, const graph::Users& users) const {
    std::uint32_t first = kNone;
    for (const std::uint32_t user : users.of(value)) {
      if (user >= peak) {
        first = std::min(first, user);
      } else if (graph_.nodes[user].op->view != nullptr) {
        first = std::min(first, first_reader(graph_.nodes[user].output(), peak, users));
      }
    }
    return first;
  }

  /// Whether what the node reads is there until `until`, anyway.
  bool keeps_inputs(const Node& node, std::uint32_t until, const Lifetimes& lifetimes) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId value) {
      const ValueId storage = lifetimes.storage(value);
      const auto input = std::find_if(graph_.inputs.begin(), graph_.inputs.end(),
                                      [&](const graph::Input& each) { return each.value == storage; });
      // A state's memory gets its new value when nothing reads the old one any more.
      const bool is_kept = lifetimes.producer(storage) == kNone &&
                           (input == graph_.inputs.end() || input->kind != graph::InputKind::state);
      return is_kept || lifetimes.last(value) >= until;
    });
  }

  void move(const Choice& choice, const Lifetimes& lifetimes) {
    std::map<ValueId, ValueId> copies;
    std::vector<Node> before;
    const ValueId value = graph_.nodes[choice.node].output();
    const auto copy_of = [&](ValueId of, const auto& self) -> ValueId {
      if (const auto known = copies.find(of); known != copies.end()) {
        return known->second;
      }
      Node node = graph_.nodes[lifetimes.producer(of)];
      if (of != value) {
        node.inputs[0] = self(node.inputs[0], self);
      }
      node.outputs = {graph_.new_value(TensorType(graph_.types[of]))};
      copies[of] = node.outputs[0];
      before.push_back(std::move(node));
      return copies[of];
    };
    for (std::uint32_t i = choice.next; i < graph_.nodes.size(); ++i) {
      for (ValueId& input : graph_.nodes[i].inputs) {
        const bool is_early = lifetimes.producer(input) != kNone && lifetimes.producer(input) < choice.next;
        if (is_early && lifetimes.storage(input) == value) {
          input = copy_of(input, copy_of);
        }
      }
    }
    graph_.nodes.insert(graph_.nodes.begin() + choice.next, std::make_move_iterator(before.begin()),
                        std::make_move_iterator(before.end()));
  }

  Graph& graph_;
  const std::size_t least_bytes_;
  double budget_ = 0;  ///< seconds
};

}  // namespace

bool recompute(Graph& graph, const PassContext& context) {
  constexpr int kMostTimes = 256;
  const double before = Lifetimes(graph).peak_bytes();
  Graph changed = graph;
  Recompute recompute(changed, context.least_fused_bytes > 0 ? kLeastBytes : 1);
  int times = 0;
  while (times < kMostTimes && recompute.once()) {
    ++times;
  }
  const double saved = before - Lifetimes(changed).peak_bytes();
  const double least = context.least_fused_bytes > 0 ? kLeastPartSaved * static_cast<double>(before) : 0;
  if (times == 0 || saved < least) {
    return false;
  }
  graph = std::move(changed);
  return true;
}

}  // namespace diptych::passes
