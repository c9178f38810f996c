// The only file that uses protobuf's classes for writing.

#include <onnx/onnx_pb.h>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/tensor_body.h"
#include "framework/io/atomic_file.h"
#include "framework/io/naming.h"
#include "framework/io/onnx/export.h"
#include "framework/ops/elementwise.h"

namespace diptych::onnx {
namespace {

namespace pb = ::onnx;

void fill(pb::TensorProto& proto, const std::string& name, const Tensor& tensor) {
  const Tensor dense = contiguous(tensor);
  proto.set_name(name);
  proto.set_data_type(static_cast<std::int32_t>(code_of(dense.dtype())));
  for (const std::int64_t length : dense.shape()) {
    proto.add_dims(length);
  }
  proto.set_raw_data(dense.body()->data, static_cast<std::size_t>(dense.numel()) * size_of(dense.dtype()));
}

void fill(pb::ValueInfoProto& proto, const ValueInfo& info) {
  proto.set_name(info.name);
  auto* type = proto.mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<std::int32_t>(code_of(info.dtype.value_or(DType::float32))));
  for (const auto& length : info.shape) {
    auto* dimension = type->mutable_shape()->add_dim();
    if (const auto* number = std::get_if<std::int64_t>(&length)) {
      dimension->set_dim_value(*number);
    } else {
      dimension->set_dim_param(std::get<std::string>(length));
    }
  }
  if (info.shape.empty()) {
    type->mutable_shape();  // a scalar, as opposed to unknown
  }
}

void fill(pb::GraphProto& proto, const Graph& graph);

void fill(pb::AttributeProto& proto, const std::string& name, const AttributeValue& value) {
  proto.set_name(name);
  struct Visitor {
    pb::AttributeProto& proto;
    void operator()(const UnreadValue& unread) const {
      throw Error(fmt::format("an attribute that is a {} can't be written", unread.kind));
    }
    void operator()(const AttributeReference& reference) const {
      throw Error(fmt::format("an attribute that refers to {} can't be written", quote(reference.name)));
    }
    void operator()(std::int64_t number) const {
      proto.set_type(pb::AttributeProto_AttributeType_INT);
      proto.set_i(number);
    }
    void operator()(double number) const {
      proto.set_type(pb::AttributeProto_AttributeType_FLOAT);
      proto.set_f(static_cast<float>(number));
    }
    void operator()(const std::string& text) const {
      proto.set_type(pb::AttributeProto_AttributeType_STRING);
      proto.set_s(text);
    }
    void operator()(const Tensor& tensor) const {
      proto.set_type(pb::AttributeProto_AttributeType_TENSOR);
      fill(*proto.mutable_t(), "", tensor);
    }
    void operator()(const std::shared_ptr<const Graph>& graph) const {
      proto.set_type(pb::AttributeProto_AttributeType_GRAPH);
      fill(*proto.mutable_g(), *graph);
    }
    void operator()(const std::vector<std::int64_t>& list) const {
      proto.set_type(pb::AttributeProto_AttributeType_INTS);
      proto.mutable_ints()->Add(list.begin(), list.end());
    }
    void operator()(const std::vector<double>& list) const {
      proto.set_type(pb::AttributeProto_AttributeType_FLOATS);
      for (const double number : list) {
        proto.add_floats(static_cast<float>(number));
      }
    }
    void operator()(const std::vector<std::string>& list) const {
      proto.set_type(pb::AttributeProto_AttributeType_STRINGS);
      for (const std::string& text : list) {
        proto.add_strings(text);
      }
    }
  };
  std::visit(Visitor{proto}, value);
}

void fill(pb::GraphProto& proto, const Graph& graph) {
  proto.set_name(graph.name.empty() ? "graph" : graph.name);
  for (const ValueInfo& input : graph.inputs) {
    fill(*proto.add_input(), input);
  }
  for (const ValueInfo& output : graph.outputs) {
    fill(*proto.add_output(), output);
  }
  for (const auto& [name, initializer] : graph.initializers) {
    fill(*proto.add_initializer(), name, initializer.tensor);
  }
  for (const Node& node : graph.nodes) {
    auto* to = proto.add_node();
    to->set_name(node.name);
    to->set_op_type(node.op);
    to->set_domain(node.domain);
    for (const std::string& input : node.inputs) {
      to->add_input(input);
    }
    for (const std::string& output : node.outputs) {
      to->add_output(output);
    }
    for (const auto& [name, value] : node.attributes) {
      fill(*to->add_attribute(), name, value);
    }
  }
}

template <class Proto>
void write(const Proto& proto, const std::filesystem::path& path) {
  std::string bytes;
  if (proto.ByteSizeLong() > (std::size_t{1} << 31U) - 1 || !proto.SerializeToString(&bytes)) {
    throw Unsupported(fmt::format("{}: a protobuf message has no room for more than 2 GiB", quote(path.string())));
  }
  io::AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace

void write_model(const Model& model, const std::filesystem::path& path) {
  pb::ModelProto proto;
  proto.set_ir_version(model.ir_version);
  proto.set_producer_name(model.producer);
  for (const auto& [domain, version] : model.opsets) {
    auto* opset = proto.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  }
  io::naming(path, [&] { fill(*proto.mutable_graph(), *model.graph); });
  write(proto, path);
}

void write_tensor(const NamedTensor& tensor, const std::filesystem::path& path) {
  pb::TensorProto proto;
  fill(proto, tensor.name, tensor.tensor);
  write(proto, path);
}

}  // namespace diptych::onnx
