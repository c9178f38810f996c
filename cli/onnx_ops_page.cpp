#include "cli/onnx_ops_page.h"

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"

namespace diptych::reports {

std::string onnx_ops_page() {
  std::string page = fmt::format(
      "# ONNX operators\n\n"
      "{} operators of ONNX's own domain and of its preview of training are read, in these opsets. A node outside of "
      "them is refused before anything "
      "runs "
      "([onnx.md](onnx.md)); [onnx-conformance.md](onnx-conformance.md) has what ONNX's own cases give. This page is "
      "made from "
      "the table in the code: `diptych onnx ops --markdown > docs/onnx-ops.md`.\n\n"
      "| operator | opsets | limits |\n|---|---|---|\n",
      onnx::operators().size());
  for (const onnx::Operator& op : onnx::operators()) {
    page += fmt::format("| `{}` | {} to {} | {} |\n", op.name, op.first, op.last, op.limits);
  }
  return page;
}

}  // namespace diptych::reports
