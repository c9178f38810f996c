#include "reports/analysis/memory_profile.h"

#include <algorithm>
#include <map>
#include <utility>

namespace diptych::reports {
namespace {

bool is_alive(const MemoryBlock& block, double seconds) { return block.from <= seconds && seconds < block.to; }

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

}  // namespace diptych::reports
