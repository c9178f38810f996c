#pragma once

#include "framework/core/variable.h"
#include "framework/io/safetensors.h"

namespace diptych::io {

/// Everything needed to resume a training run: its variables, identified by name, and the step.
///   save_checkpoint("run.safetensors", {.model = net.state(), .optimizer = adam.state(), .step = 100});
struct Checkpoint {
  Variables model = {};      ///< parameters and buffers; saved as "model.<name>"
  Variables optimizer = {};  ///< "optimizer.<name>"
  Variables random = {};     ///< the states of random generators, "random.<name>"
  std::int64_t step = 0;
};

/// Saved as safetensors, so that other libraries can read it; atomic like save_safetensors(). Throws Error if two
/// variables have the same name.
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Restores the variables of `checkpoint` to their saved values and returns the saved step. The file must have exactly
/// these variables, with their types. Otherwise FileError, which names the tensor and what to do, is thrown before any
/// variable has changed.
std::int64_t load_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
/// The same for a file that has already been read; `origin` names it in messages.
std::int64_t restore_checkpoint(const TensorFile& file, const std::string& origin, const Checkpoint& checkpoint);

}  // namespace diptych::io
