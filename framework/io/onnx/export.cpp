#include "framework/io/onnx/export.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/context.h"
#include "framework/ops/apply.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"

namespace diptych::onnx {
namespace {

using List = std::vector<std::int64_t>;

/// An op's attributes by name, as they print: no table here has to know the ops' own structs.
class Attributes {
 public:
  explicit Attributes(const diptych::AttributeValue& value) {
    const std::string text = value.print();
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i < text.size() && text[i] == '[') {
        ++depth;
      } else if (i < text.size() && text[i] == ']') {
        --depth;
      } else if (i == text.size() || (text[i] == ',' && depth == 0)) {
        add(std::string_view(text).substr(begin, i - begin));
        begin = i + 2;  // ", "
      }
    }
  }

  std::int64_t integer(const std::string& name) const { return static_cast<std::int64_t>(real(name)); }
  bool flag(const std::string& name) const { return values_.at(name) == "true"; }
  double real(const std::string& name) const { return std::stod(values_.at(name)); }
  List list(const std::string& name) const {
    List result;
    const std::string& text = values_.at(name);
    for (std::size_t i = 1; i < text.size();) {
      const std::size_t end = text.find_first_of(",]", i);
      if (end > i) {
        result.push_back(std::stoll(text.substr(i, end - i)));
      }
      i = end + 1;
    }
    return result;
  }

 private:
  void add(std::string_view entry) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos) {
      values_.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }

  std::map<std::string, std::string> values_;
};

class Exporter;

/// One of the engine's nodes, on its way out.
struct Call {
  Exporter& out;
  const graph::Node& node;
  Attributes attributes;
  std::vector<std::string> inputs;  ///< names
  std::vector<TensorType> types;    ///< of the inputs
  TensorType type;                  ///< of the output
  std::string result;               ///< its name
};

using Emit = void (*)(Call& call);

class Exporter {
 public:
  explicit Exporter(const graph::Graph& graph) : graph_(graph) {
    for (const graph::Node& node : graph.nodes) {
      const std::string_view op = node.op->name;
      opset_ = op == "gelu" || op == "gelu_tanh" ? kExportedOpsetWithGelu : opset_;
    }
  }

  std::int64_t opset() const { return opset_; }

  Model run() {
    if (!graph_.updates.empty()) {
      throw Unsupported("the program updates its state: export the model's forward pass alone");
    }
    result_.name = graph_.name;
    for (const graph::Input& input : graph_.inputs) {
      const std::string name = fresh(input.name.empty() ? "value" : input.name);
      names_[input.value] = name;
      if (input.kind == graph::InputKind::argument) {
        result_.inputs.push_back(info(name, graph_.types[input.value]));
      } else {
        const Tensor tensor = input.kind == graph::InputKind::state ? input.variable.value() : input.tensor;
        result_.initializers[name].tensor = contiguous(tensor);
      }
    }
    for (const auto& [value, tensor] : graph_.constants) {
      names_[value] = constant(tensor);
    }
    for (const graph::Node& node : graph_.nodes) {
      emit_node(node);
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      // An output may be an input, or stand twice: ONNX wants a name of its own for each.
      const std::string name = fresh(fmt::format("output_{}", i));
      emit("Identity", {names_.at(graph_.outputs[i])}, name);
      result_.outputs.push_back(info(name, graph_.types[graph_.outputs[i]]));
    }
    Model model;
    model.ir_version = opset_ == kExportedOpset ? 8 : 9;  // the first ones that may have these opsets
    model.producer = "diptych";
    model.opsets[""] = opset_;
    model.graph = std::make_shared<Graph>(std::move(result_));
    return model;
  }

  std::string fresh(const std::string& stem) {
    std::string name = stem;
    for (int i = 1; !taken_.insert(name).second; ++i) {
      name = fmt::format("{}_{}", stem, i);
    }
    return name;
  }

  std::string constant(const Tensor& tensor) {
    const std::string name = fresh("constant");
    result_.initializers[name].tensor = contiguous(tensor);
    return name;
  }
  std::string integers(const List& values) {
    return constant(Tensor::from(values, {static_cast<std::int64_t>(values.size())}));
  }
  std::string number(double value, DType dtype) { return constant(full({}, value, dtype)); }

