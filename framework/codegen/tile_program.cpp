#include "framework/codegen/tile_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "framework/codegen/rows.h"
#include "framework/core/parallel.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/pair_loops.h"

namespace diptych::codegen {
namespace {

/// What a tile touches, in bytes: less than the smallest L1 cache has, so that nothing is evicted before it is read.
constexpr std::int64_t kTileBytes = 24 << 10;
/// The elements of a tile, and the bytes of the widest tensor's whole rows in one. While a tile is computed, the
/// machine fetches about so much of what comes next: with four times as much, tensors beyond the caches take up to
/// twice as long (docs/fusion.md).
constexpr std::int64_t kMostElements = 1024;
constexpr std::int64_t kMostBytesOfRows = 4 << 10;
/// What comes from beyond the second cache goes through smaller tiles, so that the loads of a step begin before the
/// last one has ended; where so much is computed that calling a step for few elements counts, it is fetched a tile
/// ahead instead, and in smaller tiles, too, if it is many tensors: the machine's own fetching ends at each page.
constexpr std::int64_t kBytesBeyondCache = 1 << 20;
constexpr std::int64_t kMostElementsBeyondCache = 512;
constexpr std::size_t kManyStreams = 6;
constexpr std::size_t kStepsOfStream = 2;
/// Steps that read and write few tensors less together than by themselves gain nothing from tiles while their tensors
/// are in the caches, and a single step never does: theirs are large enough that the time between two doesn't count.
constexpr double kLeastPartSaved = 0.4;
constexpr std::int64_t kBytesInCaches = 2 << 20;
constexpr std::int64_t kMostElementsOfLoop = 8192;
/// Rows are fetched a tile ahead if they come from there: kernels of rows leave the machine no time to see what comes
/// next.
constexpr std::int64_t kBytesOfRowsToFetch = 4 << 20;
/// Between slots: with a line, or nothing, kernels of rows take up to twice as long (Zen 4).
constexpr std::int64_t kApart = 1 << 10;
/// Blocks: a transpose's columns are read in whole lines, and shorter rows take longer to copy one by one than to
/// compute (docs/fusion.md).
constexpr std::int64_t kMostBytesOfColumn = 256;
constexpr std::int64_t kColumnsOfBlock = 128;
/// Loops take whole vectors, and slots whole lines, of the smallest type too.
constexpr std::int64_t kWhole = 64;

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

TileProgram::TileProgram(const RowLayout& rows, std::vector<Input> inputs, std::vector<Step> steps,
                         std::span<const std::uint32_t> outputs, std::span<const Strides> gaps)
    : TileProgram(rows, 0, std::move(inputs), std::move(steps), outputs, gaps) {}

TileProgram TileProgram::by_parts(int column_axes, std::vector<Input> inputs, std::vector<Step> steps,
                                  std::span<const std::uint32_t> outputs) {
  return {{}, column_axes, std::move(inputs), std::move(steps), outputs, {}};
}

TileProgram::TileProgram(const RowLayout& rows, int column_axes, std::vector<Input> inputs, std::vector<Step> steps,
                         std::span<const std::uint32_t> outputs, std::span<const Strides> gaps)
    : steps_(std::move(steps)), layout_(rows), rows_(rows.count) {
  // Behind a product, its result is one more.
  internal_check(inputs.size() <= kMostInputs + (column_axes > 0 ? 1 : 0) && steps_.size() <= kMostSteps,
                 "a tile program is too long");
  if (rows_ == 0) {
    place_elementwise(inputs, column_axes, outputs, gaps);
    if (in_blocks_) {
      choose_block();
    } else {
      column_axes > 0 ? choose_tile_of_part() : choose_tile(inputs.size(), outputs.size());
    }
  } else {
    place_by_rows(inputs);
    choose_tile_of_rows();
  }
  keep(outputs, inputs.size(), gaps);
  join_pairs();
  choose_accesses();
  place_slots();
  bind_work(inputs);
  // By parts, operands are numbered like inputs, of which the first has just been computed.
  for (std::uint32_t i = 1; column_axes > 0 && i < inputs.size(); ++i) {
    if (operands_[i].access == Access::direct && operands_[i].inner_stride == operands_[i].size &&
        !operands_[i].same_rows()) {
      fetched_.push_back(i);
    }
  }
  if (fetches_ahead_) {
    plan_fetches(inputs.size());
  }
}

std::int64_t TileProgram::elements_of_tile() const {
  std::int64_t bytes = 0;
  for (const Operand& operand : operands_) {
    bytes += operand.size;
  }
  // Not all slots are alive at one time: half of the operands is more than most programs need.
  return std::clamp<std::int64_t>(2 * kTileBytes / bytes, 256, kMostElements) / kWhole * kWhole;
}

void TileProgram::choose_tile_of_part() {
  tile_rows_ = 1;
  all_dense_ = std::all_of(operands_.begin(), operands_.end(), [](const Operand& operand) {
    return operand.is_dense || (operand.inner_stride == 0 && operand.same_rows());
  });
  tile_columns_ = std::min(elements_of_tile(), all_dense_ ? kMostElements : rounded_up(columns_, kWhole));
}

/// `streams`: tensors of the size of the results that the steps read and write together.
bool TileProgram::saves_little(std::size_t streams) const {
  std::size_t apart = steps_.size();
  for (const Work& work : works_) {
    apart +=
        static_cast<std::size_t>(std::count_if(work.operands.begin(), work.operands.end(),
                                               [&](std::uint32_t operand) { return operands_[operand].is_dense; }));
  }
  const bool is_in_caches = rows_ * columns_ * operands_.back().size < kBytesInCaches;
  return steps_.size() == 1 || (is_in_caches && static_cast<double>(apart - std::min(apart, streams)) <
                                                    kLeastPartSaved * static_cast<double>(apart));
}

void TileProgram::choose_tile(std::size_t inputs, std::size_t outputs) {
  const auto streams =
      outputs +
      static_cast<std::size_t>(std::count_if(
          operands_.begin(), operands_.begin() + static_cast<std::ptrdiff_t>(inputs),
          [](const Operand& input) { return input.is_dense || (input.inner_stride != 0 && !input.same_rows()); }));
  std::int64_t elements = elements_of_tile();
  if (static_cast<std::int64_t>(streams) * rows_ * columns_ * operands_.back().size >= kBytesBeyondCache) {
    const bool computes_much = steps_.size() >= kStepsOfStream * streams;
    elements = computes_much ? elements : std::min(elements, kMostElementsBeyondCache);
    fetches_ahead_ = computes_much || streams >= kManyStreams;
  }
  if (saves_little(streams)) {
    elements = kMostElementsOfLoop;
    fetches_ahead_ = false;
  }
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
  // What goes through memory, and what stays in the cache.
  nanoseconds_of_tile_ = static_cast<double>(tile_rows_ * tile_columns_) * kNanosecondsOfScalar *
                         (1 + 0.25 * static_cast<double>(steps_.size()));
}

void TileProgram::choose_block() {
  std::int64_t size = 1;
  for (const Operand& operand : operands_) {
    size = std::max(size, operand.size);
  }
  tile_rows_ = std::clamp<std::int64_t>(rows_, 1, kMostBytesOfColumn / size);
  tile_columns_ = std::min(kColumnsOfBlock, columns_);
  tiles_of_row_ = (columns_ + tile_columns_ - 1) / tile_columns_;
  tiles_ = rows_ == 0 ? 0 : (rows_ + tile_rows_ - 1) / tile_rows_ * tiles_of_row_;
  nanoseconds_of_tile_ = static_cast<double>(tile_rows_ * tile_columns_) * kNanosecondsOfScalar *
                         (1 + 0.25 * static_cast<double>(steps_.size()));
}

void TileProgram::choose_tile_of_rows() {
  std::int64_t bytes = 1;
  double nanoseconds = 0;  // of a row
  for (const Operand& operand : operands_) {
    bytes = std::max(bytes, operand.width * operand.size);
  }
  std::int64_t together = 1;
  for (const Step& step : steps_) {
    if (!step.op->elementwise()) {
      together = std::max(together, step.rows().together);
    }
    double elements = static_cast<double>(width_in(layout_, step.type.shape).value());
    for (const TensorType& type : step.input_types) {
      elements = std::max(elements, static_cast<double>(width_in(layout_, type.shape).value_or(1)));
    }
    nanoseconds += elements * kNanosecondsOfScalar * (step.op->elementwise() ? 0.25 : 2);
  }
  tile_rows_ = layout_.by_channel() ? 1 : std::min(std::max(kMostBytesOfRows / bytes, together), rows_);
  tiles_ = (rows_ + tile_rows_ - 1) / tile_rows_;
  std::int64_t read = 0;
  for (const Operand& operand : operands_) {
    read += operand.access == Access::direct && operand.is_dense ? rows_ * operand.width * operand.size : 0;
  }
  fetches_ahead_ = read >= kBytesOfRowsToFetch && !layout_.by_channel();
  nanoseconds_of_tile_ = nanoseconds * static_cast<double>(tile_rows_);
}

/// Dense inputs, a part between any two steps: all of a tile at once would keep the one at hand waiting.
void TileProgram::plan_fetches(std::size_t inputs) {
  std::vector<std::uint32_t> fetched;
  std::copy_if(direct_.begin(), direct_.end(), std::back_inserter(fetched),
               [&](std::uint32_t i) { return operands_[i].is_dense && operands_[i].data < inputs; });
  const auto turns = static_cast<std::int64_t>(bound_.size());
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    for (const std::uint32_t i : fetched) {
      const Operand& operand = operands_[i];
      const std::int64_t lines = rounded_up(tile_rows_ * tile_columns_ * operand.width * operand.size, kLine) / kLine;
      fetches_.push_back(
          {operand.place, (lines + lines * turn / turns) * kLine, (lines + lines * (turn + 1) / turns) * kLine});
    }
    bound_[static_cast<std::size_t>(turn)].last_fetch = static_cast<std::uint32_t>(fetches_.size());
  }
}

LoopFn TileProgram::loop_of(const Work& work) const {
  const Step& step = steps_[work.step];
  const TensorType* types[kMaxElementwiseInputs];
  for (std::size_t k = 0; k < step.input_types.size(); ++k) {
    types[k] = &step.input_types[k];
  }
  return step.op->loop({types, step.input_types.size()}, step.type);
}

/// Whether nothing but `second` reads what `first` computes, once, and both are loops over the same elements.
bool TileProgram::is_pair(const Work& first, const Work& second) const {
  const auto is_plain = [](const Work& work) { return work.kind == Work::Kind::loop && work.pair == nullptr; };
  const auto reads = [&](const Work& work) {
    return std::count(work.operands.begin(), work.operands.end(), first.result);
  };
  std::ptrdiff_t all_reads = 0;
  for (const Work& work : works_) {
    all_reads += reads(work);
  }
  const bool is_kept =
      operands_[first.result].access != Access::slot ||
      std::any_of(stores_.begin(), stores_.end(), [&](const Store& store) { return store.result == first.result; });
  return is_plain(first) && is_plain(second) && all_reads == 1 && reads(second) == 1 && !is_kept &&
         operands_[first.result].width == operands_[second.result].width;
}

/// Two steps that follow one another become one where there is a loop for both: what they hand over stays in registers.
void TileProgram::join_pairs() {
  for (std::size_t w = 0; w + 1 < works_.size(); ++w) {
    const Work& first = works_[w];
    Work& second = works_[w + 1];
    if (!is_pair(first, second)) {
      continue;
    }
    const auto handed_over = std::find(second.operands.begin(), second.operands.end(), first.result);
    const auto place = static_cast<std::size_t>(handed_over - second.operands.begin());
    std::vector<std::uint32_t> operands = first.operands;
    operands.insert(operands.end(), second.operands.begin(), handed_over);
    operands.insert(operands.end(), handed_over + 1, second.operands.end());
    const std::uint32_t before = (1U << place) - 1;  // of the second's operands, that which is handed over drops out
    const std::uint32_t row_values =
        first.row_values |
        (((second.row_values & before) | (second.row_values >> 1 & ~before)) << first.operands.size());
    // Single values where the loop takes none would be copied for each tile.
    unsigned singles = row_values;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      singles |= static_cast<unsigned>(operands_[operands[i]].inner_stride == 0) << i;
    }
    second.pair = kernels::detail::has_loop(operands.size(), singles)
                      ? kernels::pair_loop(loop_of(first), loop_of(second), place)
                      : nullptr;
    if (second.pair != nullptr) {
      second.operands = std::move(operands);
      second.row_values = row_values;
      works_.erase(works_.begin() + static_cast<std::ptrdiff_t>(w));
    }
  }
}

