#pragma once

#include <string>

namespace diptych::reports {

/// docs/onnx-ops.md: the operators of ONNX that are read, made from their table.
std::string onnx_ops_page();

}  // namespace diptych::reports
