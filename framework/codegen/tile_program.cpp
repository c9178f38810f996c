#include "framework/codegen/tile_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

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
/// A loop on fewer elements costs more to call than to run.
constexpr std::int64_t kLeastWidthOfLoop = 32;
/// Blocks: a transpose's columns are read in whole lines, and shorter rows take longer to copy one by one than to
/// compute (docs/fusion.md).
constexpr std::int64_t kMostBytesOfColumn = 256;
constexpr std::int64_t kColumnsOfBlock = 128;
/// Of a transpose that is worth a block.
constexpr std::int64_t kLeastSide = 16;
/// Loops take whole vectors, and slots whole lines, of the smallest type too.
constexpr std::int64_t kWhole = 64;

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

Rows rows_of(const TileProgram::Step& step) {
  std::vector<const TensorType*> types;
  for (const TensorType& type : step.input_types) {
    types.push_back(&type);
  }
  return step.op->rows_of(types, step.attributes.get(), step.type);
}

}  // namespace

namespace {

/// The axes of a shape as far as all operands and a dense result walk along several as along one. Of the last
/// `column_axes`, none merges with one before them.
struct MergedAxes {
  MergedAxes(std::span<const TileProgram::Input> inputs, const Shape& shape, int column_axes) {
    const auto operands = static_cast<int>(inputs.size()) + 1;
    strides.resize(kMaxRank * inputs.size() + kMaxRank);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      kernels::broadcast_strides(inputs[k].type, inputs[k].strides, shape, strides.data() + k, operands);
    }
    kernels::broadcast_strides({DType::boolean, shape}, contiguous_strides(shape), shape,
                               strides.data() + inputs.size(), operands);
    Shape parts[2];
    for (int axis = 0; axis < shape.rank(); ++axis) {
      parts[axis < shape.rank() - column_axes ? 0 : 1].push_back(shape[axis]);
    }
    leading = static_cast<std::size_t>(kernels::merge_axes(parts[0], operands, lengths, strides.data()));
    const auto from = strides.begin() + static_cast<std::ptrdiff_t>(parts[0].rank()) * operands;
    std::vector<std::int64_t> last(from, strides.end());
    count = leading + static_cast<std::size_t>(kernels::merge_axes(parts[1], operands, lengths + leading, last.data()));
    std::copy_n(last.begin(), (count - leading) * static_cast<std::size_t>(operands),
                strides.begin() + static_cast<std::ptrdiff_t>(leading) * operands);
  }

  std::int64_t lengths[kMaxRank];
  std::vector<std::int64_t> strides;  ///< in bytes; of all inputs, then of elements of the result, axis by axis
  std::size_t count, leading;         ///< of merged axes, and how many of them aren't columns
};

}  // namespace

bool TileProgram::Operand::same_rows() const {
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 0; });
}

bool TileProgram::Operand::is_turned() const {
  return inner_stride != 0 && inner_stride != size && !strides.empty() && strides.back() == size &&
         lengths.back() >= kLeastSide;
}

TileProgram::TileProgram(std::int64_t rows, std::vector<Input> inputs, std::vector<Step> steps,
                         std::span<const std::uint32_t> outputs, std::span<const Strides> gaps)
    : TileProgram(rows, 0, std::move(inputs), std::move(steps), outputs, gaps) {}

TileProgram TileProgram::by_parts(int column_axes, std::vector<Input> inputs, std::vector<Step> steps,
                                  std::span<const std::uint32_t> outputs) {
  return {0, column_axes, std::move(inputs), std::move(steps), outputs, {}};
}

