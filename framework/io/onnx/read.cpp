// The only file that uses protobuf's classes for reading.

#include "framework/io/onnx/read.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <exception>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>
#include <set>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/lengths.h"
#include "framework/core/tensor_body.h"
#include "framework/io/atomic_file.h"
#include "framework/io/onnx/functions.h"
#include "framework/io/onnx/model.h"

namespace diptych::onnx {
namespace {

namespace pb = ::onnx;

/// protobuf's own limit.
constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31U) - 1;

/// Reads one file; knows its origin, for messages, and where its external data may lie.
class Reader {
 public:
  Reader(std::string origin, std::filesystem::path folder) : origin_(std::move(origin)), folder_(std::move(folder)) {}

  Model model(const pb::ModelProto& proto) {
    if (!proto.has_graph()) {
      fail("it has no graph: it is no ONNX model, or is cut off");
    }
    Model model;
    model.path = origin_;
    model.ir_version = proto.ir_version();
    model.producer = proto.producer_name();
    if (!proto.producer_version().empty()) {
      model.producer += " " + proto.producer_version();
    }
    for (const auto& opset : proto.opset_import()) {
      const std::string domain = opset.domain() == "ai.onnx" ? "" : opset.domain();
      if (opset.version() >= 1) {
        model.opsets[domain] = std::max(model.opsets[domain], opset.version());
      } else if (domain.empty()) {
        fail(fmt::format("it is of opset {}, and the first is 1; the file is damaged: export it again",
                         opset.version()));
      }
    }
    if (model.opsets.empty()) {
      model.opsets[""] = 1;  // files of IR version 1 and 2 have none
    }
    std::map<std::string, Function> functions;
    for (const auto& each : proto.functions()) {
      Function read = function(each);
      const std::string name = read.domain + "::" + read.name;
      if (!functions.emplace(name, std::move(read)).second) {
        throw Unsupported(
            fmt::format("{}: it has two functions {}: overloads aren't told apart", quote(origin_), quote(name)));
      }
    }
    model.graph = std::make_shared<Graph>(inlined(graph(proto.graph()), functions));
    return model;
  }

  /// Undefined, with its name in `foreign_type`, for types that the engine doesn't have.
  Tensor tensor(const pb::TensorProto& proto, std::string& foreign_type) {
    const std::string what = quote(proto.name());
    if (!dtype_of_code(proto.data_type())) {
      foreign_type = name_of_type(proto.data_type());
      return {};
    }
    const DType dtype = *dtype_of_code(proto.data_type());
    if (proto.dims_size() > kMaxRank) {
      foreign_type = fmt::format("{} with {} axes", name_of(dtype), proto.dims_size());
      return {};
    }
    const Shape shape(std::span(proto.dims().data(), static_cast<std::size_t>(proto.dims_size())));
    const auto needed = dense_bytes({dtype, shape});
    if (!needed) {
      fail(fmt::format("tensor {} is none that memory holds: {}", what, describe_size({dtype, shape})));
    }
    const std::uint64_t bytes = *needed;
    if (proto.data_location() == pb::TensorProto_DataLocation_EXTERNAL) {
      return external(proto, dtype, shape, bytes);
    }
    if (proto.has_raw_data()) {
      if (proto.raw_data().size() != bytes) {
        fail(fmt::format("tensor {} of {} has {} bytes of data", what, to_string(TensorType{dtype, shape}),
                         proto.raw_data().size()));
      }
      Tensor result = Tensor::empty(dtype, shape);
      std::memcpy(result.body()->data, proto.raw_data().data(), bytes);
      normalise_bools(result);
      return result;
    }
    return typed(proto, dtype, shape, bytes / size_of(dtype));
  }