  void emit(const std::string& op, std::vector<std::string> inputs, const std::string& output,
            std::map<std::string, AttributeValue> attributes = {}) {
    Node node;
    node.name = fmt::format("{}_{}", op, result_.nodes.size());
    node.op = op;
    node.inputs = std::move(inputs);
    node.outputs = {output};
    node.attributes = std::move(attributes);
    result_.nodes.push_back(std::move(node));
  }
  /// With a name made for its output.
  std::string emit(const std::string& op, std::vector<std::string> inputs,
                   std::map<std::string, AttributeValue> attributes = {}) {
    const std::string output = fresh("value");
    emit(op, std::move(inputs), output, std::move(attributes));
    return output;
  }

  [[noreturn]] static void refuse(const graph::Node& node, const std::string& why) {
    throw Unsupported(fmt::format("{} ({}) {}", node.op->name, to_string(node.provenance.where), why));
  }

 private:
  static ValueInfo info(const std::string& name, const TensorType& type) {
    ValueInfo result{name, type.dtype, "", true, {}};
    for (const std::int64_t length : type.shape) {
      result.shape.emplace_back(length);
    }
    return result;
  }

  void emit_node(const graph::Node& node);

  const graph::Graph& graph_;
  std::int64_t opset_ = kExportedOpset;
  Graph result_;
  std::map<graph::ValueId, std::string> names_;
  std::set<std::string> taken_;
};

// One op of ONNX's, by name.
template <const char* name>
void same(Call& call) {
  call.out.emit(name, call.inputs, call.result);
}

std::map<std::string, AttributeValue> axis_attribute(std::int64_t axis) { return {{"axis", AttributeValue(axis)}}; }

void reduce(Call& call, const std::string& op, const std::string& output) {
  const bool keepdims = call.attributes.flag("keepdims");
  List axes = call.attributes.list("axes");
  if (axes.empty()) {
    for (int i = 0; i < call.types[0].shape.rank(); ++i) {
      axes.push_back(i);
    }
  }
  std::map<std::string, AttributeValue> attributes{{"keepdims", AttributeValue(std::int64_t{keepdims})}};
  if (axes.empty()) {
    call.out.emit("Identity", call.inputs, output);
  } else if (op == "ReduceSum" || call.out.opset() >= 18) {
    call.out.emit(op, {call.inputs[0], call.out.integers(axes)}, output, attributes);
  } else {
    attributes["axes"] = AttributeValue(axes);
    call.out.emit(op, {call.inputs[0]}, output, attributes);
  }
}

std::string scalar(Call& call, double value) { return call.out.number(value, call.type.dtype); }

void gelu(Call& call) { call.out.emit("Gelu", call.inputs, call.result); }
void gelu_tanh(Call& call) {
  call.out.emit("Gelu", call.inputs, call.result, {{"approximate", AttributeValue(std::string("tanh"))}});
}

void softplus(Call& call) {
  const double beta = call.attributes.real("beta");
  if (beta == 1) {
    call.out.emit("Softplus", call.inputs, call.result);
    return;
  }
  const std::string scaled = call.out.emit("Mul", {call.inputs[0], scalar(call, beta)});
  call.out.emit("Div", {call.out.emit("Softplus", {scaled}), scalar(call, beta)}, call.result);
}

void clip(Call& call) {
  const auto bound = [&](const char* name) {
    const double value = call.attributes.real(name);
    return std::isinf(value) ? std::string() : scalar(call, value);
  };
  const std::string low = bound("low");
  call.out.emit("Clip", {call.inputs[0], low, bound("high")}, call.result);
}

void cast(Call& call) {
  call.out.emit("Cast", call.inputs, call.result, {{"to", AttributeValue(code_of(call.type.dtype))}});
}

/// x W + b
void linear(Call& call) {
  if (call.types[0].shape.rank() == 2) {
    call.out.emit("Gemm", call.inputs, call.result);
    return;
  }
  if (call.inputs.size() < 3) {
    call.out.emit("MatMul", call.inputs, call.result);
    return;
  }
  call.out.emit("Add", {call.out.emit("MatMul", {call.inputs[0], call.inputs[1]}), call.inputs[2]}, call.result);
}

