#pragma once

#include "framework/core/variable.h"
#include "framework/io/safetensors.h"

namespace diptych::io {

/// All that a training run has to go on from: its variables, found by name, and the step.
///   save_checkpoint("run.safetensors", {.model = net.state(), .optimizer = adam.state(), .step = 100});
struct Checkpoint {
  Variables model = {};      ///< parameters and buffers; saved as "model.<name>"
  Variables optimizer = {};  ///< "optimizer.<name>"
  Variables random = {};     ///< the states of random generators, "random.<name>"
  std::int64_t step = 0;
};

/// Saved as safetensors, so other libraries read it; atomic as save_safetensors(). Throws Error if two variables have
/// one name.
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Gives the variables of `checkpoint` their saved values and returns the saved step. The file must have exactly these
/// variables, with their types. Anything else throws FileError, which names the tensor and what to do, before any
/// variable has changed.
std::int64_t load_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
/// The same from a file that has been read; `origin` names it in messages.
std::int64_t restore_checkpoint(const TensorFile& file, const std::string& origin, const Checkpoint& checkpoint);

}  // namespace diptych::io
