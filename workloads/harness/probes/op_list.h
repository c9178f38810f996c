#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/storage.h"
#include "framework/graph/ir.h"

/// The ops of one call of a program, in order, so that each part of eager's work for an op can be run alone.
namespace diptych::workloads {

/// A range of ops of a call by index: begin inclusive, end exclusive.
struct OpRange {
  std::size_t begin, end;
};

/// One op of the list. Values are numbered as in the graph.
struct ListedOp {
  const OpDef* op;
  const void* attributes;
  std::vector<graph::ValueId> inputs;
  graph::ValueId output;
  std::vector<graph::ValueId> dying;  ///< values that no later op reads
  bool is_view;                       ///< produces no elements
};

class OpList {
 public:
  /// From a graph as captured, without passes; runs it once. Must not outlive the graph. Throws Error if the graph has
  /// control flow or effects, whose eager form is different.
  OpList(const graph::Graph& graph, std::span<const Tensor> arguments);
  ~OpList();
  OpList(const OpList&) = delete;
  OpList& operator=(const OpList&) = delete;

  const std::vector<ListedOp>& ops() const { return ops_; }

  // Each runs one part for all ops in order, with the values' lifetimes in the program.
  void run_eager();  ///< `apply` without a tape
  /// Records op after op, like a program that wants the gradient with respect to all its inputs, until `nodes` are on
  /// the tape. Returns how many ops that took.
  std::size_t run_recorded(std::size_t nodes);
  void run_first(std::size_t count);  ///< `count` ops without a tape
  /// Runs `run_eager` and returns the seconds spent in these ranges, which must ascend and not overlap.
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
  std::vector<Tensor> inputs_;   ///< by value; undefined for computed values
  std::vector<Tensor> values_;   ///< of the constructor's run
  std::vector<Tensor> live_;     ///< of a run in progress, in addition to the inputs
  std::vector<Tensor> watched_;  ///< the same, with watched inputs
  StorageRef arena_;
  std::vector<std::unique_ptr<Call>> planned_calls_;  ///< kernels in order, on the arena; null for views
  std::vector<std::unique_ptr<Call>> calls_;          ///< on `values_`
};

}  // namespace diptych::workloads
