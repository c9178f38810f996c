#include "framework/runtime/side_by_side.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>

#include "framework/core/parallel.h"
#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"

namespace diptych::runtime {
namespace {

constexpr std::size_t kLongest = 256;
/// Temporaries that a window keeps alive together: more would leave the cache.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;

/// One thread's time for an instruction, roughly.
double nanoseconds_of(const LoweredNode& node) {
  constexpr double kOfCall = 30;
  constexpr double kOfFlop = 0.0075;
  double elements = 0;
  std::vector<const TensorType*> types;
  for (const Place& input : node.inputs) {
    types.push_back(&input.type);
    elements = std::max(elements, static_cast<double>(input.type.shape.product()));
  }
  elements = std::max(elements, static_cast<double>(node.output().type.shape.product()));
  if (node.op->kind == OpKind::contraction) {
    const double flops = cost_of(*node.op, types, node.attributes.get(), node.output().type).flops;
    return kOfCall + kOfFlop * flops * (node.output().type.dtype == DType::float64 ? 2 : 1);
  }
  if (node.op == &graph::fused_op()) {
    if (const graph::Node* const contraction = graph::contraction_of(*node.regions[0])) {
      const graph::Graph& region = *node.regions[0];
      const double flops = cost_of(*contraction->op, region.input_types(*contraction), contraction->attributes.get(),
                                   region.types[contraction->output()])
                               .flops;
      return kOfCall + kOfFlop * flops;
    }
    double total = 0;
    for (const graph::FusedPart& part : graph::parts_of(node.regions)) {
      double largest = 0;
      for (const TensorType& type : part.region.types) {
        largest = std::max(largest, static_cast<double>(type.shape.product()));
      }
      total += largest * (1 + 0.25 * static_cast<double>(part.region.nodes.size()));
    }
    elements = total;
  }
  return kOfCall + kNanosecondsOfScalar * elements;
}

/// Larger instructions are divided by themselves: side by side they would share the cache with others (gpt/mini took 5
/// % longer).
bool can_be_beside(const LoweredNode& node, double nanoseconds) {
  return nanoseconds < 2 * kLeastNanosecondsOfPart && !node.can_fail && !node.op->effect &&
         (node.regions.empty() || node.op == &graph::fused_op());
}

/// From the first byte of a place in its buffer to the last.
struct Extent {
  explicit Extent(const Place& place) : begin(place.offset), end(place.offset) {
    if (place.type.shape.contains(0)) {
      return;
    }
    const auto size = static_cast<std::int64_t>(size_of(place.type.dtype));
    for (int axis = 0; axis < place.type.shape.rank(); ++axis) {
      const std::int64_t reach = (place.type.shape[axis] - 1) * place.strides[axis] * size;
      (reach < 0 ? begin : end) += reach;
    }
    end += size;
  }
  bool operator==(const Extent&) const = default;
  bool meets(const Extent& other) const { return begin < other.end && other.begin < end; }

  std::int64_t begin, end;
};

/// Sets of instructions that depend on one another, from one instruction on, growing by one at a time.
class Strands {
 public:
  explicit Strands(const Lowered& lowered) : lowered_(lowered) {}

  void add(std::uint32_t instruction, double nanoseconds) {
    const auto own = static_cast<std::uint32_t>(parent_.size());
    parent_.push_back(own);
    load_.push_back(nanoseconds);
    total_ += nanoseconds;
    const LoweredNode& node = lowered_.nodes[instruction];
    for (const Place& input : node.inputs) {
      touch(input, own, false);
    }
    for (const Place& output : node.outputs) {
      touch(output, own, true);
    }
    largest_ = std::max(largest_, load_[root(own)]);
  }

  std::uint32_t root(std::uint32_t of) const {
    while (parent_[of] != of) {
      of = parent_[of];
    }
    return of;
  }
  double load(std::uint32_t root) const { return load_[root]; }
  double total() const { return total_; }
  double largest() const { return largest_; }
  std::size_t temporary_bytes() const { return bytes_; }

 private:
  struct Uses {
    Extent extent;
    std::vector<std::uint32_t> readers = {};  ///< empty once something writes
    std::uint32_t last = 0;
    bool is_written = false;
  };

