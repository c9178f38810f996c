#pragma once

#include <span>
#include <vector>

#include "framework/runtime/lowering.h"

namespace diptych::runtime {

/// Lets what a concat joins be written where it lies in the result, so that there is nothing to copy:
///
///   a: f32[2,4] = exp(x)                          a is written to bytes 0 to 32 of c,
///   b: f32[3,4] = tanh(y)                   =>    b to bytes 32 to 80,
///   c: f32[5,4] = concat(a, b) {axis=0}           and c has no instruction
///
/// Whoever else reads a part reads it there. Arguments, states, constants, views of larger values and results of the
/// graph stay where they are: a concat of what is left copies them. Parts with gaps, those along an inner axis, are
/// written by kernels that can, those of elements, concat, embedding and index_select, if nothing else reads them. A
/// part that would have the whole result in memory so early that the peak rises is copied, too.
///
/// Wants the lifetimes of buffers, before any of them is reused, and leaves them out of date. True if it changed
/// anything.
bool place_parts(Lowered& lowered);

/// The concats of a graph that have no instruction, because what they join is written where it lies in their result.
/// `computed`: the values that instructions make.
std::vector<const graph::Node*> placed_concats(const graph::Graph& graph, std::span<const graph::ValueId> computed);

}  // namespace diptych::runtime
