#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "framework/optim/optimizer.h"
#include "workloads/workload.h"

/// Whole training steps of a model: forward, backward, and an optimizer's update of its weights.
namespace diptych::workloads {

struct OnnxGradients;

/// With PyTorch's defaults but for the rate, kTrainingRate, and SGD's momentum, 0.9.
enum class OnnxOptimizer : std::uint8_t { adam, sgd };
/// So small that weights stay near to what they are over 100,000 steps; a step of Adam's still shows in a float.
inline constexpr double kTrainingRate = 1e-6;

const char* name_of(OnnxOptimizer optimizer);
/// Nothing for any other name.
std::optional<OnnxOptimizer> optimizer_named(std::string_view name);
std::unique_ptr<optim::Optimizer> make_optimizer(OnnxOptimizer optimizer, Variables weights);

/// As other frameworks are told (docs/arms.md): {"name":"sgd","lr":1e-6,"momentum":0.9}.
nlohmann::json described(OnnxOptimizer optimizer);
/// How far an optimizer's first step moves these weights, in the mean over all of their elements, by its formula and
/// rounded as they are.
double first_move(OnnxOptimizer optimizer, std::span<const Tensor> weights, std::span<const Tensor> gradients);

/// Its weights are the program's state; a step gives the outputs, and the gradients by these weights. `gradients`:
/// those of a spec with `train`.
std::unique_ptr<Program> training_program(OnnxGradients gradients, OnnxOptimizer optimizer);

}  // namespace diptych::workloads
