#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/codegen/tile_program.h"
#include "framework/runtime/lowering.h"

namespace diptych::runtime {

/// A region of a fused node as steps of a tile program: of all nodes, or of those behind its contraction, whose result
/// is then the first input.
struct RegionSteps {
  /// `node_inputs`: of the region's inputs; `node_outputs`: of its outputs, and then of a contraction's result that
  /// stays inside.
  RegionSteps(const graph::Graph& region, std::span<const Place> node_inputs, std::span<const Place> node_outputs);
  bool operator==(const RegionSteps& other) const;

  RowLayout rows;
  std::vector<Place> places;  ///< of the program's inputs, then its outputs
  std::vector<codegen::TileProgram::Input> inputs;
  std::vector<codegen::TileProgram::Step> steps;
  std::vector<std::uint32_t> outputs;
  std::vector<Strides> gaps;  ///< by output: its strides, unless it is dense
};

/// The regions of a fused node without contractions, which run as one: threads share the tiles of all of them. Regions
/// that differ only in where their tensors lie have one program.
class FusedKernel {
 public:
  explicit FusedKernel(const LoweredNode& node);

  /// What run() takes pointers to.
  std::span<const Place> places() const { return places_; }
  void run(void* const* data) const;

 private:
  struct Part {
    std::uint32_t program;
    std::size_t first_place;
    std::int64_t end;  ///< tiles of all parts up to this one
  };

  std::vector<codegen::TileProgram> programs_;
  std::vector<Part> parts_;
  std::vector<Place> places_;
  double nanoseconds_of_tile_ = 0;  ///< their mean
};

}  // namespace diptych::runtime
