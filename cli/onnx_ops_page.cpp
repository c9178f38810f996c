#include "cli/onnx_ops_page.h"

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"

namespace diptych::reports {

std::string onnx_opsets(const onnx::Operator& op) {
  return op.last == onnx::kNewestOpset ? fmt::format("from {}", op.first) : fmt::format("{} to {}", op.first, op.last);
}

std::string onnx_ops_page() {
  std::string page = fmt::format(
      "# ONNX operators\n\n"
      "{} operators of ONNX's own domain and of its preview of training are read, in these opsets and, where no last "
      "one is given, in all later ones: {} is the newest whose changes are known, and what a newer one adds to an "
      "operator is refused by its name. A node outside of them is refused before anything runs "
      "([onnx.md](onnx.md)); [onnx-conformance.md](onnx-conformance.md) has what ONNX's own cases give. This page is "
      "made from "
      "the table in the code: `diptych onnx ops --markdown > docs/onnx-ops.md`.\n\n"
      "| operator | opsets | limits |\n|---|---|---|\n",
      onnx::operators().size(), onnx::kNewestOpset);
  for (const onnx::Operator& op : onnx::operators()) {
    page += fmt::format("| `{}` | {} | {} |\n", op.name, onnx_opsets(op), op.limits);
  }
  return page;
}

}  // namespace diptych::reports
