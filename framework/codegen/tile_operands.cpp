// Where what the steps of a tile program read and write lies.

#include <algorithm>
#include <set>
#include <tuple>

#include "framework/codegen/rows.h"
#include "framework/codegen/tile_program.h"
#include "framework/kernels/elementwise.h"

namespace diptych::codegen {
namespace {

/// A loop on fewer elements costs more to call than to run.
constexpr std::int64_t kLeastWidthOfLoop = 32;
/// Of a transpose that is worth a block.
constexpr std::int64_t kLeastSide = 16;

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

/// The shape in which a step reads an input, and its strides then, in bytes.
const Shape& read_by(const TileProgram::Step& step, const TileProgram::Input& input, std::int64_t* strides) {
  const Shape& shape = step.op->elementwise() ? step.type.shape : input.type.shape;
  kernels::broadcast_strides(input.type, input.strides, shape, strides, 1);
  return shape;
}

}  // namespace

Rows TileProgram::Step::rows() const {
  std::vector<const TensorType*> types;
  for (const TensorType& each : input_types) {
    types.push_back(&each);
  }
  return op->rows_of(types, attributes.get(), type);
}

bool TileProgram::Operand::same_rows() const {
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 0; });
}

bool TileProgram::Operand::is_turned() const {
  return inner_stride != 0 && inner_stride != size && !strides.empty() && strides.back() == size &&
         lengths.back() >= kLeastSide;
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
  std::set<std::uint32_t> of_kernels;  // what a kernel reads
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    const bool is_loop = step.op->elementwise();
    const Rows own = is_loop ? Rows{layout_, ~0U} : step.rows();
    internal_check(own.layout == layout_ && (!layout_.by_channel() || own.inputs == ~0U),
                   "a step has other rows than its program");
    Operand result;
    result.access = Access::slot;
    result.size = static_cast<std::int64_t>(size_of(step.type.dtype));
    if (layout_.by_channel()) {
      result.set_channels(layout_, step.type.shape, contiguous_strides(step.type.shape));
    } else {
      result.inner_stride = result.size;
      result.width = width_in(layout_, step.type.shape).value();
      result.is_dense = true;
    }
    Work work{is_loop ? Work::Kind::loop : Work::Kind::kernel, s, {}, 0};
    const std::vector<std::int64_t> widths = widths_of(step, own, result.width);
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const std::uint32_t input = step.inputs[i];
      if (widths[i] == 0) {
        internal_check(input < inputs.size(), "a step needs the whole of another's result");
        Operand whole;
        whole.access = Access::whole;
        whole.data = input;
        work.operands.push_back(add_input(std::move(whole)));
        continue;
      }
      work.operands.push_back(input >= inputs.size() ? results_[input - inputs.size()]
                              : layout_.by_channel() ? input_by_channels(inputs, input, step)
                                                     : input_in_rows(inputs, input, step, widths[i]));
      work.row_values |= static_cast<std::uint32_t>(operands_[work.operands.back()].width != widths[i]) << i;
    }
    repeat_row_values(work, widths, result.width);
    if (!is_loop) {
      of_kernels.insert(work.operands.begin(), work.operands.end());
    }
    work.result = static_cast<std::uint32_t>(operands_.size());
    results_.push_back(work.result);
    operands_.push_back(std::move(result));
    works_.push_back(std::move(work));
  }
  for (const std::uint32_t i : of_kernels) {
    operands_[i].pitch = 0;  // kernels read, and leave, dense channels
  }
}

