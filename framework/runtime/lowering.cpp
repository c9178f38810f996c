#include "framework/runtime/lowering.h"

#include <algorithm>
#include <utility>

#include "framework/graph/control_ops.h"
#include "framework/graph/fused_op.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/shape_ops.h"
#include "framework/runtime/memory_plan.h"
#include "framework/runtime/placed_parts.h"

namespace diptych::runtime {
namespace {

using graph::Graph;
using graph::InputKind;
using graph::ValueId;

class Lowering {
 public:
  Lowering(const Graph& graph, const LoweringOptions& options)
      : graph_(graph), options_(options), places_(graph.types.size()) {}

  Lowered run(std::span<const Strides> argument_strides) {
    place_inputs(argument_strides);
    for (const graph::Node& node : graph_.nodes) {
      lower_node(node);
    }
    lower_outputs();
    lower_updates();
    find_lifetimes();
    write_states_in_place();  // always, because eager doesn't copy a new state either
    choose_places();
    return std::move(result_);
  }

 private:
  std::uint32_t new_buffer(BufferClass kind, std::uint32_t index, std::size_t bytes) {
    result_.buffers.push_back({kind, index, bytes, 0, 0});
    return static_cast<std::uint32_t>(result_.buffers.size() - 1);
  }
  Place dense_place(std::uint32_t buffer, const TensorType& type) {
    return {buffer, 0, type, contiguous_strides(type.shape), true};
  }
  Buffer& buffer_of(const Place& place) { return result_.buffers[place.buffer]; }

  void place_inputs(std::span<const Strides> argument_strides) {
    std::uint32_t arguments = 0;
    for (std::uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      const graph::Input& input = graph_.inputs[i];
      const TensorType& type = graph_.types[input.value];
      const BufferClass kind = input.kind == InputKind::argument ? BufferClass::argument
                               : input.kind == InputKind::state  ? BufferClass::state
                                                                 : BufferClass::captured;
      Place place = dense_place(new_buffer(kind, i, bytes_of(type)), type);
      if (kind == BufferClass::argument) {
        result_.buffers.back().index = arguments;
        place.strides = argument_strides[arguments++];
      } else if (input.tensor.defined()) {
        place.strides = input.tensor.strides();
      }
      place.contiguous = is_contiguous(type.shape, place.strides);
      places_[input.value] = place;
    }
    for (std::uint32_t i = 0; i < graph_.constants.size(); ++i) {
      const auto& [value, tensor] = graph_.constants[i];
      places_[value] = dense_place(new_buffer(BufferClass::constant, i, bytes_of(tensor.type())), tensor.type());
    }
  }

  void lower_node(const graph::Node& node) {
    if (node.is_control()) {
      lower_control(node);
      return;
    }
    const TensorType& type = graph_.types[node.output()];
    if (node.op->view != nullptr) {
      const Place& input = places_[node.inputs[0]];
      Layout layout;
      if (node.op->view(input.type, input.strides, type, node.attributes.get(), layout)) {
        places_[node.output()] = {input.buffer,
                                  input.offset + layout.offset * static_cast<std::int64_t>(size_of(type.dtype)), type,
                                  layout.strides, is_contiguous(type.shape, layout.strides)};
        return;
      }
    }
    LoweredNode lowered = start(node);
    lowered.regions = node.regions;
    for (ValueId input : node.inputs) {
      lowered.inputs.push_back(places_[input]);
    }
    result_.nodes.push_back(std::move(lowered));
  }

  LoweredNode start(const graph::Node& node) {
    LoweredNode lowered{node.op, node.attributes, {}, {}};
    for (const ValueId output : node.outputs) {
      lowered.outputs.push_back(place_output(output));
    }
    if (const graph::Node* const contraction = contraction_of(node)) {
      const Graph& region = *node.regions[0];
      if (std::find(region.outputs.begin(), region.outputs.end(), contraction->output()) == region.outputs.end()) {
        const TensorType& type = region.types[contraction->output()];
        lowered.outputs.push_back(dense_place(new_buffer(BufferClass::temporary, 0, bytes_of(type)), type));
      }
    }
    if (!node.provenance.source_ops.empty()) {
      lowered.source_op = node.provenance.source_ops.front() + std::uint64_t{1};
    }
    lowered.value = node.outputs.empty() ? graph::kNoValue : node.output();
    lowered.can_fail = graph::can_fail(node);
    lowered.where = node.provenance.where;
    lowered.scope = node.provenance.scope;
    return lowered;
  }
  template <class AnyNode>
  static const graph::Node* contraction_of(const AnyNode& node) {
    return node.op == &graph::fused_op() ? graph::contraction_of(*node.regions[0]) : nullptr;
  }
  const Place& place_output(ValueId value) {
    const TensorType& type = graph_.types[value];
    return places_[value] = dense_place(new_buffer(BufferClass::temporary, 0, bytes_of(type)), type);
  }