List lengths(const Shape& shape) { return {shape.begin(), shape.end()}; }

void reshape(Call& call) {
  call.out.emit("Reshape", {call.inputs[0], call.out.integers(lengths(call.type.shape))}, call.result,
                {{"allowzero", AttributeValue(std::int64_t{call.type.shape.contains(0)})}});
}
void permute(Call& call) {
  call.out.emit("Transpose", call.inputs, call.result, {{"perm", AttributeValue(call.attributes.list("axes"))}});
}
void expand(Call& call) {
  call.out.emit("Expand", {call.inputs[0], call.out.integers(lengths(call.type.shape))}, call.result);
}

void slice(Call& call) {
  const std::int64_t step = call.attributes.integer("step");
  std::int64_t stop = call.attributes.integer("stop");
  if (step < 0 && stop < 0) {
    stop = std::numeric_limits<std::int64_t>::min() / 2;  // down to the first element
  }
  call.out.emit("Slice",
                {call.inputs[0], call.out.integers({call.attributes.integer("start")}), call.out.integers({stop}),
                 call.out.integers({call.attributes.integer("axis")}), call.out.integers({step})},
                call.result);
}

void flip(Call& call) {
  const List axes = call.attributes.list("axes");
  call.out.emit("Slice",
                {call.inputs[0], call.out.integers(List(axes.size(), -1)),
                 call.out.integers(List(axes.size(), std::numeric_limits<std::int64_t>::min() / 2)),
                 call.out.integers(axes), call.out.integers(List(axes.size(), -1))},
                call.result);
}

void concat(Call& call) {
  call.out.emit("Concat", call.inputs, call.result, axis_attribute(call.attributes.integer("axis")));
}

template <bool upper>
void triangle(Call& call) {
  call.out.emit("Trilu", {call.inputs[0], call.out.constant(Tensor::scalar(call.attributes.integer("diagonal")))},
                call.result, {{"upper", AttributeValue(std::int64_t{upper})}});
}

void pad(Call& call) {
  List widths = call.attributes.list("before");
  const List after = call.attributes.list("after");
  widths.insert(widths.end(), after.begin(), after.end());
  call.out.emit("Pad", {call.inputs[0], call.out.integers(widths), scalar(call, call.attributes.real("value"))},
                call.result);
}

template <const char* name>
void last_axis(Call& call) {
  call.out.emit(name, call.inputs, call.result, axis_attribute(-1));
}

/// softmax(scale x + mask), step by step.
void masked_softmax(Call& call) {
  const DType dtype = call.type.dtype;
  const double scale = call.attributes.real("scale");
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  std::string scores = scale == 1 ? call.inputs[0] : call.out.emit("Mul", {call.inputs[0], scalar(call, scale)});
  if (call.inputs.size() > 1) {
    scores = call.types[1].dtype == DType::boolean
                 ? call.out.emit("Where", {call.inputs[1], scores, scalar(call, kHidden)})
                 : call.out.emit("Add", {scores, call.inputs[1]});
  }
  if (call.attributes.flag("is_causal")) {
    const Shape& shape = call.types[0].shape;
    const Shape plane{shape[shape.rank() - 2], shape.back()};
    const Tensor above = triu(full(plane, 1), 1);
    const Tensor hidden = where(equal(above, full_like(above, 0)), full(plane, 0, dtype), full(plane, kHidden, dtype));
    scores = call.out.emit("Add", {scores, call.out.constant(hidden)});
  }
  call.out.emit("Softmax", {scores}, call.result, axis_attribute(-1));
}

void index_select(Call& call) {
  call.out.emit("Gather", call.inputs, call.result, axis_attribute(call.attributes.integer("axis")));
}
void embedding(Call& call) { call.out.emit("Gather", {call.inputs[1], call.inputs[0]}, call.result); }
void gather(Call& call) {
  call.out.emit("GatherElements", call.inputs, call.result, axis_attribute(call.attributes.integer("axis")));
}

void one_hot(Call& call) {
  const Tensor values = cast(Tensor::from({0.0F, 1.0F}, {2}), call.type.dtype);
  call.out.emit(
      "OneHot",
      {call.inputs[0], call.out.constant(Tensor::scalar(call.attributes.integer("depth"))), call.out.constant(values)},
      call.result);
}