/// Of a program by channels: where the channels of a value lie. `by`: its strides, as it is read with this shape.
void TileProgram::Operand::set_channels(const RowLayout& rows, const Shape& shape, const Strides& by) {
  const int axis = channel_axis(rows, shape);
  lengths = {rows.count};
  channel = shape;
  channel[axis] = 1;
  channel_strides = by;
  strides = {by[axis] * size};
  width = channel.product();
  bool repeats = true;
  for (int i = 0; i < shape.rank(); ++i) {
    repeats = repeats && (channel[i] == 1 || by[i] == 0);
  }
  inner_stride = repeats && width > 1 ? 0 : size;
  // Dense axes from the end on: all of a channel, or its planes.
  std::int64_t dense = 1;
  int first = shape.rank();
  while (first > 0 && (channel[first - 1] == 1 || by[first - 1] == dense)) {
    dense *= channel[--first];
  }
  is_dense = first == 0 && (rows.count == 1 || by[axis] == width);
  pitch = first == 1 && axis == 1 && shape.rank() > 2 && !repeats ? by[0] * size : 0;
}

std::uint32_t TileProgram::input_by_channels(std::span<const Input> inputs, std::uint32_t input, const Step& step) {
  const Input& from = inputs[input];
  Operand operand;
  operand.data = input;
  operand.size = static_cast<std::int64_t>(size_of(from.type.dtype));
  std::int64_t bytes[kMaxRank];
  const Shape& shape = read_by(step, from, bytes);
  Strides strides;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    strides.push_back(bytes[axis] / operand.size);
  }
  operand.set_channels(layout_, shape, strides);
  return add_input(std::move(operand));
}

/// Results are written where they are kept, or are copied there (Store): those with gaps, which have their stores,
/// those in blocks, and channels of kernels that can't leave planes apart, or that kernels read.
void TileProgram::keep(std::span<const std::uint32_t> outputs, std::size_t inputs, std::span<const Strides> gaps) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i < gaps.size() && !gaps[i].empty()) {
      continue;
    }
    Operand& output = operands_[results_[outputs[i]]];
    Operand target = output;
    target.access = Access::direct;
    target.data = static_cast<std::uint32_t>(inputs + i);
    const Step& step = steps_[outputs[i]];
    const bool writes_planes = output.pitch > 0 && (step.op->elementwise() || step.rows().writes_planes);
    if (in_blocks_ || (layout_.by_channel() && !output.is_dense && !writes_planes)) {
      stores_.push_back({results_[outputs[i]], std::move(target)});
    } else {
      output = std::move(target);
    }
  }
}

/// The elements of a row of each input, as the step reads it; 0 for those that it needs whole.
std::vector<std::int64_t> TileProgram::widths_of(const Step& step, const Rows& own,
                                                 std::int64_t width_of_result) const {
  std::vector<std::int64_t> widths;
  for (std::size_t i = 0; i < step.input_types.size(); ++i) {
    const bool is_whole = ((own.inputs >> i) & 1U) == 0;
    widths.push_back(is_whole                 ? 0
                     : step.op->elementwise() ? width_of_result
                                              : width_in(layout_, step.input_types[i].shape).value());
  }
  return widths;
}

/// Values of a row that its loop can't read as such, or a kernel, are repeated.
void TileProgram::repeat_row_values(Work& work, std::span<const std::int64_t> widths, std::int64_t width_of_result) {
  const bool are_read = work.kind == Work::Kind::loop && width_of_result >= kLeastWidthOfLoop &&
                        kernels::detail::has_loop(work.operands.size(), work.row_values);
  for (std::size_t i = 0; !are_read && i < work.operands.size(); ++i) {
    if (((work.row_values >> i) & 1U) != 0) {
      work.operands[i] = repeat_rows(work.operands[i], widths[i]);
    }
  }
  work.row_values = are_read ? work.row_values : 0;
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
  std::int64_t strides[kMaxRank];
  const Shape& shape = read_by(step, from, strides);
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
    return std::tie(o.data, o.access, o.width, o.inner_stride, o.lengths, o.strides, o.channel, o.channel_strides);
  };
  for (std::uint32_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].access != Access::slot && key(operands_[i]) == key(operand)) {
      return i;
    }
  }
  operands_.push_back(std::move(operand));
  return static_cast<std::uint32_t>(operands_.size() - 1);
}

}  // namespace diptych::codegen