  void lower_control(const graph::Node& node) {
    LoweredNode lowered = start(node);
    lowered.regions = node.regions;
    const auto [first_dense, end_dense] = graph::dense_inputs(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      Place place = places_[node.inputs[i]];
      if (i >= first_dense && i < end_dense && place.strides != contiguous_strides(place.type.shape)) {
        if (place.contiguous) {  // only axes of length 1 differ
          place.strides = contiguous_strides(place.type.shape);
        } else {
          const Place target = dense_place(new_buffer(BufferClass::temporary, 0, bytes_of(place.type)), place.type);
          copy(place, target);
          place = target;
        }
      }
      lowered.inputs.push_back(place);
    }
    result_.nodes.push_back(std::move(lowered));
  }

  void copy(const Place& from, const Place& to) { result_.nodes.push_back({&op::copy, {}, {from}, {to}}); }

  bool is_whole_temporary(const Place& place) {
    return buffer_of(place).kind == BufferClass::temporary && place.contiguous && place.offset == 0 &&
           bytes_of(place.type) == buffer_of(place).bytes;
  }

  void lower_outputs() {
    for (std::uint32_t i = 0; i < graph_.outputs.size(); ++i) {
      const Place place = places_[graph_.outputs[i]];
      if (is_whole_temporary(place)) {
        buffer_of(place).kind = BufferClass::output;
        buffer_of(place).index = i;
      } else {
        copy(place, dense_place(new_buffer(BufferClass::output, i, bytes_of(place.type)), place.type));
      }
    }
  }

  /// Copies every new state to its place at the end, after all reads; write_states_in_place() then removes the copies
  /// that it can.
  void lower_updates() {
    std::vector<std::pair<Place, Place>> writes;
    for (const graph::Update& update : graph_.updates) {
      Place source = places_[update.value];
      const Place target = places_[graph_.inputs[update.input].value];
      if (buffer_of(source).kind == BufferClass::state) {
        // The old value of another state, which may be overwritten first.
        const Place staged = dense_place(new_buffer(BufferClass::temporary, 0, bytes_of(source.type)), source.type);
        copy(source, staged);
        source = staged;
      }
      writes.emplace_back(source, target);
    }
    first_write_ = result_.nodes.size();
    for (const auto& [source, target] : writes) {
      copy(source, target);
    }
  }

  /// The parts of concats lie in their results, unless more would be alive at one time for it.
  void choose_places() {
    const bool has_concat = std::any_of(result_.nodes.begin(), result_.nodes.end(),
                                        [](const LoweredNode& node) { return node.op == &op::concat; });
    Lowered apart = options_.in_place && has_concat ? result_ : Lowered();
    const bool has_placed = !apart.nodes.empty() && place_parts(result_);
    share_buffers();
    if (has_placed) {
      Lowered placed = std::exchange(result_, std::move(apart));
      share_buffers();
      if (live_bytes(placed) <= live_bytes(result_)) {
        result_ = std::move(placed);
      }
    }
  }

  void share_buffers() {
    find_lifetimes();
    if (options_.in_place) {
      reuse_dying_inputs();
    }
    place_contractions();
    find_lifetimes();
  }

  static std::size_t live_bytes(const Lowered& lowered) {
    std::vector<Lifetime> lifetimes;
    for (const Buffer& buffer : lowered.buffers) {
      if (buffer.kind == BufferClass::temporary && buffer.first != UINT32_MAX) {
        lifetimes.push_back({buffer.bytes, buffer.first, buffer.last});
      }
    }
    return most_live_bytes(lifetimes);
  }

  void find_lifetimes() {
    for (Buffer& buffer : result_.buffers) {
      buffer.first = UINT32_MAX;
      buffer.last = 0;
    }
    for (std::uint32_t i = 0; i < result_.nodes.size(); ++i) {
      LoweredNode& node = result_.nodes[i];
      for (const Place& output : node.outputs) {
        buffer_of(output).first = std::min(buffer_of(output).first, i);
        buffer_of(output).last = i;
      }
      for (const Place& input : node.inputs) {
        buffer_of(input).last = i;
      }
    }
  }

  /// Whether `node` may write its output `output` to `buffer`, which it reads: each element must be read before it is
  /// written or in the very step that writes it, through every operand in the buffer (x + transpose(x) may not).
  static bool can_overwrite(const LoweredNode& node, std::size_t output, std::uint32_t buffer) {
    const bool is_fused = node.op == &graph::fused_op();
    if (!node.op->elementwise() && !is_fused && node.op->overwrites == 0) {
      return false;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Place& input = node.inputs[i];
      if (input.buffer == buffer &&
          (!input.contiguous || input.offset != 0 || input.type != node.outputs[output].type ||
           (is_fused ? !fused_can_overwrite(node, i, output)
                     : !node.op->elementwise() && ((node.op->overwrites >> i) & 1U) == 0))) {
        return false;
      }
    }
    return true;
  }
  /// What regions other than the output's read, they may read later.
  static bool fused_can_overwrite(const LoweredNode& node, std::size_t input, std::size_t output) {
    for (const graph::FusedPart& part : graph::parts_of(node.regions)) {
      if (part.writes(output)) {
        return part.reads(input) &&
               graph::may_overwrite(part.region, input - part.first_input, output - part.first_output);
      }
    }
    return false;  // the result of a contraction, which stays inside
  }
  static std::size_t output_in(const LoweredNode& node, std::uint32_t buffer) {
    const auto found = std::find_if(node.outputs.begin(), node.outputs.end(),
                                    [&](const Place& output) { return output.buffer == buffer; });
    return static_cast<std::size_t>(found - node.outputs.begin());
  }