void layer_norm(Call& call) {
  const std::int64_t axes = call.attributes.integer("axes");
  const int rank = call.types[0].shape.rank();
  Shape shape;
  for (int i = rank - static_cast<int>(axes); i < rank; ++i) {
    shape.push_back(call.types[0].shape[i]);
  }
  std::vector<std::string> inputs = call.inputs;
  if (inputs.size() < 2) {
    inputs.push_back(call.out.constant(full(shape, 1, call.type.dtype)));
  }
  call.out.emit("LayerNormalization", inputs, call.result,
                {{"axis", AttributeValue(-axes)}, {"epsilon", AttributeValue(call.attributes.real("eps"))}});
}

std::map<std::string, AttributeValue> window_attributes(const Attributes& a) {
  return {{"strides", AttributeValue(List{a.integer("stride_h"), a.integer("stride_w")})},
          {"dilations", AttributeValue(List{a.integer("dilation_h"), a.integer("dilation_w")})},
          {"pads", AttributeValue(List{a.integer("pad_top"), a.integer("pad_left"), a.integer("pad_bottom"),
                                       a.integer("pad_right")})}};
}

void conv2d(Call& call) {
  auto attributes = window_attributes(call.attributes);
  attributes["group"] = AttributeValue(call.attributes.integer("groups"));
  call.out.emit("Conv", call.inputs, call.result, attributes);
}

template <bool largest>
void pool(Call& call) {
  auto attributes = window_attributes(call.attributes);
  attributes["kernel_shape"] =
      AttributeValue(List{call.attributes.integer("kernel_h"), call.attributes.integer("kernel_w")});
  attributes["ceil_mode"] = AttributeValue(std::int64_t{call.attributes.flag("ceil_mode")});
  if (!largest) {
    attributes.erase("dilations");
    attributes["count_include_pad"] = AttributeValue(std::int64_t{call.attributes.flag("count_include_pad")});
  }
  call.out.emit(largest ? "MaxPool" : "AveragePool", call.inputs, call.result, attributes);
}

/// To one place, or where all windows have one size.
template <bool largest>
void adaptive_pool(Call& call) {
  const Shape& from = call.types[0].shape;
  const Shape& to = call.type.shape;
  if (to[2] == 1 && to[3] == 1) {
    call.out.emit(largest ? "GlobalMaxPool" : "GlobalAveragePool", call.inputs, call.result);
    return;
  }
  if (from[2] % to[2] != 0 || from[3] % to[3] != 0) {
    Exporter::refuse(call.node, "has windows of different sizes: ONNX has no such pooling");
  }
  const List window{from[2] / to[2], from[3] / to[3]};
  call.out.emit(largest ? "MaxPool" : "AveragePool", call.inputs, call.result,
                {{"kernel_shape", AttributeValue(window)}, {"strides", AttributeValue(window)}});
}

/// `op` on one input, twice over: f(g(x)).
void sqrt_reciprocal(Call& call) { call.out.emit("Reciprocal", {call.out.emit("Sqrt", call.inputs)}, call.result); }

template <const char* name>
void reduced(Call& call) {
  reduce(call, name, call.result);
}
/// Sums of integers are i64 in the engine.
void summed(Call& call) {
  const DType from = call.types[0].dtype;
  if (from != call.type.dtype) {
    call.inputs[0] = call.out.emit("Cast", call.inputs, {{"to", AttributeValue(code_of(call.type.dtype))}});
  }
  reduce(call, "ReduceSum", call.result);
}

template <const char* name>
void export_position(Call& call) {
  call.out.emit(name, call.inputs, call.result,
                {{"axis", AttributeValue(call.attributes.integer("axis"))},
                 {"keepdims", AttributeValue(std::int64_t{call.attributes.flag("keepdims")})}});
}

void cumsum(Call& call) {
  call.out.emit("CumSum", {call.inputs[0], call.out.constant(Tensor::scalar(call.attributes.integer("axis")))},
                call.result,
                {{"exclusive", AttributeValue(std::int64_t{call.attributes.flag("exclusive")})},
                 {"reverse", AttributeValue(std::int64_t{call.attributes.flag("reverse")})}});
}

