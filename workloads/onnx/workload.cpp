#include "workloads/onnx/workload.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/attributes.h"
#include "framework/core/rng.h"
#include "framework/io/naming.h"
#include "framework/io/npy.h"
#include "framework/io/path_text.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"

namespace diptych::workloads {
namespace {

constexpr std::string_view kExtension = ".onnx";

/// The end of the path; npos if the name isn't a model's.
std::size_t end_of_path(std::string_view name) {
  const std::size_t colon = name.find(".onnx:");
  if (colon != std::string_view::npos) {
    return colon + kExtension.size();
  }
  return name.ends_with(kExtension) ? name.size() : std::string_view::npos;
}

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// The number of entries of the table whose rows `input` selects; 0 if no node does that.
std::int64_t entries_behind(const onnx::Graph& graph, const std::string& input) {
  std::int64_t least = 0;
  for (const onnx::Node& node : graph.nodes) {
    if (node.op != "Gather" || node.inputs.size() < 2 || node.inputs[1] != input) {
      continue;
    }
    const auto table = graph.initializers.find(node.inputs[0]);
    if (table == graph.initializers.end() || !table->second.tensor.defined() || table->second.tensor.rank() == 0) {
      continue;
    }
    const auto axis = node.attributes.find("axis");
    const auto* value = axis == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&axis->second);
    const Shape& shape = table->second.tensor.shape();
    const std::int64_t place = value == nullptr ? 0 : *value < 0 ? *value + shape.rank() : *value;
    if (place >= 0 && place < shape.rank()) {
      const std::int64_t entries = shape[static_cast<int>(place)];
      least = least == 0 ? entries : std::min(least, entries);
    }
  }
  return least;
}

/// Of an input with an element type.
Shape shape_of(const onnx::ValueInfo& info, const OnnxSpec& spec) {
  if (!info.has_shape) {
    throw Error(
        fmt::format("{} says no shape for its input {}: give inputs from files", quote(spec.path), quote(info.name)));
  }
  Shape shape;
  if (info.shape.size() > kMaxRank) {
    throw Error(fmt::format("{}: its input {} has {} axes; a tensor can have {}", quote(spec.path), quote(info.name),
                            info.shape.size(), kMaxRank));
  }
  for (std::size_t axis = 0; axis < info.shape.size(); ++axis) {
    if (const auto* length = std::get_if<std::int64_t>(&info.shape[axis])) {
      if (*length < 0) {
        throw Error(fmt::format("{}: axis {} of its input {} has length {}", quote(spec.path), axis, quote(info.name),
                                *length));
      }
      shape.push_back(*length);
      continue;
    }
    const std::string& name = std::get<std::string>(info.shape[axis]);
    const std::string key = name.empty() ? fmt::format("{}.{}", info.name, axis) : name;
    const auto given = spec.lengths.find(key);
    if (given == spec.lengths.end()) {
      throw Error(fmt::format(
          "{}: axis {} of its input {} is {}, without a length; say one behind the path, {}:{}=8 (`onnx run` also "
          "takes "
          "--dim {}=8)",
          quote(spec.path), axis, quote(info.name), name.empty() ? "dynamic" : quote(name), spec.path, key, key));
    }
    shape.push_back(given->second);
  }
  try {
    onnx::check_memory({is_floating(*info.dtype) ? *info.dtype : DType::int64, shape});  // integers are drawn as i64
  } catch (const ShapeError& error) {
    throw ShapeError(fmt::format("{}: its input {}: {}", quote(spec.path), quote(info.name), error.what()));
  }
  return shape;
}

void check_lengths_are_used(const onnx::Model& model, const OnnxSpec& spec) {
  std::vector<std::string> names;
  for (const onnx::ValueInfo& info : onnx::inputs_of(*model.graph)) {
    for (std::size_t axis = 0; axis < info.shape.size(); ++axis) {
      if (const auto* name = std::get_if<std::string>(&info.shape[axis])) {
        names.push_back(name->empty() ? fmt::format("{}.{}", info.name, axis) : *name);
      }
    }
  }
  for (const auto& [name, length] : spec.lengths) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(
          fmt::format("{} has no axis named {}{}", quote(spec.path), quote(name),
                      names.empty() ? ": all lengths are fixed" : fmt::format("; it has {}", fmt::join(names, ", "))));
    }
  }
}

