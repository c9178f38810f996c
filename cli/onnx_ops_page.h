#pragma once

#include <string>

namespace diptych::onnx {
struct Operator;
}  // namespace diptych::onnx

namespace diptych::reports {

/// "from 7" or "7 to 9".
std::string onnx_opsets(const onnx::Operator& op);

/// docs/onnx-ops.md: the supported operators of ONNX, generated from their table.
std::string onnx_ops_page();

}  // namespace diptych::reports