TileProgram::TileProgram(std::int64_t rows, int column_axes, std::vector<Input> inputs, std::vector<Step> steps,
                         std::span<const std::uint32_t> outputs, std::span<const Strides> gaps)
    : steps_(std::move(steps)), rows_(rows) {
  internal_check(inputs.size() <= kMostInputs && steps_.size() <= kMostSteps, "a tile program is too long");
  if (rows == 0) {
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
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (in_blocks_ || (i < gaps.size() && !gaps[i].empty())) {
      continue;
    }
    Operand& output = operands_[results_[outputs[i]]];
    output.access = Access::direct;
    output.data = static_cast<std::uint32_t>(inputs.size() + i);
  }
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

bool TileProgram::fits_parts(int column_axes, std::span<const Input> inputs, const Shape& shape) {
  const MergedAxes axes(inputs, shape, column_axes);
  return axes.count - axes.leading <= 1;
}

void TileProgram::place_elementwise(std::vector<Input> inputs, int column_axes, std::span<const std::uint32_t> outputs,
                                    std::span<const Strides> gaps) {
  const Shape& shape = steps_[0].type.shape;
  const std::size_t read = inputs.size();
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (!gaps[i].empty()) {
      inputs.push_back({steps_[outputs[i]].type, gaps[i]});  // walked like an operand
    }
  }
  const std::size_t count = inputs.size() + 1;
  const MergedAxes merged(inputs, shape, column_axes);
  const std::vector<std::int64_t>& strides = merged.strides;
  const std::int64_t* const lengths = merged.lengths;
  std::size_t axes = merged.count;
  std::size_t outer = axes > 0 ? axes - 1 : 0;
  columns_ = axes > 0 ? lengths[axes - 1] : shape.product();
  if (column_axes > 0) {
    internal_check(axes - merged.leading <= 1, "an operand walks along columns in several steps");
    if (axes == merged.leading) {  // one column
      columns_ = shape.contains(0) ? 0 : 1;
      outer = axes;
    }
  }
  rows_ = 1;
  for (std::size_t axis = 0; axis < outer; ++axis) {
    rows_ *= lengths[axis];
  }

  const auto operand_of = [&](std::size_t k, std::int64_t size, std::int64_t scale) {
    Operand operand;
    operand.size = size;
    operand.inner_stride = axes > outer ? strides[(axes - 1) * count + k] * scale : size;
    operand.lengths.assign(lengths, lengths + outer);
    std::int64_t dense = columns_ * size;
    operand.is_dense = operand.inner_stride == size;
    for (std::size_t axis = outer; axis-- > 0;) {
      operand.strides.insert(operand.strides.begin(), strides[axis * count + k] * scale);
      operand.is_dense = operand.is_dense && operand.strides.front() == dense;
      dense *= lengths[axis];
    }
    return operand;
  };
  for (std::size_t k = 0; k < read; ++k) {
    operands_.push_back(operand_of(k, static_cast<std::int64_t>(size_of(inputs[k].type.dtype)), 1));
    operands_.back().data = static_cast<std::uint32_t>(k);
  }
  for (const Step& step : steps_) {
    const auto size = static_cast<std::int64_t>(size_of(step.type.dtype));
    results_.push_back(static_cast<std::uint32_t>(operands_.size()));
    works_.push_back({Work::Kind::loop, static_cast<std::uint32_t>(works_.size()), {}, results_.back()});
    for (const std::uint32_t input : step.inputs) {
      works_.back().operands.push_back(input);  // operands are inputs, then results, as steps number them
    }
    operands_.push_back(operand_of(inputs.size(), size, size));
    operands_.back().access = Access::slot;
  }
  in_blocks_ = column_axes == 0 && columns_ >= kLeastSide &&
               std::any_of(operands_.begin(), operands_.begin() + static_cast<std::ptrdiff_t>(read),
                           [](const Operand& input) { return input.is_turned(); });
  for (std::size_t i = 0; in_blocks_ && i < outputs.size(); ++i) {
    if (i >= gaps.size() || gaps[i].empty()) {
      Operand target = operands_[results_[outputs[i]]];
      target.access = Access::direct;
      target.data = static_cast<std::uint32_t>(read + i);
      stores_.push_back({results_[outputs[i]], std::move(target)});
    }
  }
  for (std::size_t i = 0, k = read; i < gaps.size(); ++i) {
    if (!gaps[i].empty()) {
      Operand target = operand_of(k, static_cast<std::int64_t>(size_of(inputs[k].type.dtype)), 1);
      internal_check(target.inner_stride == target.size, "an output with gaps has dense runs");
      target.data = static_cast<std::uint32_t>(read + i);
      stores_.push_back({results_[outputs[i]], std::move(target)});
      ++k;
    }
  }
}