class OnnxProgram final : public Program {
 public:
  explicit OnnxProgram(OnnxInstance instance) : instance_(std::move(instance)) {}
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return instance_.inputs; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return instance_.model.call(inputs); }

 private:
  OnnxInstance instance_;
};

/// Forward and backward.
class OnnxGradientProgram final : public Program {
 public:
  explicit OnnxGradientProgram(OnnxGradients gradients) : gradients_(std::move(gradients)) {}
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return gradients_.inputs; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return gradients_.function(inputs); }
  bool is_forward() const override { return false; }

 private:
  OnnxGradients gradients_;
};

/// An initializer with infinities or other numbers that stand for them, as of a causal mask: training leaves it alone.
bool is_mask(const onnx::Graph& graph, const std::string& name) {
  constexpr double kHides = 1e4;
  const auto found = graph.initializers.find(name);
  return found != graph.initializers.end() && found->second.tensor.numel() > 0 &&
         max(abs(cast(found->second.tensor, DType::float64))).item() >= kHides;
}

/// Of a model's outputs, computed once.
std::vector<Tensor> cotangents_of(onnx::ImportedModel& model, std::span<const Tensor> inputs, std::uint64_t seed) {
  constexpr std::uint64_t kCotangents = 0x636f74616e67656eULL;  // another stream than that of the inputs
  Rng rng(seed ^ kCotangents);
  std::vector<Tensor> cotangents;
  for (const Tensor& output : model.call(inputs)) {
    cotangents.push_back(is_floating(output.dtype()) ? cast(rng.normal(output.shape()), output.dtype()) : output);
  }
  return cotangents;
}

}  // namespace

bool is_onnx_name(std::string_view name) { return end_of_path(name) != std::string_view::npos; }

OnnxSpec parse_onnx_name(const std::string& name) {
  const std::size_t end = end_of_path(name);
  if (end == std::string_view::npos) {
    throw Error(fmt::format("{} is no .onnx file", quote(name)));
  }
  OnnxSpec spec;
  spec.path = io::path_of_text(name.substr(0, end)).string();
  if (end == name.size()) {
    return spec;
  }
  for (const std::string& part : split_at(std::string_view(name).substr(end + 1), ',')) {
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "inputs") {
      for (const std::string& input : split_at(value, '+')) {
        spec.inputs.push_back(io::path_of_text(input).string());
      }
      continue;
    }
    if (part == "gradients") {
      spec.gradients = true;
      continue;
    }
    std::int64_t length = 0;
    const auto [stopped, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    const bool is_length = error == std::errc() && stopped == value.data() + value.size() && length >= 0;
    if (key == "train" && !is_length) {  // an axis may be called so
      spec.train = optimizer_named(value);
      if (!spec.train) {
        throw Error(fmt::format("{} in {}: choose train=adam or train=sgd", quote(part), quote(name)));
      }
      continue;
    }
    if (key.empty() || !is_length) {
      throw Error(fmt::format("{} in {} is no AXIS=LENGTH, no inputs=FILE+FILE, not gradients and no train=OPTIMIZER",
                              quote(part), quote(name)));
    }
    spec.lengths[key] = length;
  }
  if (spec.gradients && spec.train) {
    throw Error(fmt::format("{}: a training step has its gradients in it: leave gradients out", quote(name)));
  }
  return spec;
}

std::string onnx_name(const OnnxSpec& spec) {
  std::vector<std::string> parts;
  for (const auto& [name, length] : spec.lengths) {
    parts.push_back(fmt::format("{}={}", name, length));
  }
  if (!spec.inputs.empty()) {
    parts.push_back(fmt::format("inputs={}", fmt::join(spec.inputs, "+")));
  }
  if (spec.gradients) {
    parts.emplace_back("gradients");
  }
  if (spec.train) {
    parts.push_back(fmt::format("train={}", name_of(*spec.train)));
  }
  return io::text_of_path(parts.empty() ? spec.path : fmt::format("{}:{}", spec.path, fmt::join(parts, ",")));
}

