#include "framework/passes/refusal.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/dispatch/op.h"

namespace diptych::passes {

std::string_view name_of(Refusal refusal) {
  static constexpr std::string_view names[] = {
      "effect", "kind", "layout", "shape", "several uses", "operands", "larger than cache", "unprofitable", "cycle"};
  return names[static_cast<std::size_t>(refusal)];
}

std::string_view explanation_of(Refusal refusal) {
  static constexpr std::string_view texts[] = {"one of them has an effect or can fail",
                                               "one of them can't be computed in tiles",
                                               "an operand would be gathered element by element",
                                               "the results differ in shape, and don't fall into the same rows",
                                               "something else reads the scores or the weights of an attention",
                                               "the kernel would have too many ops or inputs",
                                               "a row is too long to keep several in the cache",
                                               "a kernel of both would take longer: it saves too little memory traffic",
                                               "the consumer waits for a third op, which waits for the producer"};
  return texts[static_cast<std::size_t>(refusal)];
}

std::string reason_of(Refusal why, double nanoseconds) {
  const std::string by = nanoseconds > 0 ? fmt::format(" by {:.0f} ns", nanoseconds) : "";
  return fmt::format("{}{} ({})", name_of(why), by, explanation_of(why));
}

std::string to_string(const FusionRefusal& refusal) {
  return fmt::format("{}%{} {} -> %{} {}: {}", refusal.in_region ? "in a region, " : "", refusal.producer,
                     refusal.producer_op->name, refusal.consumer, refusal.consumer_op->name,
                     reason_of(refusal.why, refusal.nanoseconds));
}

std::vector<RefusalGroup> grouped(std::span<const FusionRefusal> refusals) {
  std::vector<RefusalGroup> groups;
  for (const FusionRefusal& refusal : refusals) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const RefusalGroup& group) {
      return group.producer == refusal.producer_op->name && group.consumer == refusal.consumer_op->name &&
             group.why == refusal.why;
    });
    if (known != groups.end()) {
      ++known->edges;
      known->nanoseconds += refusal.nanoseconds;
    } else {
      groups.push_back({refusal.producer_op->name, refusal.consumer_op->name, refusal.why, 1, refusal.nanoseconds});
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const RefusalGroup& a, const RefusalGroup& b) { return a.edges > b.edges; });
  return groups;
}

}  // namespace diptych::passes
