#include "framework/runtime/placed_parts.h"

#include <algorithm>
#include <map>
#include <set>

#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "framework/ops/axis_attributes.h"
#include "framework/ops/indexing_ops.h"
#include "framework/ops/shape_ops.h"

namespace diptych::runtime {
namespace {

int axis_of(const LoweredNode& node) { return static_cast<int>(node.attributes.as<ops::AxisAttributes>().axis); }

/// Where a tensor of `type` lies in `whole` that begins at `start` along the axis.
Place part_of(const Place& whole, int axis, std::int64_t start, const TensorType& type) {
  const auto size = static_cast<std::int64_t>(size_of(type.dtype));
  return {whole.buffer, whole.offset + start * whole.strides[axis] * size, type, whole.strides,
          is_contiguous(type.shape, whole.strides)};
}

/// Whether rows lie at equal distances, and each of them densely; a row is all axes from `leading` on.
bool has_equal_rows(const Place& place, int leading) {
  const Shape& shape = place.type.shape;
  Shape row;
  Strides strides;
  for (int axis = leading; axis < shape.rank(); ++axis) {
    row.push_back(shape[axis]);
    strides.push_back(place.strides[axis]);
  }
  for (int axis = 1; axis < leading; ++axis) {
    if (place.strides[axis - 1] != place.strides[axis] * shape[axis]) {
      return false;
    }
  }
  return is_contiguous(row, strides);
}

/// Of a place with gaps: the elements from one to the next.
std::int64_t run_of(const Place& place) {
  std::int64_t run = 1;
  for (int axis = place.type.shape.rank() - 1; axis >= 0; --axis) {
    if (place.type.shape[axis] != 1) {
      if (place.strides[axis] != run) {
        break;
      }
      run *= place.type.shape[axis];
    }
  }
  return run;
}

/// Whether the node's kernel can write a result to a place with gaps.
bool writes_gaps(const LoweredNode& node, const Place& place) {
  // A loop on less takes longer to call than to run.
  constexpr std::int64_t kLeastRun = 32;
  if (node.op->elementwise()) {
    return !node.inputs.empty() && !node.op->own_walk && run_of(place) >= kLeastRun;
  }
  if (node.op == &graph::fused_op()) {
    const graph::Graph& region = *node.regions[0];
    return node.regions.size() == 1 && graph::contraction_of(region) == nullptr && graph::rows_of(region).count == 0 &&
           run_of(place) >= kLeastRun;
  }
  if (node.op == &op::concat) {
    return true;
  }
  if (node.op == &op::embedding) {
    return has_equal_rows(place, node.inputs[0].type.shape.rank());
  }
  return node.op == &op::index_select && has_equal_rows(place, axis_of(node) + node.inputs[1].type.shape.rank());
}

class Placement {
 public:
  explicit Placement(Lowered& lowered) : nodes_(lowered.nodes), buffers_(lowered.buffers) {
    live_.assign(nodes_.size(), 0);
    for (const Buffer& buffer : buffers_) {
      count(buffer, 1, live_);
    }
    peak_ = nodes_.empty() ? 0 : *std::max_element(live_.begin(), live_.end());
  }

  bool run() {
    // From the last on: what a concat of concats joins finds its place before its own parts do.
    for (auto i = static_cast<std::uint32_t>(nodes_.size()); i-- > 0;) {
      if (nodes_[i].op == &op::concat) {
        place_parts_of(i);
      }
    }
    if (rests_.empty()) {
      return false;
    }
    replace_concats();
    return true;
  }

 private:
  struct Part {
    std::size_t input;  ///< of the concat
    std::uint32_t buffer;
    Place target;
  };
  using Live = std::vector<std::int64_t>;  ///< bytes of temporaries, by instruction

  static void count(const Buffer& buffer, std::int64_t times, Live& live) {
    if (buffer.kind == BufferClass::temporary && buffer.first <= buffer.last) {
      for (std::uint32_t i = buffer.first; i <= buffer.last; ++i) {
        live[i] += times * static_cast<std::int64_t>(buffer.bytes);
      }
    }
  }