namespace {

/// What can't run is reported here, once. What there is to say of it besides, for its title.
std::string tried_out(const std::shared_ptr<const onnx::Model>& model, const OnnxSpec& spec) {
  if (spec.is_forward()) {
    OnnxInstance instance = make_onnx_instance(model, spec, 1);
    instance.model.prepare(instance.inputs);
    return "";
  }
  const std::size_t tensors = make_onnx_gradients(model, spec, 1).by.size();
  return spec.train ? fmt::format(": training of {} weights by {}", tensors, name_of(*spec.train))
                    : fmt::format(": gradients by {} tensors", tensors);
}

}  // namespace

const Workload& onnx_workload(const std::string& name) {
  static std::map<std::string, Workload> known;
  if (const auto found = known.find(name); found != known.end()) {
    return found->second;
  }
  const OnnxSpec spec = parse_onnx_name(name);
  auto model = std::make_shared<const onnx::Model>(onnx::read_model(spec.path));
  const std::string extra = io::naming(spec.path, [&] { return tried_out(model, spec); });
  Workload workload;
  workload.name = name;
  workload.suite = "onnx";
  workload.title = fmt::format(
      "{}, {} nodes{}{}", io::text_of_path(std::filesystem::path(spec.path).filename().string()),
      model->graph->nodes.size(), model->producer.empty() ? "" : fmt::format(", by {}", model->producer), extra);
  workload.unit = spec.train ? "training step" : spec.gradients ? "forward and backward pass" : "call";
  workload.make = [model, spec](std::uint64_t seed) -> std::unique_ptr<Program> {
    if (spec.train) {
      return training_program(make_onnx_gradients(model, spec, seed), *spec.train);
    }
    if (spec.gradients) {
      return std::make_unique<OnnxGradientProgram>(make_onnx_gradients(model, spec, seed));
    }
    return std::make_unique<OnnxProgram>(make_onnx_instance(model, spec, seed));
  };
  return known.emplace(name, std::move(workload)).first->second;
}

onnx::ImportOptions bind_shape_inputs(const onnx::Model& model, std::vector<Tensor>& inputs,
                                      const std::map<std::string, onnx::TensorList>& lists) {
  onnx::ImportOptions options;
  options.lists = lists;
  const std::vector<std::string> names = onnx::shape_inputs(model);
  std::vector<Tensor> rest;
  std::size_t next = 0;
  for (const onnx::ValueInfo& info : onnx::inputs_of(*model.graph)) {
    if (const auto list = lists.find(info.name); list != lists.end()) {
      for (std::size_t i = 0; i < list->second.tensors.size(); ++i) {
        rest.push_back(inputs[next++]);
      }
      continue;
    }
    if (next == inputs.size()) {
      break;
    }
    const Tensor& tensor = inputs[next++];
    if (std::find(names.begin(), names.end(), info.name) != names.end()) {
      options.bound[info.name] = tensor;
    } else {
      rest.push_back(tensor);
    }
  }
  rest.insert(rest.end(), inputs.begin() + static_cast<std::ptrdiff_t>(next), inputs.end());
  inputs = std::move(rest);
  return options;
}

OnnxInstance make_onnx_instance(std::shared_ptr<const onnx::Model> model, const OnnxSpec& spec, std::uint64_t seed) {
  check_lengths_are_used(*model, spec);
  std::vector<Tensor> inputs = onnx_inputs(*model, spec, seed);
  const onnx::ImportOptions options = bind_shape_inputs(*model, inputs);
  return {onnx::ImportedModel(std::move(model), options), std::move(inputs)};
}

