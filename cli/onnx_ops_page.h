#pragma once

#include <string>

namespace diptych::reports {

/// docs/onnx-ops.md: the supported operators of ONNX, generated from their table.
std::string onnx_ops_page();

}  // namespace diptych::reports
