#pragma once

#include <memory>

#include "workloads/arms/onnxruntime/library.h"
#include "workloads/arms/server/arm_server.h"

namespace diptych::ort {

/// A model as a session of ONNX Runtime on the CPU. Inputs and outputs are bound to memory that stays the same: a call
/// allocates, copies and looks up nothing of its own. Throws runtime_error with the library's reason.
arms::Loaded load_session(const Library& library, Environment& environment, const Level& level,
                          const arms::Load& wanted);

}  // namespace diptych::ort