OnnxGradients make_onnx_gradients(const std::shared_ptr<const onnx::Model>& model, const OnnxSpec& spec,
                                  std::uint64_t seed) {
  check_lengths_are_used(*model, spec);
  OnnxGradients made;
  made.inputs = onnx_inputs(*model, spec, seed);
  onnx::ImportOptions options = bind_shape_inputs(*model, made.inputs);
  made.model_inputs = made.inputs.size();
  GradientsOf of = gradients_of(*model);
  if (spec.train) {
    of.inputs.clear();
    std::erase_if(of.weights, [&](const std::string& name) { return is_mask(*model->graph, name); });
    if (of.weights.empty()) {
      throw Error(fmt::format("{} has no weights to train", quote(spec.path)));
    }
  }
  options.arguments = of.weights;
  const auto imported = std::make_shared<onnx::ImportedModel>(model, options);
  std::vector<std::size_t> places;
  const std::vector<onnx::ValueInfo>& inputs = imported->inputs();
  for (const std::string& name : of.inputs) {
    const auto found =
        std::find_if(inputs.begin(), inputs.end(), [&](const onnx::ValueInfo& input) { return input.name == name; });
    places.push_back(static_cast<std::size_t>(found - inputs.begin()));
    made.by.push_back(name);
  }
  for (const std::string& name : of.weights) {
    places.push_back(inputs.size() + places.size() - of.inputs.size());
    made.by.push_back(name);
  }
  made.inputs.insert(made.inputs.end(), imported->arguments().begin(), imported->arguments().end());
  made.cotangents = cotangents_of(*imported, made.inputs, seed);
  std::vector<std::size_t> outputs(made.cotangents.size());
  std::iota(outputs.begin(), outputs.end(), std::size_t{0});
  made.function =
      gradient_function(imported, made.inputs.size(), std::move(places), std::move(outputs), spec.train.has_value());
  made.inputs.insert(made.inputs.end(), made.cotangents.begin(), made.cotangents.end());
  return made;
}

Tensor read_tensor_file(const std::string& path) {
  if (path.ends_with(".npy")) {
    return io::load_npy(path);
  }
  if (path.ends_with(".pb")) {
    return onnx::read_tensor(path).tensor;
  }
  throw Error(fmt::format("{} is neither .pb (TensorProto) nor .npy", quote(path)));
}

std::vector<Tensor> onnx_inputs(const onnx::Model& model, const OnnxSpec& spec, std::uint64_t seed) {
  std::vector<Tensor> inputs;
  if (!spec.inputs.empty()) {
    if (spec.inputs.size() != onnx::inputs_of(*model.graph).size()) {
      throw Error(fmt::format("{} takes {} inputs, {} files are given", quote(spec.path),
                              onnx::inputs_of(*model.graph).size(), spec.inputs.size()));
    }
    for (const std::string& path : spec.inputs) {
      inputs.push_back(read_tensor_file(path));
    }
    return inputs;
  }
  Rng rng(seed);
  const std::vector<std::string> shape_inputs = onnx::shape_inputs(model);
  for (const onnx::ValueInfo& info : onnx::inputs_of(*model.graph)) {
    if (std::find(shape_inputs.begin(), shape_inputs.end(), info.name) != shape_inputs.end()) {
      throw Error(fmt::format("shapes in {} depend on its input {}: give the inputs from files", quote(spec.path),
                              quote(info.name)));
    }
    if (!info.foreign_type.empty() || !info.dtype) {
      throw onnx::Unsupported(fmt::format("input {} is a {}: the engine has none", quote(info.name),
                                          info.foreign_type.empty() ? "value of no type" : info.foreign_type));
    }
    const Shape shape = shape_of(info, spec);
    if (is_floating(*info.dtype)) {
      inputs.push_back(cast(rng.normal(shape), *info.dtype));
    } else {
      const std::int64_t entries = entries_behind(*model.graph, info.name);
      inputs.push_back(cast(rng.integers(shape, 0, entries > 0 ? entries : 2), *info.dtype));
    }
  }
  return inputs;
}

}  // namespace diptych::workloads
