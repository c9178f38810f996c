#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "framework/core/attributes.h"
#include "framework/dispatch/op.h"

/// Elementwise ops, and ops that process or reduce rows, as one kernel: a tile of the elements goes through all of them
/// before the next tile, so that what they hand to one another stays in the L1 cache and has no memory of its own.
///
///      x ──┐                      ┌───────── a tile ─────────┐
///      y ──┴─ add ── gelu ── mul  │ x, y → add → gelu → mul  │ → the next tile
///                                 └──────────────────────────┘
///
/// The loops and kernels are those of the ops, or of two ops in a row (kernels/pair_loops.h), on the same elements, so
/// the bits are, too.
namespace diptych::codegen {

class TileProgram {
 public:
  static constexpr std::size_t kMostInputs = 24;
  static constexpr std::size_t kMostSteps = 64;

  struct Input {
    TensorType type;
    Strides strides;
  };
  struct Step {
    const OpDef* op;
    AttributeValue attributes;
    std::vector<std::uint32_t> inputs;  ///< i: input i of the program; inputs + j: the result of step j
    std::vector<TensorType> input_types;
    TensorType type;

    Rows rows() const;
  };

  /// `rows`: none if all steps are elementwise and have results of one shape, to which the inputs broadcast. Otherwise
  /// all results fall into such rows (codegen/rows.h), and a tile is some whole rows, or one channel: elementwise steps
  /// may have operands of one element a row, and steps of other kinds have such rows (OpDef::rows). `outputs`: the
  /// steps whose results are kept, each once. They are dense; without rows, those with strides in `gaps` lie so, in
  /// dense runs.
  TileProgram(const RowLayout& rows, std::vector<Input> inputs, std::vector<Step> steps,
              std::span<const std::uint32_t> outputs, std::span<const Strides> gaps = {});

  /// Elementwise steps that run on parts of their results, as a kernel finishes them (Epilogue): matrices whose columns
  /// are the last `column_axes` axes.
  static TileProgram by_parts(int column_axes, std::vector<Input> inputs, std::vector<Step> steps,
                              std::span<const std::uint32_t> outputs);
  /// Whether such a program can read its inputs: all of them walk along the columns in equal steps.
  static bool fits_parts(int column_axes, std::span<const Input> inputs, const Shape& shape);

  /// `data`: of the inputs, then of the outputs. An output may be in the place of a dense input of its type that no
  /// later step reads, and no step as a whole.
  void run(void* const* data) const;
  /// The same in parts: those tiles of `tiles()`, each of which takes about so long.
  void run_tiles(void* const* data, std::int64_t first, std::int64_t last) const;
  std::int64_t tiles() const { return tiles_; }
  double nanoseconds_of_tile() const { return nanoseconds_of_tile_; }
  /// A part of the results, of a program by parts.
  void run_part(void* const* data, std::int64_t row, std::int64_t rows, std::int64_t column,
                std::int64_t columns) const;

 private:
  static constexpr std::int64_t kLine = 64;  ///< bytes
  enum class Access : std::uint8_t {
    direct,       ///< read or written where it lies: dense, in dense planes, or one value for the tile
    whole,        ///< read where it lies, by a kernel that knows its strides
    staged,       ///< copied to a slot for each tile
    staged_once,  ///< copied to a slot that serves all tiles
    slot          ///< the result of a step that isn't kept
  };
  struct Operand {
    Access access = Access::direct;
    bool is_single = false;         ///< one value for the whole tile
    std::int64_t size = 0;          ///< of an element, in bytes
    std::int64_t width = 1;         ///< elements a row, for each column of a tile
    std::int64_t inner_stride = 0;  ///< in bytes
    // The axes around rows, and their strides in bytes.
    std::vector<std::int64_t> lengths;
    std::vector<std::int64_t> strides;
    bool is_dense = false;  ///< row after row
    // Of a channel, where it lies: what is copied from there to a slot, or from a slot.
    Shape channel;
    Strides channel_strides;  ///< in elements
    std::int64_t pitch = 0;   ///< if it is planes, dense each: from one to the next, in bytes
    std::uint32_t data = 0;   ///< which of run()'s
    std::uint32_t place = 0;  ///< which of the direct ones, or which slot
    bool same_rows() const;
    void set_channels(const RowLayout& rows, const Shape& shape, const Strides& by);
    /// Along a column its elements lie one after the other: a transpose.
    bool is_turned() const;
    bool in_slot() const { return access != Access::direct && access != Access::whole; }
  };
  /// An output with gaps, of a program in blocks, or a channel that a kernel computes or reads: a tile is copied there
  /// from the slot of the result.
  struct Store {
    std::uint32_t result;  ///< operand
    Operand target;
  };
  /// What is done to a tile, before places are known.
  struct Work {
    enum class Kind : std::uint8_t { loop, kernel, repeat } kind;
    std::uint32_t step;  ///< for loops and kernels
    std::vector<std::uint32_t> operands;
    std::uint32_t result;
    /// Of loops, bit i: operand i is one value a row, for a row of others. Such a loop runs row by row, and a channel
    /// is one.
    std::uint32_t row_values = 0;
    LoopFn pair = nullptr;  ///< the loop of this step and of the one before, whose result nothing else reads
  };
  /// A kernel's call on the rows of a tile.
  struct BoundKernel {
    const OpDef* op;
    std::vector<std::uint32_t> places;  ///< of the inputs, then the result
    // Of a tile, then of the last one, which may have fewer rows.
    std::vector<TensorType> types[2];
    std::vector<Strides> strides[2];
    std::uint32_t dense;  ///< bit i: operand i is
  };
  struct BoundWork {
    LoopFn loop;                ///< null: a kernel, or one element of each row repeated
    const BoundKernel* kernel;  ///< null: the latter
    const void* attributes;
    std::int64_t width;        ///< of the result; of a plane, if there are planes
    std::int64_t planes;       ///< of a channel, if a loop runs plane by plane because one of its operands isn't dense
    bool is_by_row;            ///< or by plane
    std::uint32_t last_fetch;  ///< where its part of fetches_ ends
    // Of the inputs, then the result.
    std::uint32_t places[kMaxElementwiseInputs + 1];  ///< direct operands, then slots
    std::int64_t strides[kMaxElementwiseInputs + 1];
    std::int64_t row_strides[kMaxElementwiseInputs + 1];  ///< if it is by row, or by plane
  };
  /// A part of what the next tile reads, which lies behind what this one does.
  struct Fetch {
    std::uint32_t place;
    std::int64_t begin, end;  ///< bytes from the place on
  };
  struct Tile {
    std::int64_t row, rows, column, columns;
  };

