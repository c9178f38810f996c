// Files: what is written comes back, what is damaged or hostile is refused.

#include <fstream>
#include <onnx/onnx_pb.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/npy.h"
#include "framework/io/onnx/export.h"
#include "framework/io/onnx/import.h"
#include "tests/io/folder.h"
#include "tests/onnx/builder.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Builder;
using diptych::testing::bytes_of;
using diptych::testing::Folder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Fn>
std::string file_error(const Fn& fn) {
  try {
    fn();
  } catch (const FileError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no FileError";
  return "";
}

Builder small() {
  return Builder()
      .input("x", DType::float32, {2, "n"})
      .constant("scale", Tensor::from({2.0F}, {1}))
      .constant("shift", Tensor::from({std::int64_t{1}, std::int64_t{-1}}, {2}))
      .node("Mul", {"x", "scale"}, {"m"})
      .node("LeakyRelu", {"m"}, {"r"}, {{"alpha", AttributeValue(0.25)}})
      .node("Reshape", {"r", "shift"}, {"y"})
      .output("y");
}

TEST(OnnxFile, WhatIsWrittenComesBack) {
  const Folder folder;
  const std::filesystem::path path = folder.path() / "model.onnx";
  write_model(*small().model(), path);
  ImportedModel model(std::make_shared<const Model>(read_model(path)));
  ASSERT_EQ(model.inputs().size(), 1U);
  EXPECT_EQ(model.inputs()[0].name, "x");
  EXPECT_EQ(std::get<std::string>(model.inputs()[0].shape[1]), "n");
  const Tensor x = Tensor::from({1.0F, -2.0F, 3.0F, -4.0F}, {2, 2});
  EXPECT_THAT(model.call(std::vector<Tensor>{x})[0].to_vector<float>(), ElementsAre(2, -1, 6, -2));
}

TEST(OnnxFile, EveryPrefixOfAModelIsRefusedOrRead) {
  const Folder folder;
  write_model(*small().model(), folder.path() / "model.onnx");
  const std::string bytes = bytes_of(folder.path() / "model.onnx");
  int refused = 0;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    try {
      ImportedModel(std::make_shared<const Model>(parse_model(bytes.substr(0, length), "cut", ".")));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(bytes.size() * 9 / 10));
}

TEST(OnnxFile, OtherFilesAreNoModels) {
  EXPECT_THAT(file_error([] { parse_model("hello", "h.onnx", "."); }), HasSubstr("no ONNX model"));
  EXPECT_THAT(file_error([] { parse_model("", "empty.onnx", "."); }), HasSubstr("no graph"));
  EXPECT_THAT(file_error([] { read_model("missing.onnx"); }), HasSubstr("missing.onnx"));
}

/// A model of one initializer, which `fill` makes.
template <class Fill>
Model with_tensor(const Fill& fill, const std::filesystem::path& folder) {
  ::onnx::ModelProto proto;
  proto.set_ir_version(8);
  fill(*proto.mutable_graph()->add_initializer());
  return parse_model(proto.SerializeAsString(), "model.onnx", folder);
}

// The first one is 1; a file that names none is of that one.
TEST(OnnxFile, NoModelIsOfOpset0) {
  const Folder folder;
  for (const std::int64_t version : {std::int64_t{0}, std::int64_t{-3}}) {
    Model model = *small().model();
    model.opsets[""] = version;
    write_model(model, folder.path() / "model.onnx");
    EXPECT_THAT(file_error([&] { read_model(folder.path() / "model.onnx"); }),
                AllOf(HasSubstr("it is of opset " + std::to_string(version)), HasSubstr("the first is 1")));
  }
}

TEST(OnnxFile, TensorsWithoutTheirBytesAreRefused) {
  const auto refused = [](const std::vector<std::int64_t>& dims, const std::string& raw) {
    return file_error([&] {
      with_tensor(
          [&](::onnx::TensorProto& tensor) {
            tensor.set_name("t\n");
            tensor.set_data_type(::onnx::TensorProto_DataType_FLOAT);
            tensor.mutable_dims()->Add(dims.begin(), dims.end());
            tensor.set_raw_data(raw);
          },
          ".");
    });
  };
  EXPECT_THAT(refused({2}, "1234"), AllOf(HasSubstr("\"t\\x0a\""), HasSubstr("4 bytes")));
  EXPECT_THAT(refused({-1}, ""), HasSubstr("f32[-1] has a negative length"));
  EXPECT_THAT(refused({1 << 30, 1 << 30, 1 << 30, 1 << 30}, ""), HasSubstr("takes 5.32e+36 bytes"));
  EXPECT_THAT(refused({}, ""), HasSubstr("0 bytes"));
}

/// An initializer of two floats in another file.
Model external(const std::filesystem::path& folder, const std::string& location, const std::string& offset = "",
               const std::string& length = "") {
  return with_tensor(
      [&](::onnx::TensorProto& tensor) {
        tensor.set_name("t");
        tensor.set_data_type(::onnx::TensorProto_DataType_FLOAT);
        tensor.add_dims(2);
        tensor.set_data_location(::onnx::TensorProto_DataLocation_EXTERNAL);
        for (const auto& [key, value] : {std::pair("location", location), {"offset", offset}, {"length", length}}) {
          if (!value.empty()) {
            auto* entry = tensor.add_external_data();
            entry->set_key(key);
            entry->set_value(value);
          }
        }
      },
      folder);
}

TEST(OnnxFile, ExternalDataStaysInTheModelsFolder) {
  const Folder folder;
  const std::filesystem::path inside = folder.path() / "inside";
  std::filesystem::create_directories(inside / "deeper");
  const std::array<float, 3> numbers{1, 2, 3};
  for (const std::filesystem::path& path :
       {inside / "weights.bin", inside / "deeper" / "w", folder.path() / "secret"}) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  }
  std::filesystem::create_symlink(folder.path() / "secret", inside / "link");
  const auto read = [&](const std::string& location, const std::string& offset = "", const std::string& length = "") {
    return external(inside, location, offset, length).graph->initializers.at("t").tensor.to_vector<float>();
  };
  EXPECT_THAT(read("weights.bin"), ElementsAre(1, 2));
  EXPECT_THAT(read("weights.bin", "4", "8"), ElementsAre(2, 3));
  EXPECT_THAT(read("deeper/w"), ElementsAre(1, 2));
  for (const std::string& location : {std::string("../secret"), std::string("deeper/../../secret"),
                                      (folder.path() / "secret").string(), std::string("link"), std::string()}) {
    EXPECT_THAT(file_error([&] { read(location); }), HasSubstr("outside of the model's folder")) << location;
  }
  EXPECT_THAT(file_error([&] { read("weights.bin", "8"); }), HasSubstr("has 12"));
  EXPECT_THAT(file_error([&] { read("weights.bin", "18446744073709551615"); }), HasSubstr("needs bytes"));
  EXPECT_THAT(file_error([&] { read("weights.bin", "four"); }), HasSubstr("\"four\""));
  EXPECT_THAT(file_error([&] { read("weights.bin", "0", "4"); }), HasSubstr("4 bytes of external data"));
  EXPECT_THAT(file_error([&] { read("absent.bin"); }), HasSubstr("absent.bin"));
}

