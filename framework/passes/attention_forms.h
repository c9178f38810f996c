#pragma once

#include <optional>
#include <vector>

#include "framework/graph/rewriter.h"
#include "framework/ops/row_ops.h"

/// Attention written as the ops that it consists of, and its gradient, found by their structure.
namespace diptych::passes {

/// A value as a permutation of the axes of another, which is no permutation itself.
struct PermutedView {
  graph::ValueId of;
  std::vector<int> axes;  ///< of `of`, for each of the value's own
  PermutedView swapped() const;
  friend bool operator==(const PermutedView&, const PermutedView&) = default;
};

/// softmax(scale q k^T + mask) v. All values are those of the graph that was searched.
struct AttentionForm {
  graph::ValueId result;
  graph::ValueId q, transposed_k, v;
  std::optional<graph::ValueId> mask;
  ops::SoftmaxAttributes softmax;
  struct Drop {  ///< of the weights, each kept with probability `keep`, times `factor`
    graph::ValueId state;
    double keep, factor;
  };
  std::optional<Drop> drop;
  graph::Provenance provenance;  ///< of all ops between q, k, v and the result

  /// The gradients by all three, where the weights are read for these and nothing else.
  struct Gradient {
    graph::ValueId g;      ///< with respect to the result
    graph::ValueId first;  ///< of q, transposed_k and v, in execution order: q, k, v and g are there
    graph::ValueId q, transposed_k, v;
    bool whole_rows;  ///< see ops::AttentionGradientAttributes
    graph::Provenance provenance;
  };
  std::optional<Gradient> gradient;
};

/// Of a graph, which must stay as it is meanwhile.
class AttentionForms {
 public:
  /// `read_by_others`: also what other nodes read in between, which keeps it from being one op.
  explicit AttentionForms(const graph::Graph& graph, bool read_by_others = false);

  /// The form that ends with this product, if any.
  std::optional<AttentionForm> ending_with(const graph::Node& product) const;
  /// Null for inputs and constants.
  const graph::Node* producer(graph::ValueId value) const;

 private:
  struct Weights;
  struct Dropped;

  /// The node that makes a value, if it is read so many times, and isn't a result.
  const graph::Node* producer_read(graph::ValueId value, std::size_t times) const;
  bool is_read_by_nodes_alone(graph::ValueId value, std::size_t times) const;
  std::optional<double> number(graph::ValueId value) const;
  bool is_hidden_above_diagonal(const graph::Node& choice, std::size_t* hidden) const;
  PermutedView view_of(graph::ValueId value) const;

  std::optional<Weights> weights_of(const graph::Node& softmax) const;
  std::optional<Dropped> dropped(graph::ValueId value, std::size_t reads) const;
  std::optional<AttentionForm::Gradient> gradient_of(const AttentionForm& form, const Weights& weights,
                                                     const Dropped* drop, graph::ValueId multiplied) const;

  const graph::Graph& graph_;
  bool read_by_others_;
  graph::Users users_;
  graph::Producers producers_;
  std::vector<std::uint32_t> constant_;
};

}  // namespace diptych::passes