void TileProgram::place_by_rows(std::span<const Input> inputs) {
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    const Rows own = step.op->elementwise() ? Rows{} : rows_of(step);
    internal_check(step.op->elementwise() || own.count == rows_, "a step has other rows than its program");
    Operand result;
    result.access = Access::slot;
    result.size = static_cast<std::int64_t>(size_of(step.type.dtype));
    result.inner_stride = result.size;
    result.width = width_in(rows_, step.type.shape).value();
    result.is_dense = true;
    Work work{step.op->elementwise() ? Work::Kind::loop : Work::Kind::kernel, s, {}, 0};
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const std::uint32_t input = step.inputs[i];
      const bool is_whole = !step.op->elementwise() && ((own.inputs >> i) & 1U) == 0;
      if (is_whole) {
        internal_check(input < inputs.size(), "a step needs the whole of another's result");
        Operand whole;
        whole.access = Access::whole;
        whole.data = input;
        work.operands.push_back(add_input(std::move(whole)));
        continue;
      }
      const std::int64_t width =
          step.op->elementwise() ? result.width : width_in(rows_, step.input_types[i].shape).value();
      work.operands.push_back(input < inputs.size() ? input_in_rows(inputs, input, step, width)
                                                    : results_[input - inputs.size()]);
      work.row_values |= static_cast<std::uint32_t>(operands_[work.operands.back()].width != width) << i;
    }
    if (work.row_values != 0 && (work.kind == Work::Kind::kernel || result.width < kLeastWidthOfLoop ||
                                 !kernels::detail::has_loop(work.operands.size(), work.row_values))) {
      for (std::size_t i = 0; i < work.operands.size(); ++i) {
        if (((work.row_values >> i) & 1U) != 0) {
          work.operands[i] =
              repeat_rows(work.operands[i],
                          step.op->elementwise() ? result.width : width_in(rows_, step.input_types[i].shape).value());
        }
      }
      work.row_values = 0;
    }
    results_.push_back(static_cast<std::uint32_t>(operands_.size()));
    work.result = results_.back();
    operands_.push_back(std::move(result));
    works_.push_back(std::move(work));
  }
}

/// The operand with the one value of each row `width` times, by a step before the next.
std::uint32_t TileProgram::repeat_rows(std::uint32_t operand, std::int64_t width) {
  internal_check(operands_[operand].width == 1, "a row of one element can be repeated, no other");
  for (const Work& work : works_) {
    if (work.kind == Work::Kind::repeat && work.operands[0] == operand && operands_[work.result].width == width) {
      return work.result;
    }
  }
  const auto repeated = static_cast<std::uint32_t>(operands_.size());
  works_.push_back({Work::Kind::repeat, 0, {operand}, repeated});
  Operand wide;
  wide.access = Access::slot;
  wide.size = wide.inner_stride = operands_[operand].size;
  wide.width = width;
  wide.is_dense = true;
  operands_.push_back(std::move(wide));
  return repeated;
}