void TileProgram::choose_accesses() {
  const bool one_row = tile_rows_ == 1;
  const auto copy = [&](Operand& input) {
    input.access = input.same_rows() && !one_row && !in_blocks_ ? Access::staged_once : Access::staged;
    input.is_single = false;
  };
  for (Operand& input : operands_) {
    if (input.access != Access::direct || (input.is_dense && !in_blocks_)) {
      continue;
    }
    input.is_single = input.inner_stride == 0 && (one_row || input.same_rows());
    const bool lies_as_read =
        layout_.by_channel() ? input.pitch > 0 || input.width == 1 : one_row && input.inner_stride == input.size;
    if (!input.is_single && !lies_as_read) {
      copy(input);
    }
  }
  // Loops take a single value only in some places, kernels nowhere.
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Work& work : works_) {
      unsigned pattern = work.row_values;
      for (std::size_t i = 0; i < work.operands.size(); ++i) {
        pattern |= static_cast<unsigned>(operands_[work.operands[i]].is_single) << i;
      }
      if (pattern == 0 || (work.kind == Work::Kind::loop && kernels::detail::has_loop(work.operands.size(), pattern))) {
        continue;
      }
      for (const std::uint32_t i : work.operands) {
        if (operands_[i].is_single) {
          copy(operands_[i]);
          changed = true;
        }
      }
    }
  }
}

