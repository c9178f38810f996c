// Losses.

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/loss.h"
#include "framework/ops/softmax.h"

namespace diptych::onnx {
namespace {

Reduction reduction_of(NodeView& node) {
  const std::string name = node.text("reduction", "mean");
  if (name != "none" && name != "mean" && name != "sum") {
    node.malformed("its reduction isn't none, mean or sum");
  }
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
}

std::optional<std::int64_t> ignored_class(NodeView& node) {
  const bool given = node.has("ignore_index");
  const std::int64_t index = node.integer("ignore_index", 0);
  return given ? std::optional(index) : std::nullopt;
}

Translation negative_log_likelihood(NodeView& node) {
  const Reduction reduction = reduction_of(node);
  const auto ignored = ignored_class(node);
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    out[0].tensor = nll_loss(in[0].tensor, in[1].tensor, {reduction, ignored, optional_input(in, 2)}, where);
  }};
}

Translation softmax_cross_entropy(NodeView& node) {
  const Reduction reduction = reduction_of(node);
  const auto ignored = ignored_class(node);
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    out[0].tensor = cross_entropy(in[0].tensor, in[1].tensor, {reduction, 0, ignored, optional_input(in, 2)}, where);
    if (out.size() > 1) {
      out[1].tensor = log_softmax(in[0].tensor, 1, where);
    }
  }};
}

}  // namespace

void add_losses(std::vector<Operator>& all) {
  all.push_back({"NegativeLogLikelihoodLoss", 12, kNewestOpset, negative_log_likelihood});
  all.push_back({"SoftmaxCrossEntropyLoss", 12, kNewestOpset, softmax_cross_entropy});
}

}  // namespace diptych::onnx
