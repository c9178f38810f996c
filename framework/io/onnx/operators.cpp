#include "framework/io/onnx/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unistd.h>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/lengths.h"
#include "framework/io/onnx/import.h"
#include "framework/io/onnx/program.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"

namespace diptych::onnx {

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> result;
    add_arithmetic(result);
    add_activations(result);
    add_reductions(result);
    add_shapes(result);
    add_indexing(result);
    add_networks(result);
    add_normalisations(result);
    add_resizing(result);
    add_attention(result);
    add_losses(result);
    add_control(result);
    add_quantised(result);
    add_pooling(result);
    add_recurrent(result);
    add_signal(result);
    add_sampling(result);
    add_detection(result);
    add_sequences(result);
    add_lists(result);
    add_training(result);
    add_random(result);
    add_bits(result);
    add_deformable(result);
    add_state_space(result);
    std::sort(result.begin(), result.end(),
              [](const Operator& a, const Operator& b) { return std::string_view(a.name) < b.name; });
    return result;
  }();
  return all;
}

const Operator* find_operator(std::string_view name) {
  const auto& all = operators();
  const auto found = std::lower_bound(all.begin(), all.end(), name, [](const Operator& op, std::string_view wanted) {
    return std::string_view(op.name) < wanted;
  });
  return found != all.end() && found->name == name ? &*found : nullptr;
}

NodeView::NodeView(const Node& node, std::int64_t opset, std::string what, Compile compile)
    : node_(node), opset_(opset), what_(std::move(what)), compile_(std::move(compile)) {}

bool NodeView::has_input(int index) const {
  return index < inputs() && !node_.inputs[static_cast<std::size_t>(index)].empty();
}
bool NodeView::wants_output(int index) const {
  return index < outputs() && !node_.outputs[static_cast<std::size_t>(index)].empty();
}

std::string NodeView::first_output() const {
  const auto named =
      std::find_if(node_.outputs.begin(), node_.outputs.end(), [](const std::string& name) { return !name.empty(); });
  return named != node_.outputs.end() ? *named : "";
}

template <class T>
const T* NodeView::find(const std::string& attribute, const char* kind) {
  read_.insert(attribute);
  const auto found = node_.attributes.find(attribute);
  if (found == node_.attributes.end()) {
    return nullptr;
  }
  if (const auto* unread = std::get_if<UnreadValue>(&found->second)) {
    refuse(fmt::format("its attribute {} is a {}", quote(attribute), unread->kind));
  }
  if (const auto* reference = std::get_if<AttributeReference>(&found->second)) {
    malformed(fmt::format("its attribute {} refers to the attribute {} of a function, but it is in none",
                          quote(attribute), quote(reference->name)));
  }
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    malformed(fmt::format("its attribute {} is no {}", quote(attribute), kind));
  }
  return value;
}

std::int64_t NodeView::integer(const std::string& attribute, std::int64_t otherwise) {
  const auto* value = find<std::int64_t>(attribute, "integer");
  return value != nullptr ? *value : otherwise;
}
double NodeView::real(const std::string& attribute, double otherwise) {
  const auto* value = find<double>(attribute, "float");
  return value != nullptr ? *value : otherwise;
}
std::string NodeView::text(const std::string& attribute, const std::string& otherwise) {
  const auto* value = find<std::string>(attribute, "string");
  return value != nullptr ? *value : otherwise;
}
std::optional<std::vector<std::int64_t>> NodeView::integers(const std::string& attribute) {
  const auto* value = find<std::vector<std::int64_t>>(attribute, "list of integers");
  return value != nullptr ? std::optional(*value) : std::nullopt;
}
std::optional<std::vector<double>> NodeView::reals(const std::string& attribute) {
  const auto* value = find<std::vector<double>>(attribute, "list of floats");
  return value != nullptr ? std::optional(*value) : std::nullopt;
}
std::optional<std::vector<std::string>> NodeView::strings(const std::string& attribute) {
  const auto* value = find<std::vector<std::string>>(attribute, "list of strings");
  return value != nullptr ? std::optional(*value) : std::nullopt;
}
Tensor NodeView::tensor(const std::string& attribute) {
  const auto* value = find<Tensor>(attribute, "tensor");
  return value != nullptr ? *value : Tensor();
}

std::shared_ptr<const GraphProgram> NodeView::body(const std::string& attribute) {
  const auto* graph = find<std::shared_ptr<const Graph>>(attribute, "graph");
  if (graph == nullptr) {
    malformed(fmt::format("it has no attribute {}", quote(attribute)));
  }
  auto program = compile_(**graph);
  captured_.insert(captured_.end(), program->captured.begin(), program->captured.end());
  return program;
}