  Graph graph(const pb::GraphProto& proto) {
    Graph graph;
    graph.name = proto.name();
    for (const auto& initializer : proto.initializer()) {
      const auto [entry, is_new] = graph.initializers.try_emplace(initializer.name());
      if (!is_new) {
        fail(fmt::format("it has two initializers {}", quote(initializer.name())));
      }
      entry->second.tensor = tensor(initializer, entry->second.foreign_type);
    }
    for (const auto& sparse : proto.sparse_initializer()) {
      graph.initializers[sparse.values().name()].foreign_type = "sparse tensor";
    }
    for (const auto& input : proto.input()) {
      graph.inputs.push_back(value_info(input));
    }
    for (const auto& output : proto.output()) {
      graph.outputs.push_back(value_info(output));
    }
    graph.nodes.reserve(static_cast<std::size_t>(proto.node_size()));
    for (const auto& node_proto : proto.node()) {
      graph.nodes.push_back(node(node_proto));
    }
    return graph;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: {}", quote(origin_), what));
  }

  static void normalise_bools(Tensor& tensor) {
    if (tensor.dtype() == DType::boolean) {
      std::byte* const bytes = tensor.body()->bytes();
      for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        bytes[i] = bytes[i] == std::byte{0} ? std::byte{0} : std::byte{1};
      }
    }
  }

