#include "reports/views/profile_record.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "framework/core/text.h"
#include "reports/run/profile_pictures.h"
#include "reports/views/memory_views.h"

namespace diptych::reports {
namespace {

std::string kept_name(const std::string& name) {
  constexpr int kKeptColumns = 200;
  return shorten_middle(name, kKeptColumns);
}

constexpr std::array<std::string_view, 5> kFrameKinds = {"call", "module", "op", "tape", "outside"};

FlameFrame::Kind frame_kind_named(const std::string& name) {
  const auto found = std::find(kFrameKinds.begin(), kFrameKinds.end(), name);
  return found == kFrameKinds.end() ? FlameFrame::Kind::op : static_cast<FlameFrame::Kind>(found - kFrameKinds.begin());
}

/// A number of a file, as what it has to be here.
std::size_t kept_count(double value) { return value >= 0 && value < 1e9 ? static_cast<std::size_t>(value) : 0; }
std::int64_t kept_bytes(double value) {
  constexpr double kMost = 9e15;  // doubles hold each whole number up to here
  return static_cast<std::int64_t>(std::clamp(value, -kMost, kMost));
}

/// `before`: the frame before it; none: it is the call.
FlameFrame read_frame(const FrameEntry& entry, const FlameFrame* before, std::size_t arms) {
  const std::size_t deepest = before == nullptr ? 0 : std::min(kDeepestFrame, before->depth + 1);
  const std::size_t depth = std::clamp(kept_count(entry.depth()), std::min<std::size_t>(1, deepest), deepest);
  FlameFrame frame{entry.name(), frame_kind_named(entry.kind()), depth, {}};
  for (const Json& seconds : entry.seconds()) {
    frame.seconds.push_back(seconds.is_number() ? std::max(0.0, seconds.get<double>()) : 0);
  }
  frame.seconds.resize(arms);
  return frame;
}

nlohmann::json holders_json(const std::vector<MemoryHolder>& holders) {
  nlohmann::json out = nlohmann::json::array();
  for (const MemoryHolder& holder : holders) {
    nlohmann::json scopes = nlohmann::json::array();
    for (const std::string& scope : holder.scopes) {
      scopes.push_back(kept_name(scope));
    }
    out.push_back({{"op", kept_name(holder.op)},
                   {"shape", kept_name(holder.shape)},
                   {"scopes", std::move(scopes)},
                   {"modules", holder.modules},
                   {"blocks", holder.blocks},
                   {"bytes", holder.bytes}});
  }
  return out;
}

nlohmann::json arena_json(const std::vector<MemoryBlock>& blocks) {
  nlohmann::json out = nlohmann::json::array();
  for (const MemoryBlock& block : blocks) {
    out.push_back({{"op", kept_name(block.op)},
                   {"scope", kept_name(block.scope)},
                   {"shape", kept_name(block.shape)},
                   {"bytes", block.bytes},
                   {"offset", block.offset.value_or(0)},
                   {"from_seconds", block.from},
                   {"to_seconds", block.to}});
  }
  return out;
}

std::vector<MemoryPoint> read_timeline(const Json& pairs) {
  std::vector<MemoryPoint> points;
  for (const Json& pair : pairs) {
    if (pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number()) {
      points.push_back({pair[0].get<double>(), kept_bytes(pair[1].get<double>())});
    }
  }
  return points;
}

MemoryRecord read_memory_of(const MemoryOfArmEntry& entry) {
  MemoryRecord arm{.name = entry.name(), .seconds = entry.seconds()};
  arm.peak = {entry.peak_seconds(), kept_bytes(entry.peak_bytes())};
  if (const auto bytes = entry.arena_bytes()) {
    arm.arena_bytes = kept_bytes(*bytes);
  }
  arm.lower_bound_bytes = kept_bytes(entry.lower_bound_bytes());
  arm.packed_bytes = kept_bytes(entry.packed_bytes());
  arm.timeline = read_timeline(entry.timeline());
  constexpr MemoryLimits kLimits;
  for (const HolderEntry holder : entry.holders()) {
    if (arm.holders.size() < kLimits.holders) {
      arm.holders.push_back({holder.op(), holder.shape(), holder.scopes(), kept_count(holder.modules()),
                             kept_count(holder.blocks()), kept_bytes(holder.bytes())});
    }
  }
  for (const ArenaBlockEntry block : entry.arena()) {
    if (arm.arena.size() < kLimits.blocks) {
      arm.arena.push_back({.bytes = kept_bytes(block.bytes()),
                           .from = block.from_seconds(),
                           .to = block.to_seconds(),
                           .op = block.op(),
                           .scope = block.scope(),
                           .shape = block.shape(),
                           .offset = kept_bytes(block.offset())});
    }
  }
  arm.points_left_out = kept_count(entry.points_left_out());
  arm.holders_left_out = kept_count(entry.holders_left_out()) + entry.holders().size() - arm.holders.size();
  arm.blocks_left_out = kept_count(entry.blocks_left_out()) + entry.arena().size() - arm.arena.size();
  return arm;
}

}  // namespace

nlohmann::json flames_json(const FlameFrames& frames) {
  const FlameFrames kept = largest_frames(frames, kFramesKept);
  nlohmann::json all = nlohmann::json::array();
  for (const FlameFrame& frame : kept.frames) {
    all.push_back({{"name", kept_name(frame.name)},
                   {"kind", kFrameKinds[static_cast<std::size_t>(frame.kind)]},
                   {"depth", frame.depth},
                   {"seconds", frame.seconds}});
  }
  return {{"frames", std::move(all)}, {"left_out", kept.left_out}};
}

std::optional<FlameFrames> read_flames(const ProfileEntry& profile) {
  FlameFrames read;
  for (const ArmOfProfile arm : profile.arms()) {
    read.arms.push_back(arm.name());
    read.total_seconds.push_back(arm.seconds());
  }
  const FlamesEntry entry = flames_of(profile);
  for (const FrameEntry frame : entry.frames()) {
    read.frames.push_back(read_frame(frame, read.frames.empty() ? nullptr : &read.frames.back(), read.arms.size()));
  }
  if (read.arms.size() < 2 || read.frames.empty()) {
    return std::nullopt;
  }
  read.left_out = kept_count(entry.left_out());
  return largest_frames(std::move(read), kFramesKept);
}

nlohmann::json memory_record_json(std::span<const MemoryRecord> arms) {
  nlohmann::json all = nlohmann::json::array();
  for (const MemoryRecord& arm : arms) {
    nlohmann::json figures = memory_figures_json(arm);
    figures["points_left_out"] = arm.points_left_out;
    figures["holders"] = holders_json(arm.holders);
    figures["holders_left_out"] = arm.holders_left_out;
    figures["arena"] = arena_json(arm.arena);
    figures["blocks_left_out"] = arm.blocks_left_out;
    all.push_back(std::move(figures));
  }
  return all;
}

std::vector<MemoryRecord> read_memory(const ProfileEntry& profile) {
  std::vector<MemoryRecord> arms;
  constexpr std::size_t kMostArms = 8;
  for (const MemoryOfArmEntry entry : memory_of(profile)) {
    if (arms.size() < kMostArms) {
      arms.push_back(read_memory_of(entry));
    }
  }
  return arms;
}

}  // namespace diptych::reports
