#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/io/onnx/model.h"

/// ONNX models as programs on the engine's public ops: they run eagerly, are captured, differentiated and profiled like
/// any other program.
namespace diptych::onnx {

struct ImportOptions {
  /// Inputs with the same value in every call, as constants. shape_inputs() lists those that need one.
  std::map<std::string, Tensor> bound;
  /// Initializers that each call passes anew, after the inputs: to differentiate with respect to them, or to train
  /// them. All others are constants, and values that depend only on constants and shapes are computed once, at the
  /// first call with these shapes.
  std::vector<std::string> arguments;
  /// What each input that is a sequence or an optional consists of; its tensors say how many a call passes for it.
  std::map<std::string, TensorList> lists;
};

class GraphProgram;
struct Value;

/// The memory limit for models in bytes: the machine's memory by default. A single tensor may have half of it, the
/// values alive at any time in a call three quarters.
void set_memory_limit(std::uint64_t bytes);
/// Throws ShapeError, with the size, for a tensor beyond it, or with a negative length.
void check_memory(const TensorType& type);

/// Not thread-safe: use one per thread.
class ImportedModel {
 public:
  /// Throws Unsupported, which names the nodes whose op, version or attributes can't be run and what is missing; Error
  /// for an invalid graph (a value that no node makes, made twice, or used before it is made).
  explicit ImportedModel(std::shared_ptr<const Model> model, const ImportOptions& options = {});
  ~ImportedModel();
  ImportedModel(ImportedModel&&) noexcept;
  ImportedModel& operator=(ImportedModel&&) noexcept;

  const Model& model() const { return *model_; }
  /// The inputs of a call: the graph's inputs that have no initializer and aren't bound, with one for each tensor of a
  /// sequence or an optional.
  const std::vector<ValueInfo>& inputs() const { return inputs_; }
  const std::vector<ValueInfo>& outputs() const { return model_->graph->outputs; }
  /// The file's values for the arguments of the options, in the same order.
  const std::vector<Tensor>& arguments() const { return arguments_; }

  /// `inputs`: those of inputs(), then the arguments. Throws ShapeError or DTypeError if they don't match the model,
  /// Unsupported for a node that the engine can't run on these types or whose shape depends on elements, in each case
  /// before anything runs. An output that is a sequence or an optional gives each of its tensors.
  std::vector<Tensor> call(std::span<const Tensor> inputs);
  /// Throws what a call would throw before running anything.
  void prepare(std::span<const Tensor> inputs) { plan_of(inputs); }
  /// Of each output, whether it depends on random numbers. They are those of the engine's generator, seeded by the
  /// node's attribute or its first output's name, and others in each call; no other implementation gives the same.
  std::vector<bool> drawn_outputs(std::span<const Tensor> inputs);
  /// The name of each; "list[0]", "list[1]", ... for those of a sequence.
  std::vector<std::string> output_names(std::span<const Tensor> inputs);

 private:
  struct Plan;
  /// What a call passes for one input of the graph.
  struct Slot {
    int number = 0;  ///< of the value
    bool is_sequence = false;
    bool is_absent = false;
    std::size_t tensors = 1;
  };
  void set_inputs(std::vector<Value>& values, std::span<const Tensor> tensors) const;
  std::unique_ptr<Plan> make_plan(const std::vector<TensorType>& types) const;
  Plan& plan_of(std::span<const Tensor> inputs);
  void check(std::span<const Tensor> inputs) const;

  std::shared_ptr<const Model> model_;
  std::vector<ValueInfo> inputs_;
  std::vector<Tensor> arguments_;
  std::vector<Slot> slots_;
  std::unique_ptr<GraphProgram> program_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

/// Throws what an import would throw, whatever its sequences and optionals consist of.
void check_supported(const Model& model);

/// The graph's inputs that have no initializer, in their order.
std::vector<ValueInfo> inputs_of(const Graph& graph);

/// The inputs whose elements determine shapes, axes, or anything else that has to be known before a graph is made: they
/// have to be bound. Most models have none.
std::vector<std::string> shape_inputs(const Model& model);

/// The initializers that training would move: floating-point ones with an axis, of whose elements no shape depends, and
/// which are no running statistics.
std::vector<std::string> weights(const Model& model);

}  // namespace diptych::onnx
