#include "framework/runtime/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "framework/core/allocator.h"
#include "framework/core/error.h"

namespace diptych::runtime {
namespace {

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t a = allocator::kAlignment;
  return (bytes + a - 1) / a * a;
}

/// Offsets are sums of sizes, and must not wrap.
void check_total(std::span<const Lifetime> lifetimes) {
  constexpr double kMost = 0x1p62;
  double total = 0;
  for (const Lifetime& lifetime : lifetimes) {
    total += static_cast<double>(lifetime.bytes) + static_cast<double>(allocator::kAlignment);
  }
  if (total > kMost) {
    throw Error(fmt::format("the graph's intermediate results have {:.3g} bytes; give it smaller inputs", total));
  }
}

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

/// Places buffers in the given order, each in the smallest gap that fits among those whose lifetimes it overlaps.
MemoryPlan place(std::span<const Lifetime> lifetimes, std::span<const std::uint32_t> order) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<std::uint32_t> placed;  // sorted by offset
  for (std::uint32_t id : order) {
    const std::size_t size = aligned(lifetimes[id].bytes);
    std::size_t best = 0;
    std::size_t best_gap = std::numeric_limits<std::size_t>::max();
    std::size_t end = 0;  // of the neighbours so far
    for (std::uint32_t other : placed) {
      if (!meet(lifetimes[id], lifetimes[other])) {
        continue;
      }
      if (plan.offsets[other] > end) {
        const std::size_t gap = plan.offsets[other] - end;
        if (gap >= size && gap < best_gap) {
          best = end;
          best_gap = gap;
        }
      }
      end = std::max(end, plan.offsets[other] + aligned(lifetimes[other].bytes));
    }
    plan.offsets[id] = best_gap == std::numeric_limits<std::size_t>::max() ? end : best;
    plan.peak = std::max(plan.peak, plan.offsets[id] + size);
    const auto at = std::upper_bound(placed.begin(), placed.end(), id, [&](std::uint32_t a, std::uint32_t b) {
      return plan.offsets[a] < plan.offsets[b];
    });
    placed.insert(at, id);
  }
  return plan;
}

/// While the plan needs more than `bound`: a buffer that ends at its peak is placed before all others.
void improve(std::span<const Lifetime> lifetimes, std::size_t bound, std::vector<std::uint32_t> order,
             MemoryPlan& best) {
  constexpr int kTries = 16;
  MemoryPlan plan = best;
  for (int i = 0; i < kTries && best.peak > bound; ++i) {
    const auto highest = std::find_if(order.rbegin(), order.rend(), [&](std::uint32_t id) {
      return plan.offsets[id] + aligned(lifetimes[id].bytes) == plan.peak;
    });
    std::rotate(order.begin(), std::prev(highest.base()), highest.base());
    plan = place(lifetimes, order);
    if (plan.peak < best.peak) {
      plan.heuristic = best.heuristic;
      best = plan;
    }
  }
}

}  // namespace

std::size_t most_live_bytes(std::span<const Lifetime> lifetimes) {
  check_total(lifetimes);
  std::uint32_t end = 0;
  for (const Lifetime& lifetime : lifetimes) {
    end = std::max(end, lifetime.last + 1);
  }
  std::vector<std::int64_t> change(end + std::size_t{1}, 0);
  for (const Lifetime& lifetime : lifetimes) {
    change[lifetime.first] += static_cast<std::int64_t>(aligned(lifetime.bytes));
    change[lifetime.last + 1] -= static_cast<std::int64_t>(aligned(lifetime.bytes));
  }
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (std::int64_t step : change) {
    live += step;
    most = std::max(most, live);
  }
  return static_cast<std::size_t>(most);
}

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  struct Heuristic {
    const char* name;
    std::function<bool(const Lifetime&, const Lifetime&)> before;
  };
  const auto steps = [](const Lifetime& a) { return std::size_t{a.last} - a.first + 1; };
  const Heuristic heuristics[] = {
      {"largest first", [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; }},
      {"longest-lived first", [&](const Lifetime& a, const Lifetime& b) { return steps(a) > steps(b); }},
      {"most bytes times steps first",
       [&](const Lifetime& a, const Lifetime& b) { return a.bytes * steps(a) > b.bytes * steps(b); }},
      {"in execution order", [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; }},
  };
  const std::size_t bound = most_live_bytes(lifetimes);
  MemoryPlan best;
  best.peak = std::numeric_limits<std::size_t>::max();
  std::vector<std::uint32_t> best_order;
  for (const Heuristic& heuristic : heuristics) {
    std::vector<std::uint32_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return heuristic.before(lifetimes[a], lifetimes[b]); });
    MemoryPlan plan = place(lifetimes, order);
    if (plan.peak < best.peak) {
      best = std::move(plan);
      best.heuristic = heuristic.name;
      best_order = std::move(order);
    }
    if (best.peak == bound) {
      break;
    }
  }
  improve(lifetimes, bound, best_order, best);
  best.lower_bound = bound;
  return best;
}

}  // namespace diptych::runtime