// Names as template arguments need linkage.
#define DIPTYCH_ONNX_NAME(name) constexpr char k##name[] = #name
DIPTYCH_ONNX_NAME(Abs);
DIPTYCH_ONNX_NAME(Add);
DIPTYCH_ONNX_NAME(And);
DIPTYCH_ONNX_NAME(ArgMax);
DIPTYCH_ONNX_NAME(ArgMin);
DIPTYCH_ONNX_NAME(Ceil);
DIPTYCH_ONNX_NAME(Cos);
DIPTYCH_ONNX_NAME(Div);
DIPTYCH_ONNX_NAME(Equal);
DIPTYCH_ONNX_NAME(Erf);
DIPTYCH_ONNX_NAME(Exp);
DIPTYCH_ONNX_NAME(Floor);
DIPTYCH_ONNX_NAME(Greater);
DIPTYCH_ONNX_NAME(GreaterOrEqual);
DIPTYCH_ONNX_NAME(HardSwish);
DIPTYCH_ONNX_NAME(Identity);
DIPTYCH_ONNX_NAME(IsInf);
DIPTYCH_ONNX_NAME(IsNaN);
DIPTYCH_ONNX_NAME(Less);
DIPTYCH_ONNX_NAME(LessOrEqual);
DIPTYCH_ONNX_NAME(Log);
DIPTYCH_ONNX_NAME(LogSoftmax);
DIPTYCH_ONNX_NAME(MatMul);
DIPTYCH_ONNX_NAME(Max);
DIPTYCH_ONNX_NAME(Min);
DIPTYCH_ONNX_NAME(Mul);
DIPTYCH_ONNX_NAME(Neg);
DIPTYCH_ONNX_NAME(Not);
DIPTYCH_ONNX_NAME(Or);
DIPTYCH_ONNX_NAME(Pow);
DIPTYCH_ONNX_NAME(Reciprocal);
DIPTYCH_ONNX_NAME(ReduceLogSumExp);
DIPTYCH_ONNX_NAME(ReduceMax);
DIPTYCH_ONNX_NAME(ReduceMin);
DIPTYCH_ONNX_NAME(ReduceProd);
DIPTYCH_ONNX_NAME(Relu);
DIPTYCH_ONNX_NAME(Round);
DIPTYCH_ONNX_NAME(Sigmoid);
DIPTYCH_ONNX_NAME(Sign);
DIPTYCH_ONNX_NAME(Sin);
DIPTYCH_ONNX_NAME(Softmax);
DIPTYCH_ONNX_NAME(Sqrt);
DIPTYCH_ONNX_NAME(Sub);
DIPTYCH_ONNX_NAME(Tanh);
DIPTYCH_ONNX_NAME(Where);
DIPTYCH_ONNX_NAME(Xor);
#undef DIPTYCH_ONNX_NAME

