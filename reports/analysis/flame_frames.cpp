#include "reports/analysis/flame_frames.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace diptych::reports {
namespace {

/// A frame, and where those inside it are.
struct Node {
  FlameFrame frame;
  std::vector<std::size_t> inside;
};

class Tree {
 public:
  explicit Tree(const AlignedProfile& stacks) : arms_(stacks.arms.size()) {
    add_node({"all", FlameFrame::Kind::call, 0, {}});
    for (const AlignedRow& row : stacks.rows) {
      add(row);
    }
  }

  std::vector<FlameFrame> frames() && {
    std::vector<FlameFrame> frames;
    flatten(0, frames);
    return frames;
  }

 private:
  std::size_t add_node(FlameFrame frame) {
    frame.seconds.assign(arms_, 0);
    nodes_.push_back({std::move(frame), {}});
    return nodes_.size() - 1;
  }

  void add(const AlignedRow& row) {
    std::size_t at = 0;
    add_seconds(at, row);
    const std::vector<std::string_view> stack = stack_of(row);
    for (std::size_t i = 0; i < stack.size(); ++i) {
      at = inside(at, std::string(stack[i]), i + 1 < stack.size() ? FlameFrame::Kind::module : kind_of(row));
      add_seconds(at, row);
    }
  }

  static FlameFrame::Kind kind_of(const AlignedRow& row) {
    switch (row.kind) {
      case AlignedRow::Kind::ops:
        return FlameFrame::Kind::op;
      case AlignedRow::Kind::tape:
        return FlameFrame::Kind::tape;
      case AlignedRow::Kind::outside:
        return FlameFrame::Kind::outside;
    }
    return FlameFrame::Kind::op;
  }

  void add_seconds(std::size_t node, const AlignedRow& row) {
    for (std::size_t arm = 0; arm < row.arms.size(); ++arm) {
      nodes_[node].frame.seconds[arm] += std::max(0.0, row.arms[arm].seconds.value_or(0));
    }
  }

  std::size_t inside(std::size_t node, std::string name, FlameFrame::Kind kind) {
    for (const std::size_t each : nodes_[node].inside) {
      if (nodes_[each].frame.name == name) {
        return each;
      }
    }
    const std::size_t added = add_node({std::move(name), kind, nodes_[node].frame.depth + 1, {}});
    nodes_[node].inside.push_back(added);
    return added;
  }

  void flatten(std::size_t node, std::vector<FlameFrame>& frames) {
    frames.push_back(std::move(nodes_[node].frame));
    for (const std::size_t each : nodes_[node].inside) {
      flatten(each, frames);
    }
  }

  std::size_t arms_;
  std::vector<Node> nodes_;
};

double longest(const FlameFrame& frame) {
  return frame.seconds.empty() ? 0 : *std::max_element(frame.seconds.begin(), frame.seconds.end());
}

}  // namespace

std::vector<std::string_view> stack_of(const AlignedRow& row) {
  std::vector<std::string_view> stack;
  std::string_view rest = row.name;
  while (stack.size() < kDeepestFrame) {
    const std::size_t end = row.kind == AlignedRow::Kind::ops ? rest.find(';') : std::string_view::npos;
    stack.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(end + 1);
  }
  return stack;
}

FlameFrames flame_frames(const AlignedProfile& stacks) {
  return {stacks.arms, stacks.total_seconds, Tree(stacks).frames(), 0};
}

namespace {

/// Of each frame what `name` makes of what it made of the frame around it (none: an empty text) and of the frame.
template <typename Name>
std::vector<std::string> names_from_outside(const std::vector<FlameFrame>& frames, const Name& name) {
  std::vector<std::string> names;
  std::vector<std::string> around;  // by depth, without the call
  for (const FlameFrame& frame : frames) {
    around.resize(std::min(around.size(), std::max<std::size_t>(frame.depth, 1) - 1));
    names.push_back(name(around.empty() ? "" : around.back(), frame));
    if (frame.depth > 0) {
      around.push_back(names.back());
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> frame_paths(const std::vector<FlameFrame>& frames) {
  return names_from_outside(frames, [](const std::string& around, const FlameFrame& frame) {
    return around.empty() ? frame.name : around + " / " + frame.name;
  });
}

std::vector<std::string> frame_scopes(const std::vector<FlameFrame>& frames) {
  return names_from_outside(frames, [](const std::string& around, const FlameFrame& frame) {
    const bool is_module = frame.kind == FlameFrame::Kind::module;
    return !is_module ? around : around.empty() ? frame.name : around + "." + frame.name;
  });
}

FlameFrames largest_frames(FlameFrames frames, std::size_t most) {
  if (frames.frames.size() <= most) {
    return frames;
  }
  std::vector<std::size_t> order(frames.frames.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // A frame takes at least as long as one inside it, and stands before it: sorted so, it stays before it.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return longest(frames.frames[a]) > longest(frames.frames[b]); });
  order.resize(most);
  std::sort(order.begin(), order.end());
  std::vector<FlameFrame> kept;
  for (const std::size_t index : order) {
    kept.push_back(std::move(frames.frames[index]));
  }
  frames.left_out += frames.frames.size() - most;
  frames.frames = std::move(kept);
  return frames;
}

}  // namespace diptych::reports
