#pragma once

#include "framework/dispatch/call.h"

namespace diptych::kernels {

/// One loop for two ops of which the second reads what the first computes, at input `place`: it stays in registers. Its
/// inputs are those of the first, then the other ones of the second; it has the bits of both. Null if there is none:
/// there are loops for sums, products and other functions of one instruction, on f32, of the active instruction set.
LoopFn pair_loop(LoopFn first, LoopFn second, std::size_t place);

}  // namespace diptych::kernels
