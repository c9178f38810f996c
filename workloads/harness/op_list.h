#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/storage.h"
#include "framework/graph/ir.h"

/// The ops of a program's call, in order, so that each part of what eager does for an op can be run alone.
namespace diptych::workloads {

/// Ops of a call by number, the first included, the last not.
struct OpRange {
  std::size_t begin, end;
};

/// One op of the list. Values are numbered as in the graph.
struct ListedOp {
  const OpDef* op;
  const void* attributes;
  std::vector<graph::ValueId> inputs;
  graph::ValueId output;
  std::vector<graph::ValueId> dying;  ///< values that nobody reads after this op
  bool is_view;                       ///< makes no elements
};

class OpList {
 public:
  /// Of a graph as captured, without passes; runs it once. Must not outlive the graph. Throws Error where the graph has
  /// control flow or effects, whose eager form is another.
  OpList(const graph::Graph& graph, std::span<const Tensor> arguments);
  ~OpList();
  OpList(const OpList&) = delete;
  OpList& operator=(const OpList&) = delete;

  const std::vector<ListedOp>& ops() const { return ops_; }

  // Each runs one part for all ops in order, with the lifetimes that the values have in the program.
  void run_eager();  ///< `apply` without a tape
  /// Records op after op, as a program does that wants the gradient by all its inputs, until `nodes` are on the tape.
  /// Returns how many ops that took.
  std::size_t run_recorded(std::size_t nodes);
  void run_first(std::size_t count);  ///< that many ops without a tape
  /// `run_eager`; seconds that it spent in these ranges, which ascend and don't overlap.
  double seconds_within(std::span<const OpRange> ranges);
  void run_kernels();     ///< on planned memory
  void run_inference();   ///< shapes and dtypes
  void run_allocation();  ///< tensors and their elements

  /// The ops of one kind alone, on values that are all alive.
  struct Kind {
    std::string name;
    std::vector<std::size_t> ops;  ///< indices into ops()
  };
  std::vector<Kind> kinds() const;
  void apply_kind(const Kind& kind) const;
  void run_kernels_of(const Kind& kind) const;
  void infer_kind(const Kind& kind) const;
  void allocate_kind(const Kind& kind) const;

 private:
  struct Call;
  void find_deaths(const graph::Graph& graph);
  void plan(const graph::Graph& graph);
  template <class Place>
  std::vector<std::unique_ptr<Call>> bind_kernels(const Place& place) const;
  void release(const ListedOp& op, std::vector<Tensor>& values) const;
  Tensor apply_op(const ListedOp& op, const std::vector<Tensor>& values) const;

  std::vector<ListedOp> ops_;
  std::vector<Tensor> inputs_;   ///< by value; undefined where a value is computed
  std::vector<Tensor> values_;   ///< of the run that the constructor made
  std::vector<Tensor> live_;     ///< of a run in progress, beside the inputs
  std::vector<Tensor> watched_;  ///< the same with inputs that gradients are asked for
  StorageRef arena_;
  std::vector<std::unique_ptr<Call>> planned_calls_;  ///< kernels in order, on the arena; null for views
  std::vector<std::unique_ptr<Call>> calls_;          ///< on `values_`
};

}  // namespace diptych::workloads