void TileProgram::place_slots() {
  std::vector<std::size_t> last_read(operands_.size(), 0);
  std::vector<bool> is_result(operands_.size(), false);
  std::vector<bool> is_stored(operands_.size(), false);
  for (const Store& store : stores_) {
    is_stored[store.result] = true;
  }
  for (std::size_t w = 0; w < works_.size(); ++w) {
    for (const std::uint32_t operand : works_[w].operands) {
      last_read[operand] = w;
    }
    is_result[works_[w].result] = true;
  }
  std::map<std::int64_t, std::vector<std::uint32_t>> free;  // slots by the bytes of an element of a tile
  const auto place = [&](std::uint32_t i) {
    Operand& operand = operands_[i];
    if (!operand.in_slot()) {
      operand.place = static_cast<std::uint32_t>(direct_.size());
      direct_.push_back(i);
      return;
    }
    const std::int64_t bytes = operand.width * operand.size;
    std::vector<std::uint32_t>& fitting = free[bytes];
    if (fitting.empty()) {
      fitting.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.push_back(slot_bytes_);
      slot_bytes_ += rounded_up(tile_rows_ * tile_columns_ * bytes, kLine) + kApart;
    }
    operand.place = fitting.back();
    fitting.pop_back();
    if (operand.access == Access::staged || operand.access == Access::staged_once) {
      (operand.access == Access::staged ? staged_ : staged_once_).push_back(i);
    }
  };
  for (std::uint32_t i = 0; i < operands_.size(); ++i) {
    if (!is_result[i] && operands_[i].access != Access::slot) {  // a slot's would be a result that stays in registers
      place(i);
    }
  }
  for (std::size_t w = 0; w < works_.size(); ++w) {
    const Work& work = works_[w];
    const auto release = [&] {
      for (const std::uint32_t i : std::set<std::uint32_t>(work.operands.begin(), work.operands.end())) {
        const Operand& operand = operands_[i];
        if (last_read[i] == w && !is_stored[i] &&
            (operand.access == Access::slot || operand.access == Access::staged)) {
          free[operand.width * operand.size].push_back(operand.place);
        }
      }
    };
    // A loop's result may be where an operand was that isn't read again.
    if (work.kind == Work::Kind::loop) {
      release();
      place(work.result);
    } else {
      place(work.result);
      release();
    }
  }
}

