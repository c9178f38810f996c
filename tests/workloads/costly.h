#pragma once

#include <algorithm>
#include <array>

#include "workloads/workload.h"

namespace diptych::workloads::testing {

/// Too slow for many calls, or for sanitizers: workloads_suites_test runs a step of each, without a "unit" label.
inline bool is_costly(const Workload& workload) {
  constexpr std::array kCostly = {"attention/sdpa-512",
                                  "attention/sdpa-1024",
                                  "attention/sdpa-2048",
                                  "attention/sdpa-causal-512",
                                  "attention/sdpa-causal-1024",
                                  "attention/sdpa-causal-2048",
                                  "vit/reference-b32",
                                  "vit/reference-train",
                                  "vit/tiny",
                                  "vit/b16",
                                  "conv/resnet18",
                                  "conv/block",
                                  "conv/block-train",
                                  "micro/norms",
                                  "micro/optimizer"};
  return std::find(kCostly.begin(), kCostly.end(), workload.name) != kCostly.end();
}

}  // namespace diptych::workloads::testing
