// SequenceProto and OptionalProto [onnx/onnx, onnx/onnx-data.proto], field by field: not every installation has their
// definitions.

#include <cstdint>
#include <google/protobuf/unknown_field_set.h>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/io/atomic_file.h"
#include "framework/io/onnx/model.h"
#include "framework/io/onnx/read.h"

namespace diptych::onnx {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr int kElementType = 2;
constexpr std::uint64_t kOfTensors = 1;
constexpr int kTensorValues = 3;  // of a sequence
constexpr int kTensorValue = 3;   // of an optional
constexpr int kSequenceValue = 5;

void parse(UnknownFieldSet& fields, const std::string& bytes, const std::filesystem::path& path, const char* what) {
  if (!fields.ParseFromString(bytes)) {
    throw FileError(fmt::format("{}: it is no {}, or is cut off; get it again", quote(path.string()), what));
  }
}

/// The messages in one of its fields.
std::vector<std::string> messages_in(const UnknownFieldSet& fields, int number) {
  std::vector<std::string> found;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      found.push_back(field.length_delimited());
    }
  }
  return found;
}

std::string bytes_in(const std::filesystem::path& path) {
  constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31U) - 1;  // protobuf's own limit
  const io::InputFile file(path);
  if (file.size() > kMostBytes) {
    throw FileError(
        fmt::format("{}: {} bytes are more than a protobuf message may have", quote(path.string()), file.size()));
  }
  std::string bytes(file.size(), '\0');
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

TensorList sequence_in(const std::string& bytes, const std::filesystem::path& path) {
  UnknownFieldSet fields;
  parse(fields, bytes, path, "SequenceProto");
  TensorList list;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == kElementType && field.type() == UnknownField::TYPE_VARINT && field.varint() > kOfTensors) {
      throw Unsupported(fmt::format("{}: a sequence of something else than tensors", quote(path.string())));
    }
  }
  for (const std::string& each : messages_in(fields, kTensorValues)) {
    list.tensors.push_back(parse_tensor(each, path));
  }
  return list;
}

}  // namespace

TensorList read_sequence(const std::filesystem::path& path) { return sequence_in(bytes_in(path), path); }

TensorList read_optional(const std::filesystem::path& path) {
  UnknownFieldSet fields;
  parse(fields, bytes_in(path), path, "OptionalProto");
  if (const auto tensors = messages_in(fields, kTensorValue); !tensors.empty()) {
    return {false, false, {parse_tensor(tensors.back(), path)}};
  }
  const auto sequences = messages_in(fields, kSequenceValue);
  return sequences.empty() ? TensorList{false, true, {}} : sequence_in(sequences.back(), path);
}

}  // namespace diptych::onnx