std::uint32_t TileProgram::place_of(const Operand& operand) const {
  return operand.place + (operand.in_slot() ? static_cast<std::uint32_t>(direct_.size()) : 0);
}

void TileProgram::bind_work(std::span<const Input> inputs) {
  for (const Work& work : works_) {
    const Operand& result = operands_[work.result];
    BoundWork bound{};
    bound.width = result.width;
    if (work.kind == Work::Kind::kernel) {
      kernels_.push_back(bind_kernel(work, inputs));
      bound.kernel = kernels_.back().get();
      bound.attributes = steps_[work.step].attributes.get();
      bound_.push_back(bound);
      continue;
    }
    const std::size_t count = work.operands.size();
    const auto operand_at = [&](std::size_t k) -> const Operand& {
      return k < count ? operands_[work.operands[k]] : result;
    };
    const auto lies_in_planes = [](const Operand& operand) {
      return operand.access == Access::direct && operand.pitch > 0;
    };
    for (std::size_t k = 0; k <= count; ++k) {
      bound.planes = lies_in_planes(operand_at(k)) ? layout_.batch : bound.planes;
    }
    bound.width = bound.planes > 0 ? layout_.plane : result.width;
    for (std::size_t k = 0; k <= count; ++k) {
      const Operand& operand = operand_at(k);
      bound.places[k] = place_of(operand);
      const bool is_row_value = ((work.row_values >> k) & 1U) != 0;
      bound.strides[k] = operand.is_single || is_row_value ? 0 : operand.size;
      bound.row_strides[k] = operand.is_single || (is_row_value && bound.planes > 0) ? 0
                             : lies_in_planes(operand)                               ? operand.pitch
                             : bound.planes > 0                                      ? layout_.plane * operand.size
                                                                                     : operand.width * operand.size;
    }
    bound.is_by_row = work.row_values != 0 || bound.planes > 0;
    if (work.kind == Work::Kind::loop) {
      bound.loop = work.pair != nullptr ? work.pair : loop_of(work);
      bound.attributes = steps_[work.step].attributes.get();
    }
    bound_.push_back(bound);
  }
}