  void redirect(std::uint32_t from, std::uint32_t to) {
    for (LoweredNode& node : result_.nodes) {
      for (Place& output : node.outputs) {
        output.buffer = output.buffer == from ? to : output.buffer;
      }
      for (Place& input : node.inputs) {
        input.buffer = input.buffer == from ? to : input.buffer;
      }
    }
  }

  void write_states_in_place() {
    std::vector<bool> dropped(result_.nodes.size(), false);
    for (std::size_t w = first_write_; w < result_.nodes.size(); ++w) {
      const Place source = result_.nodes[w].inputs[0];
      const Place target = result_.nodes[w].output();
      if (!is_whole_temporary(source)) {
        continue;
      }
      const std::uint32_t writer = buffer_of(source).first;
      bool safe = true;
      for (std::size_t i = writer; safe && i < result_.nodes.size(); ++i) {
        // A state isn't written before a node that may throw: it would change although the call fails.
        safe = !result_.nodes[i].can_fail;
        for (const Place& input : result_.nodes[i].inputs) {
          const bool reads_old = input.buffer == target.buffer;
          safe = safe && (!reads_old ||
                          (i == writer &&
                           can_overwrite(result_.nodes[i], output_in(result_.nodes[i], source.buffer), target.buffer)));
        }
      }
      if (safe) {
        dropped[w] = true;
        redirect(source.buffer, target.buffer);
      }
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < result_.nodes.size(); ++i) {
      if (!dropped[i]) {
        if (kept != i) {
          result_.nodes[kept] = std::move(result_.nodes[i]);
        }
        ++kept;
      }
    }
    result_.nodes.erase(result_.nodes.begin() + static_cast<std::ptrdiff_t>(kept), result_.nodes.end());
    find_lifetimes();
  }

  /// The results of contractions that stay inside their nodes lie where an output will: one that is no input's place,
  /// because all of an input is read later than some of the results are written.
  void place_contractions() {
    for (LoweredNode& node : result_.nodes) {
      if (contraction_of(node) == nullptr || node.outputs.size() == node.regions[0]->outputs.size()) {
        continue;
      }
      for (std::size_t o = 0; o + 1 < node.outputs.size(); ++o) {
        const std::uint32_t buffer = node.outputs[o].buffer;
        if (graph::may_hold_contraction(*node.regions[0], o) &&
            std::none_of(node.inputs.begin(), node.inputs.end(),
                         [&](const Place& input) { return input.buffer == buffer; })) {
          node.outputs.back().buffer = buffer;
          node.outputs.back().offset = node.outputs[o].offset;
          break;
        }
      }
    }
  }

  void reuse_dying_inputs() {
    // The class of buffers that share bytes, identified by its first member; `last` is maintained for the class.
    std::vector<std::uint32_t> owner(result_.buffers.size());
    for (std::uint32_t i = 0; i < owner.size(); ++i) {
      owner[i] = i;
    }
    for (std::uint32_t i = 0; i < result_.nodes.size(); ++i) {
      LoweredNode& node = result_.nodes[i];
      for (Place& input : node.inputs) {
        input.buffer = owner[input.buffer];
      }
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        reuse_dying_input(node, o, i, owner);
      }
    }
  }

  void reuse_dying_input(LoweredNode& node, std::size_t o, std::uint32_t instruction,
                         std::vector<std::uint32_t>& owner) {
    Place& output = node.outputs[o];
    const Buffer& fresh = buffer_of(output);
    const bool is_part = bytes_of(output.type) != fresh.bytes;
    // A contraction needs a place of its own, which this could be.
    if (contraction_of(node) == nullptr && fresh.kind == BufferClass::temporary && fresh.first == instruction &&
        !is_part) {
      for (const Place& input : node.inputs) {
        Buffer& dying = buffer_of(input);
        if (dying.kind == BufferClass::temporary && dying.last == instruction && dying.bytes == fresh.bytes &&
            (node.outputs.size() == 1 || fresh.last > instruction) && can_overwrite(node, o, input.buffer)) {
          dying.last = fresh.last;
          owner[output.buffer] = input.buffer;
          break;
        }
      }
    }
    output.buffer = owner[output.buffer];
  }

  const Graph& graph_;
  LoweringOptions options_;
  std::vector<Place> places_;
  Lowered result_;
  std::size_t first_write_ = 0;
};

}  // namespace

Lowered lower(const Graph& graph, std::span<const Strides> argument_strides, const LoweringOptions& options) {
  return Lowering(graph, options).run(argument_strides);
}

}  // namespace diptych::runtime
