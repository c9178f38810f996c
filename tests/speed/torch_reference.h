#pragma once

/// libtorch on the same work, behind an interface without its headers. One thread.
namespace diptych::torch_reference {

/// "1.13.1"
const char* version();
/// Seconds of `iterations` additions of two 4x4 float tensors; `tape`: one of them requires a gradient, else in
/// inference mode.
double add_seconds(bool tape, int iterations);

}  // namespace diptych::torch_reference