  /// Instructions depend on each other if they touch the same bytes of a buffer and one of them writes them.
  void touch(const Place& place, std::uint32_t by, bool writes) {
    const auto [found, is_new] = uses_.try_emplace(place.buffer);
    const Buffer& of = lowered_.buffers[place.buffer];
    if (is_new && of.kind == BufferClass::temporary) {
      bytes_ += of.bytes;
    }
    const Extent extent(place);
    Uses* own = nullptr;
    for (Uses& uses : found->second) {
      own = uses.extent == extent ? &uses : own;
      if (uses.extent.meets(extent)) {
        depend(uses, by, writes);
      }
    }
    own = own != nullptr ? own : &found->second.emplace_back(Uses{extent});
    if (writes) {
      own->readers.clear();
      own->is_written = true;
    } else if (!own->is_written) {
      own->readers.push_back(by);
    }
    own->last = by;
  }
  void depend(const Uses& earlier, std::uint32_t by, bool writes) {
    if (earlier.is_written) {
      join(earlier.last, by);
    } else if (writes) {
      for (const std::uint32_t reader : earlier.readers) {
        join(reader, by);
      }
    }
  }
  void join(std::uint32_t a, std::uint32_t b) {
    a = root(a);
    b = root(b);
    if (a != b) {
      parent_[b] = a;
      load_[a] += load_[b];
    }
  }

  const Lowered& lowered_;
  std::vector<std::uint32_t> parent_;
  std::vector<double> load_;                                   ///< of roots
  std::unordered_map<std::uint32_t, std::vector<Uses>> uses_;  ///< by buffer
  double total_ = 0;
  double largest_ = 0;
  std::size_t bytes_ = 0;
};

/// The strands of [first, end) as few lists of about equal length, the longest strand first to the shortest list.
Window make_window(const Lowered& lowered, std::span<const double> nanoseconds, std::uint32_t first, std::uint32_t end,
                   int threads) {
  Strands strands(lowered);
  for (std::uint32_t i = first; i < end; ++i) {
    strands.add(i, nanoseconds[i]);
  }
  std::vector<std::uint32_t> roots;
  for (std::uint32_t i = 0; i < end - first; ++i) {
    if (strands.root(i) == i) {
      roots.push_back(i);
    }
  }
  std::stable_sort(roots.begin(), roots.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return strands.load(a) > strands.load(b); });
  constexpr std::size_t kOfThread = 4;  // so that one thread can help another
  const std::size_t count = std::min(roots.size(), kOfThread * static_cast<std::size_t>(threads));
  std::vector<double> loads(count, 0);
  std::unordered_map<std::uint32_t, std::size_t> list_of;
  for (const std::uint32_t root : roots) {
    const auto shortest = static_cast<std::size_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    loads[shortest] += strands.load(root);
    list_of[root] = shortest;
  }
  Window window{first, end, std::vector<std::vector<std::uint32_t>>(count), strands.total()};
  for (std::uint32_t i = 0; i < end - first; ++i) {
    window.strands[list_of[strands.root(i)]].push_back(first + i);
  }
  return window;
}

}  // namespace

std::vector<Window> find_windows(const Lowered& lowered, int threads) {
  const std::size_t count = lowered.nodes.size();
  std::vector<Window> windows;
  if (threads < 2 || count < 2) {
    return windows;
  }
  const double least = detail::least_divided;
  const double hand_over = std::max(least / 20, 1.0);  // about a microsecond
  std::vector<double> nanoseconds(count);
  std::transform(lowered.nodes.begin(), lowered.nodes.end(), nanoseconds.begin(), nanoseconds_of);

  // best[i]: the least time of the first i instructions, whose last window begins at from[i].
  std::vector<double> best(count + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> from(count + 1, 0);
  best[0] = 0;
  for (std::size_t first = 0; first < count; ++first) {
    const double alone = nanoseconds[first];
    const double divided = alone >= least ? hand_over + alone / threads : alone;
    if (best[first] + divided < best[first + 1]) {
      best[first + 1] = best[first] + divided;
      from[first + 1] = first;
    }
    Strands strands(lowered);
    const std::size_t end = std::min(count, first + kLongest);
    for (std::size_t i = first; i < end && can_be_beside(lowered.nodes[i], nanoseconds[i]); ++i) {
      strands.add(static_cast<std::uint32_t>(i), nanoseconds[i]);
      if (strands.temporary_bytes() > kMostBytes) {
        break;
      }
      const double time = best[first] + hand_over + std::max(strands.total() / threads, strands.largest());
      if (i > first && strands.total() >= least && strands.largest() < strands.total() && time <= best[i + 1]) {
        best[i + 1] = time;
        from[i + 1] = first;
      }
    }
  }
  for (std::size_t end = count; end > 0; end = from[end]) {
    if (end - from[end] > 1) {
      windows.push_back(make_window(lowered, nanoseconds, static_cast<std::uint32_t>(from[end]),
                                    static_cast<std::uint32_t>(end), threads));
    }
  }
  std::reverse(windows.begin(), windows.end());
  return windows;
}

}  // namespace diptych::runtime