  template <class T, class Field>
  Tensor filled(const pb::TensorProto& proto, const Field& field, const Shape& shape, std::uint64_t count) {
    if (static_cast<std::uint64_t>(field.size()) != count) {
      fail(fmt::format("tensor {} of {} elements has {}", quote(proto.name()), count, field.size()));
    }
    Tensor result = Tensor::empty(dtype_of<T>, shape);
    T* const data = result.mutable_data<T>();
    for (int i = 0; i < field.size(); ++i) {
      if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
        data[i] = T::from_bits(static_cast<std::uint16_t>(field.Get(i)));
      } else if constexpr (std::is_same_v<T, bool>) {
        data[i] = field.Get(i) != 0;
      } else {
        data[i] = static_cast<T>(field.Get(i));
      }
    }
    return result;
  }

  /// Reads elements from the field of their type.
  Tensor typed(const pb::TensorProto& proto, DType dtype, const Shape& shape, std::uint64_t count) {
    switch (dtype) {
      case DType::float32:
        return filled<float>(proto, proto.float_data(), shape, count);
      case DType::float64:
        return filled<double>(proto, proto.double_data(), shape, count);
      case DType::int64:
        return filled<std::int64_t>(proto, proto.int64_data(), shape, count);
      case DType::int32:
        return filled<std::int32_t>(proto, proto.int32_data(), shape, count);
      case DType::uint8:
        return filled<std::uint8_t>(proto, proto.int32_data(), shape, count);
      case DType::int8:
        return filled<std::int8_t>(proto, proto.int32_data(), shape, count);
      case DType::uint16:
        return filled<std::uint16_t>(proto, proto.int32_data(), shape, count);
      case DType::int16:
        return filled<std::int16_t>(proto, proto.int32_data(), shape, count);
      case DType::uint32:
        return filled<std::uint32_t>(proto, proto.uint64_data(), shape, count);
      case DType::uint64:
        return filled<std::uint64_t>(proto, proto.uint64_data(), shape, count);
      case DType::float16:
        return filled<float16>(proto, proto.int32_data(), shape, count);
      case DType::boolean:
        return filled<bool>(proto, proto.int32_data(), shape, count);
      default:
        return filled<bfloat16>(proto, proto.int32_data(), shape, count);
    }
  }

  Tensor external(const pb::TensorProto& proto, DType dtype, const Shape& shape, std::uint64_t bytes) {
    const std::string what = quote(proto.name());
    std::string location;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> length;
    for (const auto& entry : proto.external_data()) {
      const auto number = [&] {
        std::uint64_t value = 0;
        const char* const end = entry.value().data() + entry.value().size();
        const auto [stopped, error] = std::from_chars(entry.value().data(), end, value);
        if (error != std::errc() || stopped != end) {
          fail(fmt::format("tensor {}: the {} of its external data is {}", what, entry.key(), quote(entry.value())));
        }
        return value;
      };
      if (entry.key() == "location") {
        location = entry.value();
      } else if (entry.key() == "offset") {
        offset = number();
      } else if (entry.key() == "length") {
        length = number();
      }
    }
    if (length.value_or(bytes) != bytes) {
      fail(fmt::format("tensor {} of {} has {} bytes of external data", what, to_string(TensorType{dtype, shape}),
                       *length));
    }
    const io::InputFile& file = external_file(location, what);
    if (offset > file.size() || bytes > file.size() - offset) {
      fail(fmt::format("tensor {} needs bytes {} to {} of {}, which has {}; the file is cut off, or another one", what,
                       offset, offset + bytes, quote(location), file.size()));
    }
    Tensor result = Tensor::empty(dtype, shape);
    file.read(offset, result.body()->data, bytes);
    normalise_bools(result);
    return result;
  }

  /// External data must lie in the model's folder: a model from elsewhere must not read other files of this machine.
  const io::InputFile& external_file(const std::string& location, const std::string& tensor) {
    if (const auto known = files_.find(location); known != files_.end()) {
      return known->second;
    }
    namespace fs = std::filesystem;
    const fs::path relative(location);
    const bool leaves =
        std::any_of(relative.begin(), relative.end(), [](const fs::path& part) { return part == ".."; });
    std::error_code no_root;
    std::error_code error;
    const fs::path root = fs::weakly_canonical(folder_.empty() ? fs::path(".") : folder_, no_root);
    const fs::path target = fs::weakly_canonical(root / relative, error);
    const auto [root_end, ignored] = std::mismatch(root.begin(), root.end(), target.begin(), target.end());
    if (location.empty() || relative.is_absolute() || leaves || no_root || error || root_end != root.end()) {
      fail(fmt::format("tensor {}: its external data {} is outside of the model's folder", tensor, quote(location)));
    }
    return files_.try_emplace(location, target).first->second;
  }

  ValueInfo value_info(const pb::ValueInfoProto& proto) {
    ValueInfo info;
    info.name = proto.name();
    if (!proto.has_type()) {
      return info;
    }
    const auto& type = proto.type();
    if (!type.has_tensor_type()) {
      info.foreign_type = type.has_sequence_type()   ? "sequence"
                          : type.has_optional_type() ? "optional"
                          : type.has_map_type()      ? "map"
                                                     : "value that is no tensor";
      return info;
    }
    info.dtype = dtype_of_code(type.tensor_type().elem_type());
    if (!info.dtype && type.tensor_type().elem_type() != pb::TensorProto_DataType_UNDEFINED) {
      info.foreign_type = name_of_type(type.tensor_type().elem_type()) + " tensor";
    }
    info.has_shape = type.tensor_type().has_shape();
    for (const auto& dimension : type.tensor_type().shape().dim()) {
      // Some exporters write -1 for a dynamic length.
      if (dimension.has_dim_value() && dimension.dim_value() >= 0) {
        info.shape.emplace_back(dimension.dim_value());
      } else {
        info.shape.emplace_back(dimension.dim_param());
      }
    }
    return info;
  }

  Node node(const pb::NodeProto& proto) {
    Node node;
    node.name = proto.name();
    node.op = proto.op_type();
    node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    for (const auto& attribute : proto.attribute()) {
      if (!node.attributes.emplace(attribute.name(), attribute_value(attribute)).second) {
        fail(fmt::format("node {} has two attributes {}", quote(node.name), quote(attribute.name())));
      }
    }
    return node;
  }

  Function function(const pb::FunctionProto& proto) {
    Function function;
    function.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    function.name = proto.name();
    function.inputs.assign(proto.input().begin(), proto.input().end());
    function.outputs.assign(proto.output().begin(), proto.output().end());
    for (const auto& opset : proto.opset_import()) {
      function.opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
    }
    for (const auto& node_proto : proto.node()) {
      function.nodes.push_back(node(node_proto));
    }
    for_each_default(proto, [&](const pb::AttributeProto& attribute) {
      function.defaults.emplace(attribute.name(), attribute_value(attribute));
    });
    return function;
  }

  /// Attributes with default values came with IR version 9: older protobuf definitions keep them as unknown fields.
  template <class Proto, class Fn>
  void for_each_default(const Proto& proto, const Fn& fn) {
    if constexpr (requires { proto.attribute_proto(); }) {
      for (const auto& attribute : proto.attribute_proto()) {
        fn(attribute);
      }
    } else {
      constexpr int kAttributeProto = 11;
      const auto& unknown = proto.unknown_fields();
      for (int i = 0; i < unknown.field_count(); ++i) {
        const auto& field = unknown.field(i);
        if (field.number() == kAttributeProto &&
            field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
          pb::AttributeProto attribute;
          if (!attribute.ParseFromString(field.length_delimited())) {
            fail(fmt::format("an attribute of the function {} is damaged", quote(proto.name())));
          }
          fn(attribute);
        }
      }
    }
  }

  AttributeValue attribute_value(const pb::AttributeProto& proto) {
    if (!proto.ref_attr_name().empty()) {
      return AttributeReference{proto.ref_attr_name()};
    }
    switch (proto.type()) {
      case pb::AttributeProto_AttributeType_FLOAT:
        return static_cast<double>(proto.f());
      case pb::AttributeProto_AttributeType_INT:
        return static_cast<std::int64_t>(proto.i());
      case pb::AttributeProto_AttributeType_STRING:
        return proto.s();
      case pb::AttributeProto_AttributeType_TENSOR: {
        std::string foreign;
        Tensor value = tensor(proto.t(), foreign);
        return value.defined() ? AttributeValue(value) : AttributeValue(UnreadValue{foreign + " tensor"});
      }
      case pb::AttributeProto_AttributeType_GRAPH:
        return std::shared_ptr<const Graph>(std::make_shared<Graph>(graph(proto.g())));
      case pb::AttributeProto_AttributeType_INTS:
        return std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
      case pb::AttributeProto_AttributeType_FLOATS:
        return std::vector<double>(proto.floats().begin(), proto.floats().end());
      case pb::AttributeProto_AttributeType_STRINGS:
        return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
      default:
        return UnreadValue{pb::AttributeProto_AttributeType_Name(proto.type())};
    }
  }

  std::string origin_;
  std::filesystem::path folder_;
  std::map<std::string, io::InputFile> files_;
};

