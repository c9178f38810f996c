#include "cli/ops_page.h"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "cli/composed_functions.h"
#include "framework/dispatch/op.h"

namespace diptych::reports {
namespace {

/// The element types that the samples cover, as "f32, f64".
std::string types_of(const OpDef& op) {
  std::map<DType, bool> seen;
  for (const Sample& sample : op.samples()) {
    for (const SampleInput& input : sample.inputs) {
      seen[input.type.dtype] = true;
    }
  }
  std::string text;
  for (const auto& [dtype, present] : seen) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(dtype));
  }
  return text.empty() ? "-" : text;
}

}  // namespace

std::string ops_page() {
  std::map<std::string, std::vector<const OpDef*>> families;
  for (const OpDef* op : registry()) {
    families[std::string(op->family_name())].push_back(op);
  }
  std::string text =
      "# Ops\n\nMade from the registry by `diptych list --ops --markdown`; don't edit. An op's entry is its `OpDef`\n"
      "(`framework/dispatch/op.h`); [adding an op](adding-an-op.md) shows how one is made.\n";
  for (const auto& [family, ops] : families) {
    text += fmt::format(
        "\n## {}\n\n| op | what it does | inputs | attributes (defaults) | tested on | gradient |\n"
        "|---|---|---|---|---|---|\n",
        family);
    for (const OpDef* op : ops) {
      const std::string attributes = AttributeValue(op->attributes, nullptr).print();
      text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", op->name, op->doc, op->arity(),
                          attributes.empty() ? "" : fmt::format("`{}`", attributes), types_of(*op),
                          op->vjp != nullptr ? "yes" : "no");
    }
  }
  text +=
      "\n## Functions made of ops\n\nPublic functions of `framework/ops/` that are no op themselves. Graphs and "
      "profiles "
      "show the ops; gradients are theirs.\n\n| function | what it does | ops |\n|---|---|---|\n";
  for (const ComposedFunction& function : composed_functions()) {
    text += fmt::format("| `{}` | {} | {} |\n", function.name, function.doc, function.ops);
  }
  return text;
}

}  // namespace diptych::reports
