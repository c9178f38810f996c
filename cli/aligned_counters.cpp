// What the ops of each arm of an aligned profile count: instructions, cache misses, page faults.

#include <map>
#include <utility>

#include "cli/aligned_profile.h"
#include "framework/core/parallel.h"
#include "workloads/harness/probes/op_counters.h"

namespace diptych::cli {

reports::Capability AlignedTraces::count_events(int calls) {
  const std::vector<std::string> events = {"instructions",  "cycles",      "cache-misses",
                                           "branch-misses", "page-faults", "context-switches"};
  const UseThreads use(1);  // counters are a thread's
  reports::Capability capability;
  for (std::size_t arm = 0; arm < instances_.size(); ++arm) {
    const auto call = [&](int step) {
      instances_[arm]->call(step);
      instances_[arm]->finish();
    };
    call(0);
    const workloads::OpCounts counted = workloads::count_ops(call, calls, events);
    capability = {counted.events, counted.missing, counted.reason};
    profile_.counters = counted.events;
    std::map<std::pair<SourceOps, std::string>, std::vector<double>> sums;
    for (const std::vector<workloads::OpCounts::Op>& ops : counted.calls) {
      std::vector<AppliedOp> applied;
      for (const workloads::OpCounts::Op& op : ops) {
        applied.push_back({op.name, op.source_op});
      }
      const std::vector<SourceOps> sources = source_ops_of_call(arm, applied);
      for (std::size_t i = 0; i < ops.size(); ++i) {
        std::vector<double>& sum = sums[{sources[i], ops[i].name}];
        sum.resize(counted.events.size());
        for (std::size_t k = 0; k < sum.size(); ++k) {
          sum[k] += ops[i].counts[k] / calls;
        }
      }
    }
    for (reports::KernelTime& kernel : profile_.arms[arm].kernels) {
      if (const auto found = sums.find({kernel.source_ops, kernel.name}); found != sums.end()) {
        kernel.counts = found->second;
      }
    }
  }
  return capability;
}

}  // namespace diptych::cli
