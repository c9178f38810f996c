#pragma once

#include <optional>
#include <span>
#include <string>

#include "framework/transforms/jit.h"

/// The recompile ledger for people.
namespace diptych::graph {

/// A table with a line for each compilation: what caused it, at which call, what it cost, the calls that it has served,
/// and whether they have paid it back; then what to do about many of them, if they come from one argument.
/// `saved_seconds`: what a call of a graph saves against eager, if it is known.
std::string to_text(std::span<const Compilation> ledger, std::optional<double> saved_seconds = std::nullopt);

/// "argument 0 came with 10 lengths of axis 0 ...": how to compile less; empty if there is nothing to say.
std::string advice(std::span<const Compilation> ledger);

}  // namespace diptych::graph