  /// What a thread has while it runs tiles.
  class Run;

  TileProgram(const RowLayout& rows, int column_axes, std::vector<Input> inputs, std::vector<Step> steps,
              std::span<const std::uint32_t> outputs, std::span<const Strides> gaps);
  void place_elementwise(std::vector<Input> inputs, int column_axes, std::span<const std::uint32_t> outputs,
                         std::span<const Strides> gaps);
  void place_by_rows(std::span<const Input> inputs);
  std::uint32_t input_by_channels(std::span<const Input> inputs, std::uint32_t input, const Step& step);
  void keep(std::span<const std::uint32_t> outputs, std::size_t inputs, std::span<const Strides> gaps);
  std::uint32_t input_in_rows(std::span<const Input> inputs, std::uint32_t input, const Step& step, std::int64_t width);
  std::vector<std::int64_t> widths_of(const Step& step, const Rows& own, std::int64_t width_of_result) const;
  void repeat_row_values(Work& work, std::span<const std::int64_t> widths, std::int64_t width_of_result);
  std::uint32_t repeat_rows(std::uint32_t operand, std::int64_t width);
  std::uint32_t add_input(Operand operand);
  void choose_tile(std::size_t inputs, std::size_t outputs);
  void choose_block();
  void choose_tile_of_part();
  std::int64_t elements_of_tile() const;
  bool saves_little(std::size_t streams) const;
  void choose_tile_of_rows();
  void plan_fetches(std::size_t inputs);
  LoopFn loop_of(const Work& work) const;
  bool is_pair(const Work& first, const Work& second) const;
  void join_pairs();
  void choose_accesses();
  void place_slots();
  void bind_work(std::span<const Input> inputs);
  std::unique_ptr<BoundKernel> bind_kernel(const Work& work, std::span<const Input> inputs) const;
  std::uint32_t place_of(const Operand& operand) const;
  std::byte* address(const Operand& operand, void* const* data, const Tile& tile) const;
  void stage(const Operand& operand, void* const* data, const Tile& tile, std::byte* slot) const;
  void store(const Operand& target, void* const* data, const Tile& tile, const std::byte* slot) const;
  void prefetch(const Operand& operand, void* const* data, const Tile& tile) const;
  void run_kernel(const BoundWork& work, std::int64_t rows, void* const* places) const;

  std::vector<Step> steps_;
  RowLayout layout_;
  std::int64_t rows_;
  std::int64_t columns_ = 1;
  std::int64_t tile_rows_ = 1;
  std::int64_t tile_columns_ = 1;
  std::int64_t tiles_of_row_ = 1;
  std::int64_t tiles_ = 0;
  double nanoseconds_of_tile_ = 0;
  std::vector<Operand> operands_;
  std::vector<std::uint32_t> results_;  ///< operands, by step
  std::vector<Work> works_;
  std::vector<BoundWork> bound_;
  std::vector<std::unique_ptr<BoundKernel>> kernels_;
  std::vector<std::uint32_t> direct_, staged_, staged_once_;  ///< operands
  std::vector<Store> stores_;
  std::vector<std::int64_t> slots_;  ///< offsets in bytes
  std::int64_t slot_bytes_ = 0;
  bool all_dense_ = false;              ///< of programs by parts
  bool in_blocks_ = false;              ///< tiles are parts of rows, because an operand is a transpose
  std::vector<std::uint32_t> fetched_;  ///< operands of a program by parts that come from memory row by row
  bool fetches_ahead_ = false;
  std::vector<Fetch> fetches_;  ///< step by step
};

}  // namespace diptych::codegen
