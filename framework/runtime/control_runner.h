#pragma once

#include "framework/runtime/executable.h"

namespace diptych::runtime {

/// Runs a control-flow node with one executable per region, called as often as the elements require. Between iterations
/// carries stay in the regions' result tensors; the node's output buffers are only written once nothing can fail any
/// more.
class ControlRunner {
 public:
  ControlRunner(const LoweredNode& node, const ExecutableOptions& options);

  /// Takes pointers to the elements of the node's inputs, which have the strides of `node`, and of its dense outputs.
  void run(std::span<void* const> inputs, std::span<void* const> outputs) const;

  std::span<const std::unique_ptr<Executable>> regions() const { return regions_; }

 private:
  using Tensors = std::vector<Tensor>;
  void run_cond(std::span<void* const> outputs) const;
  void run_while(std::span<void* const> outputs) const;
  void run_scan(std::span<void* const> outputs) const;
  std::size_t bytes(std::size_t output) const { return output_bytes_[output]; }

  const OpDef* op_;
  AttributeValue attributes_;
  std::vector<std::unique_ptr<Executable>> regions_;
  Tensors inputs_;  ///< own no elements: they point to the node's inputs
  Tensors rows_;    ///< the inputs that a scan reads row by row, likewise
  std::vector<std::size_t> output_bytes_;
};

}  // namespace diptych::runtime
