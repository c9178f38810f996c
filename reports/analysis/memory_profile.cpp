#include "reports/analysis/memory_profile.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace diptych::reports {
namespace {

bool is_alive(const MemoryBlock& block, double seconds) { return block.from <= seconds && seconds < block.to; }

/// Of each stretch of time the first of its highest points, its lowest, and its last, from which on the next one goes.
std::vector<MemoryPoint> decimated(const std::vector<MemoryPoint>& points, double seconds, std::size_t most) {
  constexpr std::size_t kOfStretch = 3;
  const std::size_t stretches = std::max<std::size_t>(1, most / kOfStretch);
  if (points.size() <= most || !(seconds > 0)) {
    return points;
  }
  const auto stretch_of = [&](const MemoryPoint& point) {
    const double at = point.seconds / seconds * static_cast<double>(stretches);
    return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(stretches - 1)));
  };
  std::set<std::size_t> kept = {0};
  for (std::size_t first = 0; first < points.size();) {
    std::size_t highest = first;
    std::size_t lowest = first;
    std::size_t last = first;
    for (std::size_t i = first; i < points.size() && stretch_of(points[i]) == stretch_of(points[first]); ++i) {
      highest = points[i].bytes > points[highest].bytes ? i : highest;
      lowest = points[i].bytes < points[lowest].bytes ? i : lowest;
      last = i;
    }
    kept.insert({highest, lowest, last});
    first = last + 1;
  }
  std::vector<MemoryPoint> result;
  for (const std::size_t i : kept) {
    result.push_back(points[i]);
  }
  return result;
}

/// So many of the largest by bytes and time, in their order.
std::vector<MemoryBlock> largest(std::vector<MemoryBlock> blocks, std::size_t most) {
  if (blocks.size() <= most) {
    return blocks;
  }
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto area = [&](std::size_t i) {
    return static_cast<double>(blocks[i].bytes) * (blocks[i].to - blocks[i].from);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return area(a) > area(b); });
  order.resize(most);
  std::sort(order.begin(), order.end());
  std::vector<MemoryBlock> kept;
  for (const std::size_t i : order) {
    kept.push_back(std::move(blocks[i]));
  }
  return kept;
}

/// The first ones, and the last.
void limit_scopes(std::vector<std::string>& scopes, std::size_t most) {
  if (scopes.size() > most) {
    scopes[most - 1] = std::move(scopes.back());
    scopes.resize(most);
  }
}

}  // namespace

std::vector<MemoryPoint> timeline(const MemoryOfArm& arm) {
  std::map<double, std::int64_t> changes = {{0, 0}};
  for (const MemoryBlock& block : arm.blocks) {
    if (block.is_older) {
      changes[block.to] -= block.bytes;
    } else if (block.from < block.to) {
      changes[block.from] += block.bytes;
      if (block.to < arm.seconds) {
        changes[block.to] -= block.bytes;
      }
    }
  }
  std::vector<MemoryPoint> points;
  std::int64_t bytes = 0;
  for (const auto& [seconds, change] : changes) {
    bytes += change;
    if (points.empty() || change != 0) {
      points.push_back({seconds, bytes});
    }
  }
  return points;
}

MemoryPeak peak(const MemoryOfArm& arm) {
  MemoryPeak peak;
  const std::vector<MemoryPoint> points = timeline(arm);
  peak.at = *std::max_element(points.begin(), points.end(),
                              [](const MemoryPoint& a, const MemoryPoint& b) { return a.bytes < b.bytes; });
  std::map<std::pair<std::string, std::string>, MemoryHolder> holders;
  for (const MemoryBlock& block : arm.blocks) {
    const bool is_freed = block.is_older && block.to <= peak.at.seconds;
    if (!is_freed && (block.is_older || !is_alive(block, peak.at.seconds))) {
      continue;
    }
    MemoryHolder& holder = holders[is_freed ? std::pair<std::string, std::string>("(freed: held before the call)", "")
                                            : std::pair(block.op, block.shape)];
    ++holder.blocks;
    holder.bytes += is_freed ? -block.bytes : block.bytes;
    if (!block.scope.empty() &&
        std::find(holder.scopes.begin(), holder.scopes.end(), block.scope) == holder.scopes.end()) {
      holder.scopes.push_back(block.scope);
      ++holder.modules;
    }
  }
  for (auto& [key, holder] : holders) {
    holder.op = key.first;
    holder.shape = key.second;
    peak.holders.push_back(std::move(holder));
  }
  std::stable_sort(peak.holders.begin(), peak.holders.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  return peak;
}

MemoryRecord memory_record(const MemoryOfArm& arm, const MemoryLimits& limits) {
  MemoryPeak top = peak(arm);
  MemoryRecord record{.name = arm.name,
                      .seconds = arm.seconds,
                      .peak = top.at,
                      .arena_bytes = arm.arena_bytes,
                      .lower_bound_bytes = arm.lower_bound_bytes,
                      .packed_bytes = arm.packed_bytes};
  const std::vector<MemoryPoint> points = timeline(arm);
  record.timeline = decimated(points, arm.seconds, limits.points);
  record.points_left_out = points.size() - record.timeline.size();
  const std::size_t holders = std::min(limits.holders, top.holders.size());
  record.holders_left_out = top.holders.size() - holders;
  top.holders.resize(holders);
  record.holders = std::move(top.holders);
  for (MemoryHolder& holder : record.holders) {
    limit_scopes(holder.scopes, limits.scopes);
  }
  std::vector<MemoryBlock> arena;
  std::copy_if(arm.blocks.begin(), arm.blocks.end(), std::back_inserter(arena),
               [](const MemoryBlock& block) { return block.offset.has_value(); });
  const std::size_t blocks = arena.size();
  record.arena = largest(std::move(arena), limits.blocks);
  record.blocks_left_out = blocks - record.arena.size();
  return record;
}

std::vector<MemoryRecord> memory_records(std::span<const MemoryOfArm> arms, const MemoryLimits& limits) {
  std::vector<MemoryRecord> records;
  for (const MemoryOfArm& arm : arms) {
    records.push_back(memory_record(arm, limits));
  }
  return records;
}

}  // namespace diptych::reports
