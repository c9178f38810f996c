#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/onnx/import.h"
#include "workloads/onnx/gradients.h"
#include "workloads/onnx/training.h"
#include "workloads/workload.h"

/// The user's own model as a workload. Its name says all that a measuring process has to know:
///   model.onnx                          every axis of its inputs has a length
///   model.onnx:batch=8,seq=128          lengths of named axes
///   model.onnx:inputs=a.pb+b.npy        inputs from files; random ones otherwise
///   model.onnx:gradients                forward and backward: the gradients by its inputs and weights
///   model.onnx:train=adam               a whole training step, with an optimizer's update of its weights; or sgd
namespace diptych::workloads {

struct OnnxSpec {
  std::string path;
  std::map<std::string, std::int64_t> lengths;  ///< of named axes; "INPUT.AXIS" for an axis without a name
  std::vector<std::string> inputs;              ///< files; empty: random
  bool gradients = false;
  std::optional<OnnxOptimizer> train = std::nullopt;

  bool is_forward() const { return !gradients && !train; }
};

/// Whether the name refers to a model's file.
bool is_onnx_name(std::string_view name);
/// Throws Error for an invalid name.
OnnxSpec parse_onnx_name(const std::string& name);
std::string onnx_name(const OnnxSpec& spec);

/// The workload of that name, read once. Passes on what reading and importing throw; throws Error for an axis without a
/// length, and for inputs that don't fit.
const Workload& onnx_workload(const std::string& name);

/// An imported model with the inputs of its calls; inputs that shapes depend on are bound.
struct OnnxInstance {
  onnx::ImportedModel model;
  std::vector<Tensor> inputs;
};
/// Without gradients and training, whatever the spec says.
OnnxInstance make_onnx_instance(std::shared_ptr<const onnx::Model> model, const OnnxSpec& spec, std::uint64_t seed);

/// What is computed for a spec with gradients, or, by weights alone and with the outputs before them, until the update
/// of a training step.
struct OnnxGradients {
  std::vector<std::string> by;     ///< names of inputs, then of weights: the order of the results
  std::vector<Tensor> cotangents;  ///< of all outputs: normal, from the seed
  TensorFunction function;         ///< gradient_function()
  std::vector<Tensor> inputs;      ///< of the function: the model's, its weights, the cotangents
  std::size_t model_inputs = 0;
};
/// Throws Error if there is nothing to take gradients by, or to train.
OnnxGradients make_onnx_gradients(const std::shared_ptr<const onnx::Model>& model, const OnnxSpec& spec,
                                  std::uint64_t seed);

/// All inputs of a model: from the files, or random from the seed. Floating-point inputs are normal. Integers go up to
/// the length of the axis that they index, if the model shows it (Gather of an initializer); otherwise they are 0 or 1.
std::vector<Tensor> onnx_inputs(const onnx::Model& model, const OnnxSpec& spec, std::uint64_t seed);
/// Moves the inputs that shapes depend on from `inputs`, which has one for each of the model's, to the options of an
/// import.
onnx::ImportOptions bind_shape_inputs(const onnx::Model& model, std::vector<Tensor>& inputs,
                                      const std::map<std::string, onnx::TensorList>& lists = {});

/// A tensor from a .pb (TensorProto) or .npy file.
Tensor read_tensor_file(const std::string& path);

}  // namespace diptych::workloads
