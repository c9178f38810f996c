#include "workloads/onnx/training.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/ops/elementwise.h"
#include "workloads/onnx/workload.h"

namespace diptych::workloads {
namespace {

const optim::AdamOptions kAdam{.lr = kTrainingRate};
const optim::SGDOptions kSgd{.lr = kTrainingRate, .momentum = 0.9};

class OnnxTrainingProgram final : public Program {
 public:
  OnnxTrainingProgram(OnnxGradients made, OnnxOptimizer optimizer) : function_(std::move(made.function)) {
    const auto weights = made.inputs.begin() + static_cast<std::ptrdiff_t>(made.model_inputs);
    for (std::size_t i = 0; i < made.by.size(); ++i) {
      weights_.emplace_back(weights[static_cast<std::ptrdiff_t>(i)], made.by[i]);
    }
    inputs_.assign(made.inputs.begin(), weights);
    model_inputs_ = inputs_.size();
    inputs_.insert(inputs_.end(), made.cotangents.begin(), made.cotangents.end());
    optimizer_ = make_optimizer(optimizer, weights_);
  }

  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    std::vector<Tensor> all(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(model_inputs_));
    for (const Variable& weight : weights_) {
      all.push_back(weight.value());
    }
    all.insert(all.end(), inputs.begin() + static_cast<std::ptrdiff_t>(model_inputs_), inputs.end());
    std::vector<Tensor> results = function_(all);
    optimizer_->step(std::span(results).last(weights_.size()));
    return results;
  }
  bool is_forward() const override { return false; }
  Variables state() const override {
    Variables all = weights_;
    all.insert(all.end(), optimizer_->state().begin(), optimizer_->state().end());
    return all;
  }

 private:
  TensorFunction function_;
  Variables weights_;
  std::vector<Tensor> inputs_;  ///< the model's, and cotangents
  std::size_t model_inputs_ = 0;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace

const char* name_of(OnnxOptimizer optimizer) { return optimizer == OnnxOptimizer::adam ? "adam" : "sgd"; }

std::optional<OnnxOptimizer> optimizer_named(std::string_view name) {
  for (const OnnxOptimizer optimizer : {OnnxOptimizer::adam, OnnxOptimizer::sgd}) {
    if (name == name_of(optimizer)) {
      return optimizer;
    }
  }
  return std::nullopt;
}

std::unique_ptr<optim::Optimizer> make_optimizer(OnnxOptimizer optimizer, Variables weights) {
  if (optimizer == OnnxOptimizer::adam) {
    return std::make_unique<optim::Adam>(std::move(weights), kAdam);
  }
  return std::make_unique<optim::SGD>(std::move(weights), kSgd);
}

nlohmann::json described(OnnxOptimizer optimizer) {
  if (optimizer == OnnxOptimizer::adam) {
    return {{"name", "adam"}, {"lr", kAdam.lr}, {"betas", kAdam.betas}, {"eps", kAdam.eps}};
  }
  return {{"name", "sgd"}, {"lr", kSgd.lr}, {"momentum", kSgd.momentum}};
}

double first_move(OnnxOptimizer optimizer, std::span<const Tensor> weights, std::span<const Tensor> gradients) {
  double sum = 0;
  double count = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::vector<double> before = weights[i].to_vector<double>();
    const std::vector<double> by = gradients[i].to_vector<double>();
    std::vector<double> after(before.size());
    for (std::size_t k = 0; k < before.size(); ++k) {
      // Without history both corrected moments of Adam are those of this one gradient.
      const double direction = optimizer == OnnxOptimizer::adam ? by[k] / (std::fabs(by[k]) + kAdam.eps) : by[k];
      after[k] = before[k] - kTrainingRate * direction;
    }
    after = cast(Tensor::from(after, weights[i].shape()), weights[i].dtype()).to_vector<double>();
    for (std::size_t k = 0; k < before.size(); ++k) {
      sum += std::fabs(after[k] - before[k]);
    }
    count += static_cast<double>(before.size());
  }
  return sum / std::max(count, 1.0);
}

std::unique_ptr<Program> training_program(OnnxGradients gradients, OnnxOptimizer optimizer) {
  return std::make_unique<OnnxTrainingProgram>(std::move(gradients), optimizer);
}

}  // namespace diptych::workloads