/// The operand that is input `input` as `step` reads it, in rows of this width, or of one element that repeats.
std::uint32_t TileProgram::input_in_rows(std::span<const Input> inputs, std::uint32_t input, const Step& step,
                                         std::int64_t width) {
  const Input& from = inputs[input];
  Operand operand;
  operand.data = input;
  operand.width = width;
  operand.size = static_cast<std::int64_t>(size_of(from.type.dtype));
  const Shape& shape = step.op->elementwise() ? step.type.shape : from.type.shape;
  std::int64_t strides[kMaxRank];
  kernels::broadcast_strides(from.type, from.strides, shape, strides, 1);
  Shape leading;
  for (int axis = 0; axis < shape.rank() - (width > 1 ? 1 : 0); ++axis) {
    leading.push_back(shape[axis]);
  }
  const std::int64_t inner = width > 1 ? strides[shape.rank() - 1] : 0;
  std::int64_t lengths[kMaxRank];
  const int axes = kernels::merge_axes(leading, 1, lengths, strides);
  operand.lengths.assign(lengths, lengths + axes);
  operand.strides.assign(strides, strides + axes);
  if (width > 1 && inner == 0 && !operand.same_rows()) {
    operand.width = 1;  // repeated where it is read, not in memory
  }
  if (operand.width > 1) {
    operand.inner_stride = inner;
  } else {
    operand.inner_stride = operand.same_rows() && rows_ > 1 ? 0 : operand.size;
  }
  operand.is_dense = operand.inner_stride == operand.size &&
                     (axes == 0 || (axes == 1 && operand.strides.front() == operand.width * operand.size));
  return add_input(std::move(operand));
}

std::uint32_t TileProgram::add_input(Operand operand) {
  const auto key = [](const Operand& o) {
    return std::tie(o.data, o.access, o.width, o.inner_stride, o.lengths, o.strides);
  };
  for (std::uint32_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].access != Access::slot && key(operands_[i]) == key(operand)) {
      return i;
    }
  }
  operands_.push_back(std::move(operand));
  return static_cast<std::uint32_t>(operands_.size() - 1);
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
      together = std::max(together, rows_of(step).together);
    }
    double elements = static_cast<double>(width_in(rows_, step.type.shape).value());
    for (const TensorType& type : step.input_types) {
      elements = std::max(elements, static_cast<double>(width_in(rows_, type.shape).value_or(1)));
    }
    nanoseconds += elements * kNanosecondsOfScalar * (step.op->elementwise() ? 0.25 : 2);
  }
  tile_rows_ = std::min(std::max(kMostBytesOfRows / bytes, together), rows_);
  tiles_ = (rows_ + tile_rows_ - 1) / tile_rows_;
  std::int64_t read = 0;
  for (const Operand& operand : operands_) {
    read += operand.access == Access::direct && operand.is_dense ? rows_ * operand.width * operand.size : 0;
  }
  fetches_ahead_ = read >= kBytesOfRowsToFetch;
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
  const auto is_plain = [](const Work& work) {
    return work.kind == Work::Kind::loop && work.row_values == 0 && work.pair == nullptr;
  };
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
    // Single values where the loop takes none would be copied for each tile.
    unsigned singles = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      singles |= static_cast<unsigned>(operands_[operands[i]].inner_stride == 0) << i;
    }
    second.pair = kernels::detail::has_loop(operands.size(), singles)
                      ? kernels::pair_loop(loop_of(first), loop_of(second), place)
                      : nullptr;
    if (second.pair != nullptr) {
      second.operands = std::move(operands);
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
    if (!input.is_single && !(one_row && input.inner_stride == input.size)) {
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
    for (std::size_t k = 0; k <= count; ++k) {
      const Operand& operand = k < count ? operands_[work.operands[k]] : result;
      bound.places[k] = place_of(operand);
      const bool is_row_value = ((work.row_values >> k) & 1U) != 0;
      bound.strides[k] = operand.is_single || is_row_value ? 0 : operand.size;
      bound.row_strides[k] = operand.is_single ? 0 : operand.width * operand.size;
    }
    bound.is_by_row = work.row_values != 0;
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
    const bool is_dense = !is_whole || is_contiguous(type.shape, inputs[operand.data].strides);
    bound->places.push_back(place_of(operand));
    bound->dense |= static_cast<std::uint32_t>(is_dense) << k;
    for (int i = 0; i < 2; ++i) {
      const Shape shape = is_whole ? type.shape : some_rows(type.shape, rows_, counts[i]);
      bound->types[i].push_back({type.dtype, shape});
      bound->strides[i].push_back(is_whole ? inputs[operand.data].strides : contiguous_strides(shape));
    }
  }
  return bound;
}

}  // namespace diptych::codegen
