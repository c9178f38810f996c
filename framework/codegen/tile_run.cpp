// How a tile program runs: what plans it is in tile_program.cpp.

#include <algorithm>
#include <cstring>

#include "framework/codegen/tile_program.h"
#include "framework/core/parallel.h"
#include "framework/core/strided_copy.h"
#include "framework/kernels/scratch.h"

namespace diptych::codegen {
namespace {

/// Of parts of a matrix, whose rows are apart: the machine doesn't see what comes next.
constexpr std::int64_t kRowsAhead = 8;

template <int locality>
void fetch(const std::byte* line) {
  __builtin_prefetch(line, 0, locality);
  // Or GCC takes a function that only fetches for one without effects, and drops its calls.
  asm volatile("" : : "r"(line));
}
/// For fetch().
constexpr int kToFirstCache = 3;
constexpr int kToSecondCache = 2;

template <class T>
void fill(void* to, std::int64_t count, const void* value) {
  std::fill_n(static_cast<T*>(to), count, *static_cast<const T*>(value));
}

void fill(std::int64_t size, void* to, std::int64_t count, const void* value) {
  switch (size) {
    case 1:
      return fill<std::uint8_t>(to, count, value);
    case 2:
      return fill<std::uint16_t>(to, count, value);
    case 4:
      return fill<std::uint32_t>(to, count, value);
    default:
      return fill<std::uint64_t>(to, count, value);
  }
}

}  // namespace

std::byte* TileProgram::address(const Operand& operand, void* const* data, const Tile& tile) const {
  std::byte* at = static_cast<std::byte*>(data[operand.data]) + tile.column * operand.inner_stride;
  if (operand.is_dense) {
    return at + tile.row * columns_ * operand.width * operand.size;
  }
  if (tile.row == 0) {
    return at;
  }
  std::int64_t row = tile.row;
  for (std::size_t axis = operand.lengths.size(); axis-- > 0; row /= operand.lengths[axis]) {
    at += row % operand.lengths[axis] * operand.strides[axis];
  }
  return at;
}

void TileProgram::stage(const Operand& operand, void* const* data, const Tile& tile, std::byte* slot) const {
  if (layout_.by_channel()) {
    kernels::strided_copy(operand.channel, static_cast<std::size_t>(operand.size), address(operand, data, tile),
                          operand.channel_strides, slot, contiguous_strides(operand.channel));
    return;
  }
  Tile row = tile;
  const std::int64_t count = tile.columns * operand.width;
  if (operand.is_turned()) {
    const std::int64_t length = operand.lengths.back();  // of a column
    while (row.row < tile.row + tile.rows) {
      const std::int64_t rows = std::min(tile.row + tile.rows - row.row, length - row.row % length);
      kernels::strided_copy({rows, count}, static_cast<std::size_t>(operand.size), address(operand, data, row),
                            {1, operand.inner_stride / operand.size}, slot, {count, 1});
      row.row += rows;
      slot += rows * count * operand.size;
    }
    return;
  }
  for (std::int64_t i = 0; i < tile.rows; ++i, ++row.row, slot += count * operand.size) {
    const std::byte* const from = address(operand, data, row);
    if (operand.inner_stride == operand.size) {
      std::memcpy(slot, from, static_cast<std::size_t>(count * operand.size));
    } else if (operand.inner_stride == 0) {
      fill(operand.size, slot, count, from);
    } else {
      kernels::strided_copy({count}, static_cast<std::size_t>(operand.size), from,
                            {operand.inner_stride / operand.size}, slot, {1});
    }
  }
}

void TileProgram::store(const Operand& target, void* const* data, const Tile& tile, const std::byte* slot) const {
  if (layout_.by_channel()) {
    kernels::strided_copy(target.channel, static_cast<std::size_t>(target.size), slot,
                          contiguous_strides(target.channel), address(target, data, tile), target.channel_strides);
    return;
  }
  Tile row = tile;
  const auto bytes = static_cast<std::size_t>(tile.columns * target.size);
  for (std::int64_t i = 0; i < tile.rows; ++i, ++row.row, slot += bytes) {
    std::memcpy(address(target, data, row), slot, bytes);
  }
}

void TileProgram::run_kernel(const BoundWork& work, std::int64_t rows, void* const* places) const {
  if (work.kernel == nullptr) {
    const std::int64_t size = work.strides[0];
    const auto* from = static_cast<const std::byte*>(places[work.places[0]]);
    auto* to = static_cast<std::byte*>(places[work.places[1]]);
    for (std::int64_t row = 0; row < rows; ++row, from += size, to += work.width * size) {
      fill(size, to, work.width, from);
    }
    return;
  }
  const BoundKernel& kernel = *work.kernel;
  const int which = rows == tile_rows_ ? 0 : 1;
  const std::size_t count = kernel.places.size() - 1;
  diptych::Operand operands[kMaxInputs + 1];
  for (std::size_t i = 0; i <= count; ++i) {
    operands[i] = {places[kernel.places[i]], &kernel.types[which][i], &kernel.strides[which][i],
                   ((kernel.dense >> i) & 1U) != 0};
  }
  kernel.op->kernel({kernel.op, operands, static_cast<int>(count), work.attributes, operands[count]});
}

/// Slots and pointers for the tiles of one call.
class TileProgram::Run {
 public:
  Run(const TileProgram& program, void* const* data) : program_(program), data_(data) {
    thread_local kernels::Scratch scratch;
    const std::size_t direct = program.direct_.size();
    const auto places_bytes = static_cast<std::int64_t>((direct + program.slots_.size()) * sizeof(void*));
    slots_ = scratch.elements<std::byte>(program.slot_bytes_ + places_bytes);
    places_ = reinterpret_cast<void**>(slots_ + program.slot_bytes_);
    for (std::size_t i = 0; i < program.slots_.size(); ++i) {
      places_[direct + i] = slots_ + program.slots_[i];
    }
    stage(program.staged_once_, {0, program.tile_rows_, 0, program.tile_columns_});
  }