TEST(Npy, WhatIsSavedComesBack) {
  const Folder folder;
  for (const Tensor& tensor :
       {Tensor::from({1.5F, -2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3}), Tensor::scalar(std::int64_t{7}),
        Tensor::from({true, false}, {2}), full({0, 3}, 1, DType::float64), full({300}, 9, DType::uint8),
        cast(Tensor::from({1.5F, -2.0F, 6e-8F}, {3}), DType::float16), full({2}, -9, DType::int8),
        full({2}, 65535, DType::uint16), full({2}, -9, DType::int16), full({2}, 4e9, DType::uint32),
        Tensor::scalar(~std::uint64_t{0})}) {
    io::save_npy(folder.path() / "t.npy", tensor);
    EXPECT_TRUE(bitwise_equal(io::load_npy(folder.path() / "t.npy"), tensor)) << to_string(tensor.type());
  }
}

TEST(Npy, ColumnMajorArraysAreTurned) {
  const Folder folder;
  std::string header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }";
  header.append(117 - header.size(), ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  bytes += header;
  for (const std::int32_t number : {1, 4, 2, 5, 3, 6}) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  std::ofstream(folder.path() / "f.npy", std::ios::binary) << bytes;
  EXPECT_THAT(io::load_npy(folder.path() / "f.npy").to_vector<std::int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    std::ofstream(folder.path() / "cut.npy", std::ios::binary) << bytes.substr(0, length);
    EXPECT_THROW(io::load_npy(folder.path() / "cut.npy"), FileError) << length;
  }
}

}  // namespace
}  // namespace diptych::onnx