/// Reads a file in pieces: protobuf copies a tensor's bytes out of them, so the whole file is never in memory twice.
class Pieces : public google::protobuf::io::CopyingInputStream {
 public:
  explicit Pieces(const std::filesystem::path& path) : file_(path) {
    if (file_.size() > kMostBytes) {
      throw FileError(
          fmt::format("{}: {} bytes are more than a protobuf message may have; save the weights as external data",
                      quote(path.string()), file_.size()));
    }
  }
  int Read(void* buffer, int size) override {
    const auto count = std::min(static_cast<std::uint64_t>(size), file_.size() - at_);
    try {
      file_.read(at_, buffer, count);
    } catch (const Error&) {
      problem_ = std::current_exception();  // protobuf can't handle exceptions
      return -1;
    }
    at_ += count;
    return static_cast<int>(count);
  }
  void rethrow() const {
    if (problem_) {
      std::rethrow_exception(problem_);
    }
  }

 private:
  io::InputFile file_;
  std::uint64_t at_ = 0;
  std::exception_ptr problem_;
};

[[noreturn]] void fail_to_parse(const std::string& origin, const char* what) {
  throw FileError(fmt::format("{}: it is no {}, or is cut off; get it again", quote(origin), what));
}

/// In an arena: where memory is refused to it in the middle of a message, protobuf forgets parts of others.
template <class Proto>
class Message {
 public:
  Proto& operator*() { return *proto_; }
  Proto* operator->() { return proto_; }

 private:
  google::protobuf::Arena arena_;
  Proto* proto_ = google::protobuf::Arena::CreateMessage<Proto>(&arena_);
};