void NodeView::refuse(const std::string& why) const { throw Unsupported(fmt::format("{}: {}", what_, why)); }
void NodeView::malformed(const std::string& why) const { throw Error(fmt::format("{}: {}", what_, why)); }

void NodeView::check_inputs(int least, int most) const {
  if (inputs() > most && opset_ > kNewestOpset) {
    refuse(fmt::format("its input {} isn't known in opset {}, which is newer than {}, the newest that is known", most,
                       opset_, kNewestOpset));
  }
  if (inputs() < least || inputs() > most) {
    malformed(fmt::format("it has {} inputs, not {}{}", inputs(), least,
                          most == least  ? ""
                          : most == kAny ? " or more"
                                         : fmt::format(" to {}", most)));
  }
  for (int i = 0; i < least; ++i) {
    if (!has_input(i)) {
      malformed(fmt::format("its input {} is missing", i));
    }
  }
}

void NodeView::check_all_read() const {
  for (const auto& [name, value] : node_.attributes) {
    if (!read_.contains(name)) {
      refuse(fmt::format("its attribute {} isn't known in opset {}{}", quote(name), opset_,
                         opset_ > kNewestOpset
                             ? fmt::format(", which is newer than {}, the newest that is known", kNewestOpset)
                             : ""));
    }
  }
}

std::vector<std::int64_t> host_integers(const Tensor& tensor) {
  if (!is_integral(tensor.dtype())) {
    throw Unsupported(fmt::format("{} where integers are asked for", to_string(tensor.type())));
  }
  return tensor.to_vector<std::int64_t>();
}

std::int64_t host_integer(const Tensor& tensor) {
  const std::vector<std::int64_t> values = host_integers(tensor);
  if (values.size() != 1) {
    throw ShapeError(fmt::format("{} where one integer is asked for", to_string(tensor.type())));
  }
  return values[0];
}

double host_real(const Tensor& tensor) {
  if (tensor.numel() != 1) {
    throw ShapeError(fmt::format("{} where one number is asked for", to_string(tensor.type())));
  }
  const double value = tensor.item();
  constexpr double kExact = 9007199254740992;  // 2^53: from here on doubles don't represent every integer
  if (size_of(tensor.dtype()) == 8 && is_integral(tensor.dtype()) && std::fabs(value) >= kExact) {
    throw Unsupported(fmt::format("{:.0f} is too large an integer here: it would be rounded", value));
  }
  return value;
}

int axis_of(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    throw ShapeError(fmt::format("axis {} of {} axes", axis, rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Axes axes_of(std::span<const std::int64_t> axes, int rank) {
  Axes result;
  for (const std::int64_t axis : axes) {
    const int place = axis_of(axis, rank);
    if (result.contains(place)) {
      throw ShapeError(fmt::format("axis {} is given twice", axis));
    }
    result.push_back(place);
  }
  return result;
}

double& memory_limit() {
  static double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void set_memory_limit(std::uint64_t bytes) { memory_limit() = static_cast<double>(bytes); }

void check_memory(const TensorType& type) {
  const double most = memory_limit() / 2;  // a tensor is never the only one
  if (!dense_bytes(type) || rough_bytes(type) > most) {
    throw ShapeError(fmt::format("{}; half of the machine's memory is {:.3g}", describe_size(type), most));
  }
}

Shape checked_shape(std::span<const std::int64_t> lengths, DType dtype) {
  const TensorType type{dtype, Shape(lengths)};
  check_memory(type);
  return type.shape;
}

Tensor integers(std::span<const std::int64_t> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

Tensor scalar_like(const Tensor& like, double value, Location where) { return full({}, value, like.dtype(), where); }

Tensor times(const Tensor& x, double factor, Location where) { return mul(x, scalar_like(x, factor, where), where); }
Tensor plus(const Tensor& x, double term, Location where) { return add(x, scalar_like(x, term, where), where); }

Translation unary(NodeView& node, std::function<Tensor(const Tensor&, Location)> function) {
  node.check_inputs(1, 1);
  return {[function = std::move(function)](Inputs in, Outputs out, Location where) {
    out[0].tensor = function(in[0].tensor, where);
  }};
}

Translation binary(NodeView& node, std::function<Tensor(const Tensor&, const Tensor&, Location)> function) {
  node.check_inputs(2, 2);
  return {[function = std::move(function)](Inputs in, Outputs out, Location where) {
    out[0].tensor = function(in[0].tensor, in[1].tensor, where);
  }};
}

}  // namespace diptych::onnx