  /// `fetches`: the tile that comes next is fetched meanwhile.
  void run(const Tile& tile, bool fetches = false) const {
    for (std::size_t i = 0; i < program_.direct_.size(); ++i) {
      places_[i] = program_.address(program_.operands_[program_.direct_[i]], data_, tile);
    }
    stage(program_.staged_, tile);
    const std::int64_t elements = tile.rows * tile.columns;
    std::uint32_t fetched = 0;
    for (const BoundWork& work : program_.bound_) {
      for (; fetches && fetched < work.last_fetch; ++fetched) {
        fetch_part(program_.fetches_[fetched]);
      }
      if (work.loop == nullptr) {
        program_.run_kernel(work, tile.rows, places_);
        continue;
      }
      void* operands[kMaxElementwiseInputs + 1];
      for (int k = 0; k <= kMaxElementwiseInputs; ++k) {  // all of them: fewer would take a branch more
        operands[k] = places_[work.places[k]];
      }
      if (work.is_by_row) {
        const std::int64_t rows = work.planes > 0 ? work.planes : tile.rows;
        for (std::int64_t row = 0; row < rows; ++row) {
          work.loop(work.width, operands, work.strides, work.attributes);
          for (int k = 0; k <= kMaxElementwiseInputs; ++k) {
            operands[k] = static_cast<std::byte*>(operands[k]) + work.row_strides[k];
          }
        }
        continue;
      }
      work.loop(elements * work.width, operands, work.strides, work.attributes);
    }
    for (const Store& store : program_.stores_) {
      program_.store(store.target, data_, tile, slots_ + program_.slots_[program_.operands_[store.result].place]);
    }
  }

 private:
  void fetch_part(const Fetch& part) const {
    const auto* const from = static_cast<const std::byte*>(places_[part.place]);
    for (std::int64_t at = part.begin; at < part.end; at += kLine) {
      fetch<kToSecondCache>(from + at);
    }
  }

  void stage(std::span<const std::uint32_t> operands, const Tile& tile) const {
    for (const std::uint32_t i : operands) {
      const Operand& operand = program_.operands_[i];
      program_.stage(operand, data_, tile, slots_ + program_.slots_[operand.place]);
    }
  }

  const TileProgram& program_;
  void* const* data_;
  std::byte* slots_;
  void** places_;
};

void TileProgram::prefetch(const Operand& operand, void* const* data, const Tile& tile) const {
  const std::byte* const from = address(operand, data, tile);
  for (std::int64_t at = 0; at < tile.columns * operand.size; at += kLine) {
    fetch<kToFirstCache>(from + at);
  }
}

void TileProgram::run_tiles(void* const* data, std::int64_t first, std::int64_t last) const {
  const Run run(*this, data);
  Tile tile{first / tiles_of_row_ * tile_rows_, 0, first % tiles_of_row_ * tile_columns_, 0};
  for (std::int64_t t = first; t < last; ++t) {
    tile.rows = std::min(tile_rows_, rows_ - tile.row);
    tile.columns = std::min(tile_columns_, columns_ - tile.column);
    run.run(tile, t + 1 < last && !fetches_.empty());
    tile.column += tile_columns_;
    if (tile.column >= columns_) {
      tile.column = 0;
      tile.row += tile_rows_;
    }
  }
}

void TileProgram::run_part(void* const* data, std::int64_t row, std::int64_t rows, std::int64_t column,
                           std::int64_t columns) const {
  const Run run(*this, data);
  if (columns == columns_ && all_dense_) {  // the rows are one
    const std::int64_t end = (row + rows) * columns_;
    for (std::int64_t c = row * columns_; c < end; c += tile_columns_) {
      run.run({0, 1, c, std::min(tile_columns_, end - c)});
    }
    return;
  }
  for (std::int64_t r = row; r < row + rows; ++r) {
    if (r + kRowsAhead < row + rows) {
      for (const std::uint32_t i : fetched_) {
        prefetch(operands_[i], data, {r + kRowsAhead, 1, column, columns});
      }
    }
    for (std::int64_t c = column; c < column + columns; c += tile_columns_) {
      run.run({r, 1, c, std::min(tile_columns_, column + columns - c)});
    }
  }
}

void TileProgram::run(void* const* data) const {
  parallel_for(tiles_, nanoseconds_of_tile_,
               [&](std::int64_t first, std::int64_t last) { run_tiles(data, first, last); });
}

}  // namespace diptych::codegen
