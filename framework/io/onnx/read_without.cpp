// Replaces read.cpp if ONNX's protobuf classes aren't installed.

#include "framework/io/onnx/export.h"

namespace diptych::onnx {
namespace {

[[noreturn]] void refuse() {
  throw Error(
      "this build reads no ONNX files: it was built without ONNX; install libonnx-dev and libprotobuf-dev "
      "(scripts/setup does), and build again");
}

}  // namespace

std::optional<DType> dtype_of_code(std::int64_t /*code*/) { return std::nullopt; }
std::int64_t code_of(DType /*dtype*/) { return 0; }
std::string name_of_type(std::int64_t code) { return "type " + std::to_string(code); }
Model parse_model(std::string_view /*bytes*/, const std::string& /*origin*/, const std::filesystem::path& /*folder*/) {
  refuse();
}
Model read_model(const std::filesystem::path& /*path*/) { refuse(); }
NamedTensor read_tensor(const std::filesystem::path& /*path*/) { refuse(); }
TensorList read_sequence(const std::filesystem::path& /*path*/) { refuse(); }
TensorList read_optional(const std::filesystem::path& /*path*/) { refuse(); }
void write_model(const Model& /*model*/, const std::filesystem::path& /*path*/) { refuse(); }
void write_tensor(const NamedTensor& /*tensor*/, const std::filesystem::path& /*path*/) { refuse(); }

}  // namespace diptych::onnx
