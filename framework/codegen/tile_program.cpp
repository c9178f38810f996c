#include "framework/codegen/tile_program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "framework/core/parallel.h"
#include "framework/core/strided_copy.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/scratch.h"

namespace diptych::codegen {
namespace {

/// What a tile touches, in bytes: less than the smallest L1 cache has, so that nothing is evicted before it is read.
constexpr std::int64_t kTileBytes = 24 << 10;
constexpr std::int64_t kLine = 64;
/// Loops take whole vectors, and slots whole lines, of the smallest type too.
constexpr std::int64_t kWhole = 64;

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

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

TileProgram::TileProgram(const Shape& shape, std::vector<Input> inputs, std::vector<Step> steps,
                         std::span<const std::uint32_t> outputs)
    : shape_(shape), steps_(std::move(steps)) {
  internal_check(inputs.size() <= kMostInputs && steps_.size() <= kMostSteps, "a tile program is too long");
  place_operands(inputs, outputs);
  choose_tile();
  choose_accesses(inputs.size());
  place_slots(inputs.size());
  bind_steps(inputs);
}

void TileProgram::place_operands(std::span<const Input> inputs, std::span<const std::uint32_t> outputs) {
  // A result is dense, like the last operand here: axes merge only as far as all operands allow.
  const std::size_t count = inputs.size() + 1;
  std::vector<std::int64_t> strides(kMaxRank * count);
  const int apart = static_cast<int>(count);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    kernels::broadcast_strides(inputs[k].type, inputs[k].strides, shape_, strides.data() + k, apart);
  }
  kernels::broadcast_strides({DType::boolean, shape_}, contiguous_strides(shape_), shape_,
                             strides.data() + inputs.size(), apart);
  std::int64_t lengths[kMaxRank];
  const auto axes = static_cast<std::size_t>(kernels::merge_axes(shape_, apart, lengths, strides.data()));
  columns_ = axes > 0 ? lengths[axes - 1] : shape_.product();
  outer_.assign(lengths, lengths + (axes > 0 ? axes - 1 : 0));
  for (const std::int64_t length : outer_) {
    rows_ *= length;
  }

  const auto add = [&](std::size_t k, std::int64_t size, std::int64_t scale) {
    Operand operand;
    operand.size = size;
    operand.inner_stride = axes > 0 ? strides[(axes - 1) * count + k] * scale : size;
    std::int64_t dense = columns_ * size;
    operand.is_dense = operand.inner_stride == size;
    for (std::size_t axis = outer_.size(); axis-- > 0;) {
      operand.rows.insert(operand.rows.begin(), strides[axis * count + k] * scale);
      operand.is_dense = operand.is_dense && operand.rows.front() == dense;
      dense *= lengths[axis];
    }
    operands_.push_back(std::move(operand));
  };
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    add(k, static_cast<std::int64_t>(size_of(inputs[k].type.dtype)), 1);
    operands_.back().data = static_cast<std::uint32_t>(k);
  }
  for (const Step& step : steps_) {
    const auto size = static_cast<std::int64_t>(size_of(step.type.dtype));
    add(inputs.size(), size, size);
    operands_.back().access = Access::slot;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Operand& output = operands_[inputs.size() + outputs[i]];
    output.access = Access::direct;
    output.data = static_cast<std::uint32_t>(inputs.size() + i);
  }
}

void TileProgram::choose_tile() {
  std::int64_t bytes = 0;
  for (const Operand& operand : operands_) {
    bytes += operand.size;
  }
  // Not all slots are alive at one time: half of the operands is more than most programs need.
  const std::int64_t elements = std::clamp<std::int64_t>(2 * kTileBytes / bytes, 256, 4096) / kWhole * kWhole;
  if (columns_ >= elements) {
    tiles_of_row_ = (columns_ + elements - 1) / elements;
    tile_columns_ = rounded_up((columns_ + tiles_of_row_ - 1) / tiles_of_row_, kWhole);
    tiles_of_row_ = (columns_ + tile_columns_ - 1) / tile_columns_;
    tiles_ = rows_ * tiles_of_row_;
  } else {
    tile_columns_ = columns_;
    tile_rows_ =
        std::clamp<std::int64_t>(elements / std::max<std::int64_t>(columns_, 1), 1, std::max<std::int64_t>(rows_, 1));
    tiles_ = (rows_ + tile_rows_ - 1) / tile_rows_;
  }
  if (rows_ == 0 || columns_ == 0) {
    tiles_ = 0;
  }
}

