#pragma once

#include <cstdint>

#include "workloads/harness/cell/injection.h"

namespace diptych::workloads {

/// What all cells of a measuring process have in common.
struct CellSettings {
  std::uint64_t seed = 1;          ///< of the inputs and the model: the same in every process
  std::uint64_t process_seed = 1;  ///< of the order of the arms in each round
  std::uint64_t layout_seed = 1;   ///< of the heap layout
  int rounds = 1;                  ///< 0: check and count, time nothing
  /// A block (the timed unit of one arm in one round) lasts about this long, or one call if that is longer.
  double block_seconds = 0.02;
  Injection injection = {};
  bool veto_losses = false;  ///< leave out fused kernels that lose against what they replace
  int threads = 1;           ///< of arms that are `on_threads`, or of all if there is none
};

}  // namespace diptych::workloads
