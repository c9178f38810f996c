#include "framework/runtime/fused_kernel.h"

#include <algorithm>

#include "framework/core/parallel.h"
#include "framework/graph/fused_op.h"

namespace diptych::runtime {

using codegen::TileProgram;

RegionSteps::RegionSteps(const graph::Graph& region, std::span<const Place> node_inputs,
                         std::span<const Place> node_outputs)
    : rows(graph::rows_of(region)) {
  const graph::Node* const contraction = graph::contraction_of(region);
  std::vector<std::uint32_t> operand_of(region.types.size(), UINT32_MAX);  // by value
  const auto add_input = [&](graph::ValueId value, const Place& place) {
    operand_of[value] = static_cast<std::uint32_t>(inputs.size());
    places.push_back(place);
    inputs.push_back({place.type, place.strides});
  };
  if (contraction != nullptr) {
    const auto found = std::find(region.outputs.begin(), region.outputs.end(), contraction->output());
    add_input(contraction->output(), node_outputs[static_cast<std::size_t>(found - region.outputs.begin())]);
  }
  for (std::size_t i = 0; i < region.inputs.size(); ++i) {
    const graph::ValueId value = region.inputs[i].value;
    const bool is_read = std::any_of(region.nodes.begin(), region.nodes.end(), [&](const graph::Node& inner) {
      return &inner != contraction && std::find(inner.inputs.begin(), inner.inputs.end(), value) != inner.inputs.end();
    });
    if (is_read) {  // what nothing reads may have any shape
      add_input(value, node_inputs[i]);
    }
  }
  for (const graph::Node& inner : region.nodes) {
    if (&inner == contraction) {
      continue;
    }
    if (graph::is_row_view(region, inner, rows)) {
      operand_of[inner.output()] = operand_of[inner.inputs[0]];
      continue;
    }
    TileProgram::Step step{inner.op, inner.attributes, {}, {}, region.types[inner.output()]};
    for (const graph::ValueId input : inner.inputs) {
      step.inputs.push_back(operand_of[input]);
      step.input_types.push_back(region.types[input]);
    }
    operand_of[inner.output()] = static_cast<std::uint32_t>(inputs.size() + steps.size());
    steps.push_back(std::move(step));
  }
  for (std::size_t o = 0; o < region.outputs.size(); ++o) {
    if (contraction == nullptr || region.outputs[o] != contraction->output()) {
      outputs.push_back(operand_of[region.outputs[o]] - static_cast<std::uint32_t>(inputs.size()));
      gaps.push_back(node_outputs[o].contiguous ? Strides() : node_outputs[o].strides);
      places.push_back(node_outputs[o]);
    }
  }
}

bool RegionSteps::operator==(const RegionSteps& other) const {
  const auto same_input = [](const TileProgram::Input& a, const TileProgram::Input& b) {
    return a.type == b.type && a.strides == b.strides;
  };
  const auto same_step = [](const TileProgram::Step& a, const TileProgram::Step& b) {
    return a.op == b.op && a.attributes == b.attributes && a.inputs == b.inputs && a.input_types == b.input_types &&
           a.type == b.type;
  };
  return rows == other.rows && outputs == other.outputs && gaps == other.gaps &&
         std::equal(inputs.begin(), inputs.end(), other.inputs.begin(), other.inputs.end(), same_input) &&
         std::equal(steps.begin(), steps.end(), other.steps.begin(), other.steps.end(), same_step);
}

FusedKernel::FusedKernel(const LoweredNode& node) {
  const std::span<const Place> inputs(node.inputs);
  const std::span<const Place> outputs(node.outputs);
  std::vector<RegionSteps> known;  // of programs_
  std::int64_t tiles = 0;
  for (const graph::FusedPart& part : graph::parts_of(node.regions)) {
    RegionSteps steps(part.region, inputs.subspan(part.first_input, part.region.inputs.size()),
                      outputs.subspan(part.first_output, part.region.outputs.size()));
    const auto found = std::find(known.begin(), known.end(), steps);
    const auto program = static_cast<std::uint32_t>(found - known.begin());
    if (found == known.end()) {
      programs_.emplace_back(steps.rows, steps.inputs, steps.steps, steps.outputs, steps.gaps);
      known.push_back(steps);
    }
    const std::int64_t own = programs_[program].tiles();
    tiles += own;
    nanoseconds_of_tile_ += programs_[program].nanoseconds_of_tile() * static_cast<double>(own);
    parts_.push_back({program, places_.size(), tiles});
    places_.insert(places_.end(), steps.places.begin(), steps.places.end());
  }
  nanoseconds_of_tile_ /= static_cast<double>(std::max<std::int64_t>(tiles, 1));
}

void FusedKernel::run(void* const* data) const {
  if (parts_.size() == 1) {
    programs_[0].run(data);
    return;
  }
  parallel_for(parts_.back().end, nanoseconds_of_tile_, [&](std::int64_t first, std::int64_t last) {
    auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                                 [](std::int64_t tile, const Part& of) { return tile < of.end; });
    for (; first < last; ++part) {
      const TileProgram& program = programs_[part->program];
      const std::int64_t begin = part->end - program.tiles();
      const std::int64_t end = std::min(last, part->end);
      if (first < end) {
        program.run_tiles(data + part->first_place, first - begin, end - begin);
        first = end;
      }
    }
  });
}

}  // namespace diptych::runtime