void TileProgram::choose_accesses(std::size_t inputs) {
  const bool one_row = tile_rows_ == 1;
  for (std::size_t k = 0; k < inputs; ++k) {
    Operand& input = operands_[k];
    const bool same_rows = std::all_of(input.rows.begin(), input.rows.end(), [](auto stride) { return stride == 0; });
    input.is_single = input.inner_stride == 0 && (one_row || same_rows) && !input.is_dense;
    if (!input.is_single && !input.is_dense && !(one_row && input.inner_stride == input.size)) {
      input.access = same_rows && !one_row ? Access::staged_once : Access::staged;
    }
  }
  // Loops take a single value only in some places.
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Step& step : steps_) {
      unsigned pattern = 0;
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        pattern |= static_cast<unsigned>(operands_[step.inputs[i]].is_single) << i;
      }
      if (kernels::detail::has_loop(step.inputs.size(), pattern)) {
        continue;
      }
      for (const std::uint32_t i : step.inputs) {
        Operand& input = operands_[i];
        if (input.is_single) {
          const bool once = std::all_of(input.rows.begin(), input.rows.end(), [](auto stride) { return stride == 0; });
          input.access = once ? Access::staged_once : Access::staged;
          input.is_single = false;
          changed = true;
        }
      }
    }
  }
}

void TileProgram::place_slots(std::size_t inputs) {
  std::vector<std::size_t> last_read(operands_.size(), 0);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    for (const std::uint32_t operand : steps_[s].inputs) {
      last_read[operand] = s;
    }
  }
  std::map<std::int64_t, std::vector<std::uint32_t>> free;  // slots by the size of an element
  const auto place = [&](std::uint32_t i) {
    Operand& operand = operands_[i];
    if (operand.access == Access::direct) {
      operand.place = static_cast<std::uint32_t>(direct_.size());
      direct_.push_back(i);
      return;
    }
    std::vector<std::uint32_t>& fitting = free[operand.size];
    if (fitting.empty()) {
      fitting.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.push_back(slot_bytes_);
      slot_bytes_ += rounded_up(tile_rows_ * tile_columns_ * operand.size, kLine) + kLine;  // not a page apart
    }
    operand.place = fitting.back();
    fitting.pop_back();
    if (operand.access == Access::staged || operand.access == Access::staged_once) {
      (operand.access == Access::staged ? staged_ : staged_once_).push_back(i);
    }
  };
  for (std::uint32_t i = 0; i < inputs; ++i) {
    place(i);
  }
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    // A result may be where an operand was that isn't read again.
    for (const std::uint32_t i : std::set<std::uint32_t>(steps_[s].inputs.begin(), steps_[s].inputs.end())) {
      const Operand& operand = operands_[i];
      if (last_read[i] == s && (operand.access == Access::slot || operand.access == Access::staged)) {
        free[operand.size].push_back(operand.place);
      }
    }
    place(static_cast<std::uint32_t>(inputs + s));
  }
}

void TileProgram::bind_steps(std::span<const Input> inputs) {
  const auto type_of = [&](std::uint32_t operand) {
    return operand < inputs.size() ? &inputs[operand].type : &steps_[operand - inputs.size()].type;
  };
  for (const Step& step : steps_) {
    BoundStep bound{};
    const auto bind = [&](std::size_t k, std::size_t i) {
      const Operand& operand = operands_[i];
      const bool is_slot = operand.access != Access::direct;
      bound.places[k] = operand.place + (is_slot ? static_cast<std::uint32_t>(direct_.size()) : 0);
      bound.strides[k] = operand.is_single ? 0 : operand.size;
    };
    const TensorType* types[kMaxElementwiseInputs];
    const std::size_t count = step.inputs.size();
    for (std::size_t k = 0; k < count; ++k) {
      bind(k, step.inputs[k]);
      types[k] = type_of(step.inputs[k]);
    }
    bind(count, inputs.size() + bound_.size());
    bound.loop = step.op->loop({types, count}, step.type);
    bound.attributes = step.attributes.get();
    bound_.push_back(bound);
  }
}