const std::map<std::string_view, Emit>& table() {
  static const std::map<std::string_view, Emit> all{
      {"abs", same<kAbs>},
      {"adaptive_avg_pool2d", adaptive_pool<false>},
      {"adaptive_max_pool2d", adaptive_pool<true>},
      {"add", same<kAdd>},
      {"argmax", export_position<kArgMax>},
      {"argmin", export_position<kArgMin>},
      {"avg_pool2d", pool<false>},
      {"cast", cast},
      {"ceil", same<kCeil>},
      {"clip", clip},
      {"concat", concat},
      {"conv2d", conv2d},
      {"copy", same<kIdentity>},
      {"cos", same<kCos>},
      {"cumsum", cumsum},
      {"div", same<kDiv>},
      {"elu",
       [](Call& call) {
         call.out.emit("Elu", call.inputs, call.result, {{"alpha", AttributeValue(call.attributes.real("alpha"))}});
       }},
      {"embedding", embedding},
      {"equal", same<kEqual>},
      {"erf", same<kErf>},
      {"exp", same<kExp>},
      {"expand", expand},
      {"expm1",
       [](Call& call) {
         call.out.emit("Sub", {call.out.emit("Exp", call.inputs), scalar(call, 1)}, call.result);
       }},
      {"flip", flip},
      {"floor", same<kFloor>},
      {"gather", gather},
      {"gelu", gelu},
      {"gelu_tanh", gelu_tanh},
      {"greater", same<kGreater>},
      {"greater_equal", same<kGreaterOrEqual>},
      {"hard_sigmoid",
       [](Call& call) {
         call.out.emit("HardSigmoid", call.inputs, call.result, {{"alpha", AttributeValue(1.0 / 6)}});
       }},
      {"hard_swish", same<kHardSwish>},
      {"index_select", index_select},
      {"isinf", same<kIsInf>},
      {"isnan", same<kIsNaN>},
      {"layer_norm", layer_norm},
      {"leaky_relu",
       [](Call& call) {
         call.out.emit("LeakyRelu", call.inputs, call.result,
                       {{"alpha", AttributeValue(call.attributes.real("slope"))}});
       }},
      {"less", same<kLess>},
      {"less_equal", same<kLessOrEqual>},
      {"linear", linear},
      {"log", same<kLog>},
      {"log1p",
       [](Call& call) {
         call.out.emit("Log", {call.out.emit("Add", {call.inputs[0], scalar(call, 1)})}, call.result);
       }},
      {"log_softmax", last_axis<kLogSoftmax>},
      {"logical_and", same<kAnd>},
      {"logical_not", same<kNot>},
      {"logical_or", same<kOr>},
      {"logical_xor", same<kXor>},
      {"logsumexp", reduced<kReduceLogSumExp>},
      {"masked_softmax", masked_softmax},
      {"matmul", same<kMatMul>},
      {"max", reduced<kReduceMax>},
      {"max_pool2d", pool<true>},
      {"maximum", same<kMax>},
      {"min", reduced<kReduceMin>},
      {"minimum", same<kMin>},
      {"mul", same<kMul>},
      {"neg", same<kNeg>},
      {"not_equal", [](Call& call) { call.out.emit("Not", {call.out.emit("Equal", call.inputs)}, call.result); }},
      {"one_hot", one_hot},
      {"pad", pad},
      {"permute", permute},
      {"pow", same<kPow>},
      {"prod", reduced<kReduceProd>},
      {"reciprocal", same<kReciprocal>},
      {"relu", same<kRelu>},
      {"reshape", reshape},
      {"round", same<kRound>},
      {"rsqrt", sqrt_reciprocal},
      {"sigmoid", same<kSigmoid>},
      {"sign", same<kSign>},
      {"silu",
       [](Call& call) {
         call.out.emit("Mul", {call.inputs[0], call.out.emit("Sigmoid", call.inputs)}, call.result);
       }},
      {"sin", same<kSin>},
      {"slice", slice},
      {"softmax", last_axis<kSoftmax>},
      {"softplus", softplus},
      {"sqrt", same<kSqrt>},
      {"square",
       [](Call& call) {
         call.out.emit("Mul", {call.inputs[0], call.inputs[0]}, call.result);
       }},
      {"stop_gradient", same<kIdentity>},
      {"sub", same<kSub>},
      {"sum", summed},
      {"tanh", same<kTanh>},
      {"tril", triangle<false>},
      {"triu", triangle<true>},
      {"where", same<kWhere>},
  };
  return all;
}

void Exporter::emit_node(const graph::Node& node) {
  const TensorType& type = graph_.types[node.output];
  if (node.inputs.empty() && !node.is_control() && !node.op->effect) {
    names_[node.output] = constant(apply_eager(*node.op, {}, node.attributes.get(), node.provenance.where));
    return;
  }
  const auto found = table().find(node.op->name);
  if (node.is_control() || found == table().end()) {
    refuse(node, "has no ONNX form here");
  }
  Call call{*this, node, Attributes(node.attributes), {}, {}, type, fresh("value")};
  for (const graph::ValueId input : node.inputs) {
    call.inputs.push_back(names_.at(input));
    call.types.push_back(graph_.types[input]);
  }
  names_[node.output] = call.result;
  found->second(call);
}

}  // namespace

Model export_graph(const graph::Graph& graph) { return Exporter(graph).run(); }

}  // namespace diptych::onnx