template <class Proto>
void parse_file(Proto& proto, const std::filesystem::path& path, const char* what) {
  constexpr int kPiece = 1 << 18;  // fits a cache
  Pieces pieces(path);
  google::protobuf::io::CopyingInputStreamAdaptor stream(&pieces, kPiece);
  const bool is_whole = proto.ParseFromZeroCopyStream(&stream);
  pieces.rethrow();
  if (!is_whole) {
    fail_to_parse(path.string(), what);
  }
}

constexpr const char* kModel = "ONNX model";
constexpr const char* kTensor = "TensorProto";

}  // namespace

/// By DType.
constexpr std::array<std::int64_t, kDTypeCount> kCodes{
    pb::TensorProto_DataType_BOOL,    pb::TensorProto_DataType_UINT8,    pb::TensorProto_DataType_INT8,
    pb::TensorProto_DataType_UINT16,  pb::TensorProto_DataType_INT16,    pb::TensorProto_DataType_UINT32,
    pb::TensorProto_DataType_INT32,   pb::TensorProto_DataType_UINT64,   pb::TensorProto_DataType_INT64,
    pb::TensorProto_DataType_FLOAT16, pb::TensorProto_DataType_BFLOAT16, pb::TensorProto_DataType_FLOAT,
    pb::TensorProto_DataType_DOUBLE};

std::optional<DType> dtype_of_code(std::int64_t code) {
  const auto* const found = std::find(kCodes.begin(), kCodes.end(), code);
  return found != kCodes.end() ? std::optional(static_cast<DType>(found - kCodes.begin())) : std::nullopt;
}

std::int64_t code_of(DType dtype) { return kCodes[static_cast<std::size_t>(dtype)]; }

std::string name_of_type(std::int64_t data_type) {
  if (const auto dtype = dtype_of_code(data_type)) {
    return std::string(name_of(*dtype));
  }
  // By number: a protobuf definition that is older than a type has no name for it.
  constexpr std::array<std::pair<std::int32_t, const char*>, 13> kNames{
      {{pb::TensorProto_DataType_STRING, "string"},
       {pb::TensorProto_DataType_COMPLEX64, "complex64"},
       {pb::TensorProto_DataType_COMPLEX128, "complex128"},
       {17, "float8e4m3fn"},
       {18, "float8e4m3fnuz"},
       {19, "float8e5m2"},
       {20, "float8e5m2fnuz"},
       {21, "uint4"},
       {22, "int4"},
       {23, "float4e2m1"},
       {24, "float8e8m0"},
       {25, "uint2"},
       {26, "int2"}}};
  const auto found =
      std::find_if(kNames.begin(), kNames.end(), [&](const auto& each) { return each.first == data_type; });
  return found != kNames.end() ? found->second : fmt::format("type {}", data_type);
}

Model parse_model(std::string_view bytes, const std::string& origin, const std::filesystem::path& folder) {
  Message<pb::ModelProto> proto;
  if (bytes.size() > kMostBytes || !proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    fail_to_parse(origin, kModel);
  }
  return Reader(origin, folder).model(*proto);
}

Model read_model(const std::filesystem::path& path) {
  Message<pb::ModelProto> proto;
  parse_file(*proto, path, kModel);
  return Reader(path.string(), path.parent_path()).model(*proto);
}

namespace {

NamedTensor named_tensor(const pb::TensorProto& proto, const std::filesystem::path& path) {
  std::string foreign;
  Tensor tensor = Reader(path.string(), path.parent_path()).tensor(proto, foreign);
  if (!tensor.defined()) {
    throw Unsupported(fmt::format("{}: the engine has no {} tensors", quote(path.string()), foreign));
  }
  return {proto.name(), std::move(tensor)};
}

}  // namespace

NamedTensor read_tensor(const std::filesystem::path& path) {
  Message<pb::TensorProto> proto;
  parse_file(*proto, path, kTensor);
  return named_tensor(*proto, path);
}

Tensor parse_tensor(const std::string& bytes, const std::filesystem::path& path) {
  Message<pb::TensorProto> proto;
  if (!proto->ParseFromString(bytes)) {
    fail_to_parse(path.string(), kTensor);
  }
  return named_tensor(*proto, path).tensor;
}

}  // namespace diptych::onnx