std::byte* TileProgram::address(const Operand& operand, void* const* data, const Tile& tile) const {
  std::byte* at = static_cast<std::byte*>(data[operand.data]) + tile.column * operand.inner_stride;
  if (operand.is_dense) {
    return at + tile.row * columns_ * operand.size;
  }
  if (tile.row == 0) {
    return at;
  }
  std::int64_t row = tile.row;
  for (std::size_t axis = outer_.size(); axis-- > 0; row /= outer_[axis]) {
    at += row % outer_[axis] * operand.rows[axis];
  }
  return at;
}

void TileProgram::stage(const Operand& operand, void* const* data, const Tile& tile, std::byte* slot) const {
  Tile row = tile;
  for (std::int64_t i = 0; i < tile.rows; ++i, ++row.row, slot += tile.columns * operand.size) {
    const std::byte* const from = address(operand, data, row);
    if (operand.inner_stride == operand.size) {
      std::memcpy(slot, from, static_cast<std::size_t>(tile.columns * operand.size));
    } else if (operand.inner_stride == 0) {
      fill(operand.size, slot, tile.columns, from);
    } else {
      kernels::strided_copy({tile.columns}, static_cast<std::size_t>(operand.size), from,
                            {operand.inner_stride / operand.size}, slot, {1});
    }
  }
}

void TileProgram::run_tiles(void* const* data, std::int64_t first, std::int64_t last) const {
  thread_local kernels::Scratch scratch;
  std::byte* const slots = scratch.elements<std::byte>(slot_bytes_);
  std::array<void*, kMostInputs + 2 * kMostSteps> places;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    places[direct_.size() + i] = slots + slots_[i];
  }
  const auto stage_all = [&](std::span<const std::uint32_t> operands, const Tile& tile) {
    for (const std::uint32_t i : operands) {
      stage(operands_[i], data, tile, slots + slots_[operands_[i].place]);
    }
  };
  stage_all(staged_once_, {0, tile_rows_, 0, tile_columns_});
  Tile tile{first / tiles_of_row_ * tile_rows_, 0, first % tiles_of_row_ * tile_columns_, 0};
  for (std::int64_t t = first; t < last; ++t) {
    tile.rows = std::min(tile_rows_, rows_ - tile.row);
    tile.columns = std::min(tile_columns_, columns_ - tile.column);
    for (std::size_t i = 0; i < direct_.size(); ++i) {
      places[i] = address(operands_[direct_[i]], data, tile);
    }
    stage_all(staged_, tile);
    const std::int64_t elements = tile.rows * tile.columns;
    for (const BoundStep& step : bound_) {
      void* operands[kMaxElementwiseInputs + 1];
      for (int k = 0; k <= kMaxElementwiseInputs; ++k) {  // all of them: fewer would take a branch more
        operands[k] = places[step.places[k]];
      }
      step.loop(elements, operands, step.strides, step.attributes);
    }
    tile.column += tile_columns_;
    if (tile.column >= columns_) {
      tile.column = 0;
      tile.row += tile_rows_;
    }
  }
}

void TileProgram::run(void* const* data) const {
  // What goes through memory, and what stays in the cache.
  const double of_tile = static_cast<double>(tile_rows_ * tile_columns_) * kNanosecondsOfScalar *
                         (1 + 0.25 * static_cast<double>(steps_.size()));
  parallel_for(tiles_, of_tile, [&](std::int64_t first, std::int64_t last) { run_tiles(data, first, last); });
}

}  // namespace diptych::codegen
