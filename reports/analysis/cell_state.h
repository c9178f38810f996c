#pragma once

#include "reports/analysis/verdict.h"
#include "reports/run/run.h"

namespace diptych::reports {

/// Reads from the raw part of a cell whether it is valid, and how quiet the machine was while blocks were timed.
///
/// Stolen time counts on the CPUs that the blocks ran on. It comes in ticks, and a block of a gate is as long as one
/// tick: the sum over a process's blocks has no bias, but a process of 200 ms whose blocks met two ticks may have lost
/// next to nothing. Two ticks are therefore subtracted before a share is computed, for each process and for all
/// together; the largest of these shares counts. For the load, the median process counts.
///
/// Older files have figures for the whole cell and all CPUs, including the start of other frameworks: an upper bound,
/// and judged as one.
CellState read_state(const Cell& cell, const Run& run);

}  // namespace diptych::reports