std::unique_ptr<TileProgram::BoundKernel> TileProgram::bind_kernel(const Work& work,
                                                                   std::span<const Input> inputs) const {
  const Step& step = steps_[work.step];
  auto bound = std::make_unique<BoundKernel>();
  bound->op = step.op;
  bound->dense = 0;
  const std::int64_t counts[] = {tile_rows_, rows_ % tile_rows_};
  for (std::size_t k = 0; k <= work.operands.size(); ++k) {
    const bool is_result = k == work.operands.size();
    const Operand& operand = operands_[is_result ? work.result : work.operands[k]];
    const TensorType& type = is_result ? step.type : step.input_types[k];
    const bool is_whole = operand.access == Access::whole;
    const bool is_apart = is_result && operand.access == Access::direct && operand.pitch > 0;  // its planes are
    const bool is_dense = is_whole ? is_contiguous(type.shape, inputs[operand.data].strides) : !is_apart;
    bound->places.push_back(place_of(operand));
    bound->dense |= static_cast<std::uint32_t>(is_dense) << k;
    for (int i = 0; i < 2; ++i) {
      const Shape shape = is_whole ? type.shape : some_rows(type.shape, layout_, counts[i]);
      bound->types[i].push_back({type.dtype, shape});
      bound->strides[i].push_back(is_whole   ? inputs[operand.data].strides
                                  : is_apart ? operand.channel_strides
                                             : contiguous_strides(shape));
    }
  }
  return bound;
}

}  // namespace diptych::codegen
