#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/attributes.h"
#include "framework/dispatch/op.h"

/// Elementwise ops as one kernel: a tile of the elements goes through all of them before the next tile, so that what
/// they hand to one another stays in the L1 cache and has no memory of its own.
///
///      x ──┐                      ┌───────── a tile ─────────┐
///      y ──┴─ add ── gelu ── mul  │ x, y → add → gelu → mul  │ → the next tile
///                                 └──────────────────────────┘
///
/// The loops are those of the ops, on the same elements, so the bits are, too.
namespace diptych::codegen {

class TileProgram {
 public:
  static constexpr std::size_t kMostInputs = 24;
  static constexpr std::size_t kMostSteps = 64;

  struct Input {
    TensorType type;  ///< of a shape that broadcasts to the program's
    Strides strides;
  };
  struct Step {
    const OpDef* op;
    AttributeValue attributes;
    std::vector<std::uint32_t> inputs;  ///< i: input i of the program; inputs + j: the result of step j
    TensorType type;                    ///< has the program's shape
  };

  /// `outputs`: the steps whose results are kept, each once. They are dense.
  TileProgram(const Shape& shape, std::vector<Input> inputs, std::vector<Step> steps,
              std::span<const std::uint32_t> outputs);

  /// `data`: of the inputs, then of the outputs. An output may be in the place of a dense input of its type that no
  /// later step reads.
  void run(void* const* data) const;

 private:
  enum class Access : std::uint8_t {
    direct,       ///< read or written where it lies: dense, or one value for the tile
    staged,       ///< copied to a slot for each tile
    staged_once,  ///< copied to a slot that serves all tiles
    slot          ///< the result of a step that isn't kept
  };
  struct Operand {
    Access access = Access::direct;
    bool is_single = false;          ///< one value for the whole tile
    std::int64_t size = 0;           ///< of an element, in bytes
    std::int64_t inner_stride = 0;   ///< in bytes
    std::vector<std::int64_t> rows;  ///< the strides of the outer axes, in bytes
    bool is_dense = false;           ///< row after row
    std::uint32_t data = 0;          ///< which of run()'s
    std::uint32_t place = 0;         ///< which of the direct ones, or which slot
  };
  struct BoundStep {
    LoopFn loop;
    const void* attributes;
    // Of the inputs, then the result.
    std::uint32_t places[kMaxElementwiseInputs + 1];  ///< direct operands, then slots
    std::int64_t strides[kMaxElementwiseInputs + 1];
  };
  struct Tile {
    std::int64_t row, rows, column, columns;
  };

  void place_operands(std::span<const Input> inputs, std::span<const std::uint32_t> outputs);
  void choose_tile();
  void choose_accesses(std::size_t inputs);
  void bind_steps(std::span<const Input> inputs);
  void place_slots(std::size_t inputs);
  std::byte* address(const Operand& operand, void* const* data, const Tile& tile) const;
  void stage(const Operand& operand, void* const* data, const Tile& tile, std::byte* slot) const;
  void run_tiles(void* const* data, std::int64_t first, std::int64_t last) const;

  Shape shape_;
  std::vector<Step> steps_;
  std::vector<std::int64_t> outer_;  ///< the lengths of the axes around rows
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::int64_t tile_rows_ = 1;
  std::int64_t tile_columns_ = 1;
  std::int64_t tiles_of_row_ = 1;
  std::int64_t tiles_ = 0;
  std::vector<Operand> operands_;  ///< inputs, then the results of steps
  std::vector<BoundStep> bound_;
  std::vector<std::uint32_t> direct_, staged_, staged_once_;  ///< operands
  std::vector<std::int64_t> slots_;                           ///< offsets in bytes
  std::int64_t slot_bytes_ = 0;
};

}  // namespace diptych::codegen