  /// Of all instructions as they stand now.
  template <class Visit>
  void visit_nodes(const Visit& visit) {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      if (const auto rest = rests_.find(i); rest == rests_.end()) {
        visit(nodes_[i]);
      } else {
        std::for_each(rest->second.begin(), rest->second.end(), visit);
      }
    }
  }

  void place_parts_of(std::uint32_t concat) {
    const LoweredNode& node = nodes_[concat];
    std::vector<Part> parts;
    std::set<std::uint32_t> buffers;
    std::int64_t start = 0;
    const int axis = axis_of(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Place& input = node.inputs[i];
      Place target = part_of(node.output(), axis, start, input.type);
      start += input.type.shape[axis];
      if (may_lie_at(input, target, concat) && buffers.insert(input.buffer).second) {
        parts.push_back({i, input.buffer, target});
      }
    }
    // The part that is written first keeps the result in memory longest.
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const Part& a, const Part& b) { return buffers_[a.buffer].first > buffers_[b.buffer].first; });
    Live live = live_with(parts);
    while (!parts.empty() && *std::max_element(live.begin(), live.end()) > peak_) {
      parts.pop_back();
      live = live_with(parts);
    }
    if (!parts.empty()) {
      live_ = std::move(live);
      leave_rest(concat, parts);
      for (const Part& part : parts) {
        move(part);
      }
    }
  }

  bool may_lie_at(const Place& part, const Place& target, std::uint32_t concat) {
    const Buffer& own = buffers_[part.buffer];
    const bool is_whole = part.contiguous && part.offset == 0 && bytes_of(part.type) == own.bytes;
    return own.kind == BufferClass::temporary && is_whole && own.bytes > 0 && part.buffer != target.buffer &&
           own.first < concat && may_be_written(target.buffer, own.first, concat) &&
           (target.contiguous || may_have_gaps(part, target));
  }

  /// From instruction `first` on. A new state lies in the place of the old one, which nothing may need any more; nor
  /// may the state change if the call fails.
  bool may_be_written(std::uint32_t buffer, std::uint32_t first, std::uint32_t concat) const {
    const auto hinders = [&](const LoweredNode& node) {
      return node.can_fail || std::any_of(node.inputs.begin(), node.inputs.end(),
                                          [&](const Place& input) { return input.buffer == buffer; });
    };
    return buffers_[buffer].kind != BufferClass::state ||
           std::none_of(nodes_.begin() + first, nodes_.begin() + concat, hinders);
  }

  /// If the concat alone reads the part, and the kernel that writes it can.
  bool may_have_gaps(const Place& part, const Place& target) {
    std::size_t readers = 0;
    visit_nodes([&](const LoweredNode& node) {
      readers += static_cast<std::size_t>(std::count_if(
          node.inputs.begin(), node.inputs.end(), [&](const Place& input) { return input.buffer == part.buffer; }));
    });
    const LoweredNode& writer = nodes_[buffers_[part.buffer].first];
    const bool is_result = std::any_of(writer.outputs.begin(), writer.outputs.end(), [&](const Place& output) {
      return output.buffer == part.buffer && output.type == part.type;
    });
    return readers == 1 && is_result && writes_gaps(writer, target);
  }

  Live live_with(std::span<const Part> parts) const {
    Live live = live_;
    if (!parts.empty()) {
      const Buffer& whole = buffers_[parts.front().target.buffer];
      Buffer longer = whole;
      for (const Part& part : parts) {
        count(buffers_[part.buffer], -1, live);
        longer.first = std::min(longer.first, buffers_[part.buffer].first);
        longer.last = std::max(longer.last, buffers_[part.buffer].last);
      }
      count(whole, -1, live);
      count(longer, 1, live);
    }
    return live;
  }

  void move(const Part& part) {
    Buffer& from = buffers_[part.buffer];
    Buffer& to = buffers_[part.target.buffer];
    to.first = std::min(to.first, from.first);
    to.last = std::max(to.last, from.last);
    from.first = UINT32_MAX;
    from.last = 0;
    const auto redirect = [&](Place& place) {
      if (place.buffer == part.buffer) {
        place.buffer = part.target.buffer;
        place.offset += part.target.offset;
        if (!part.target.contiguous) {
          place.strides = part.target.strides;
          place.contiguous = false;
        }
      }
    };
    visit_nodes([&](LoweredNode& node) {
      std::for_each(node.inputs.begin(), node.inputs.end(), redirect);
      std::for_each(node.outputs.begin(), node.outputs.end(), redirect);
    });
  }

  /// A concat of each run of parts that are copied.
  void leave_rest(std::uint32_t concat, std::span<const Part> placed) {
    const LoweredNode& node = nodes_[concat];
    const int axis = axis_of(node);
    std::vector<LoweredNode>& rest = rests_[concat];
    bool continues = false;
    std::int64_t start = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Place& input = node.inputs[i];
      const std::int64_t length = input.type.shape[axis];
      const bool is_copied =
          bytes_of(input.type) > 0 &&
          std::none_of(placed.begin(), placed.end(), [&](const Part& part) { return part.input == i; });
      if (is_copied && !continues) {
        rest.push_back(node);
        rest.back().inputs.clear();
        rest.back().output() = part_of(node.output(), axis, start, input.type);
      } else if (is_copied) {
        Place& output = rest.back().output();
        output.type.shape[axis] += length;
        output.contiguous = is_contiguous(output.type.shape, output.strides);
      }
      if (is_copied) {
        rest.back().inputs.push_back(input);
      }
      continues = is_copied || (continues && length == 0);
      start += length;
    }
  }

  void replace_concats() {
    std::vector<LoweredNode> nodes;
    std::set<std::uint32_t> joined;  // buffers
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      if (const auto rest = rests_.find(i); rest == rests_.end()) {
        nodes.push_back(std::move(nodes_[i]));
      } else {
        joined.insert(nodes_[i].output().buffer);
        std::move(rest->second.begin(), rest->second.end(), std::back_inserter(nodes));
      }
    }
    nodes_ = std::move(nodes);
    std::for_each(joined.begin(), joined.end(), [&](std::uint32_t buffer) { check(buffer); });
  }

  /// Every byte of a result is written once.
  void check(std::uint32_t buffer) const {
    std::size_t written = 0;
    std::map<std::int64_t, std::int64_t> dense;  // from, to
    for (const LoweredNode& node : nodes_) {
      for (const Place& output : node.outputs) {
        if (output.buffer == buffer && bytes_of(output.type) > 0) {
          written += bytes_of(output.type);
          if (output.contiguous) {
            dense.emplace(output.offset, output.offset + static_cast<std::int64_t>(bytes_of(output.type)));
          }
        }
      }
    }
    std::int64_t end = 0;
    for (const auto& [from, to] : dense) {
      internal_check(from >= end, "parts of a concat overlap");
      end = to;
    }
    const Buffer& of = buffers_[buffer];
    internal_check(of.first > of.last || written == of.bytes, "parts of a concat don't fill it");
  }

  std::vector<LoweredNode>& nodes_;
  std::vector<Buffer>& buffers_;
  std::map<std::uint32_t, std::vector<LoweredNode>> rests_;  ///< what takes the place of a concat
  Live live_;
  std::int64_t peak_ = 0;
};

}  // namespace

bool place_parts(Lowered& lowered) { return Placement(lowered).run(); }

std::vector<const graph::Node*> placed_concats(const graph::Graph& graph, std::span<const graph::ValueId> computed) {
  std::vector<const graph::Node*> placed;
  for (const graph::Node& node : graph.nodes) {
    if (node.op == &op::concat && std::find(computed.begin(), computed.end(), node.output()) == computed.end()) {
      placed.push_back(&node);
    }
  }
  return placed;
}

}  // namespace diptych::runtime
