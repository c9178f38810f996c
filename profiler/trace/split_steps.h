#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "profiler/trace/trace.h"

namespace diptych::profiler {

/// A trace of several programs that took turns, as one trace for each. Step i is the i-th outermost zone of category
/// user, and belongs to program `owner[i]`, with all zones and counters of every thread that begin within it. What lies
/// in no step, or behind the last owner, is left out. Times stay those of the whole trace.
std::vector<Trace> split_steps(const Trace& trace, std::span<const std::size_t> owner, std::size_t programs);

/// The steps of such a trace, in order: indices into its zones.
std::vector<std::size_t> steps_of(const Trace& trace);

}  // namespace diptych::profiler
