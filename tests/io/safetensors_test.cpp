// The format against its description, a reader in another language, and files that lie.

#include "framework/io/safetensors.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/io/folder.h"
#include "tests/support/places.h"

namespace diptych::io {
namespace {

using diptych::testing::bytes_of;
using diptych::testing::Folder;
using diptych::testing::safetensors_bytes;
using diptych::testing::write_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

TensorFile every_type() {
  TensorFile file;
  file.metadata = {{"step", "12"}, {"note", "a \"quoted\" \xC3\xA4"}};
  file.tensors = {
      {"f32", Tensor::from({1.5F, -2.0F, 0.25F, 1e30F, -0.0F, 3.0F}, {2, 3})},
      {"f64", Tensor::from({0.1, 1e300}, {2})},
      {"bf16", cast(Tensor::from({1.0F, -3.5F, 256.0F}, {3}), DType::bfloat16)},
      {"i32", Tensor::from({std::int32_t{-5}}, {1, 1})},
      {"i64", Tensor::scalar(std::int64_t{1} << 40)},
      {"u8", Tensor::from({std::uint8_t{0}, std::uint8_t{255}, std::uint8_t{7}}, {3})},
      {"bool", Tensor::from({true, false, true}, {3})},
      {"f16", cast(Tensor::from({1.0F, -3.5F, 65504.0F, 0x1p-24F}, {4}), DType::float16)},
      {"i8", Tensor::from({std::int8_t{-128}, std::int8_t{127}}, {2})},
      {"i16", Tensor::from({std::int16_t{-32768}}, {1})},
      {"u16", Tensor::from({std::uint16_t{65535}}, {1})},
      {"u32", Tensor::from({std::uint32_t{4294967295U}}, {1})},
      {"u64", Tensor::from({std::uint64_t{18446744073709551615U}}, {1})},
      {"empty", zeros({0, 4})},
  };
  return file;
}

TEST(Safetensors, EveryTypeComesBackToTheBit) {
  const Folder folder;
  const TensorFile file = every_type();
  save_safetensors(folder / "a.safetensors", file);
  const TensorFile back = load_safetensors(folder / "a.safetensors");
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const NamedTensor& tensor : file.tensors) {
    const Tensor* found = back.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_TRUE(bitwise_equal(*found, tensor.tensor)) << tensor.name;
  }
  EXPECT_EQ(back.find("other"), nullptr);
}

TEST(Safetensors, NaNPayloadsAndInfinitiesAreKept) {
  const Folder folder;
  const std::array<std::uint32_t, 3> bits{0x7FC01234U, 0xFF800000U, 0x00000001U};
  std::array<float, 3> values{};
  std::memcpy(values.data(), bits.data(), sizeof bits);
  save_safetensors(folder / "a", {{{"x", Tensor::from(std::span<const float>(values), {3})}}, {}});
  const TensorFile back = load_safetensors(folder / "a");
  EXPECT_EQ(std::memcmp(back.find("x")->data<float>(), bits.data(), sizeof bits), 0);
}

TEST(Safetensors, StridedTensorsAreWrittenDense) {
  const Folder folder;
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  save_safetensors(folder / "a", {{{"t", transpose(x)}}, {}});
  EXPECT_EQ(load_safetensors(folder / "a").find("t")->to_vector<int>(), (std::vector<int>{1, 4, 2, 5, 3, 6}));
}

/// Written by hand from the format's description, byte for byte: a header that is neither padded nor in our order.
TEST(Safetensors, AFileMadeByHandIsRead) {
  const std::string header = R"({"b":{"dtype":"I32","shape":[],"data_offsets":[8,12]},)"
                             R"("__metadata__":{"format":"pt"},)"
                             R"("a\u00e4":{"data_offsets":[0,8],"shape":[2,1],"dtype":"F32"}}  )";
  const std::string elements("\x00\x00\x80\x3F\x00\x00\x00\xC0\xFE\xFF\xFF\xFF", 12);
  const TensorFile file = parse_safetensors(safetensors_bytes(header, elements), "by hand");
  ASSERT_EQ(file.tensors.size(), 2U);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(to_string(*file.find("a\xC3\xA4")), "f32[2,1] {1, -2}");
  EXPECT_EQ(to_string(*file.find("b")), "i32[] {-2}");
}

TEST(Safetensors, TheBytesAreTheOnesOfTheDescription) {
  const Folder folder;
  save_safetensors(folder / "a",
                   {{{"b", Tensor::from({std::uint8_t{9}}, {1})}, {"a", Tensor::from({1.0F}, {1, 1})}}, {{"k", "v"}}});
  const std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(bytes_of(folder / "a"), safetensors_bytes(padded, std::string("\x00\x00\x80\x3F\x09", 5)));
}

/// Output of the reader, and its exit code.
std::pair<std::string, int> run_reader(const std::string& options, const std::filesystem::path& path) {
  const std::string command = fmt::format("python3 {}/read_safetensors.py {} '{}' 2>&1",
                                          testing::places::source() + "/tests/io", options, path.string());
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> chunk{};
  while (const std::size_t got = fread(chunk.data(), 1, chunk.size(), pipe)) {
    output.append(chunk.data(), got);
  }
  return {output, WEXITSTATUS(pclose(pipe))};
}

constexpr const char* kTensorLines =
    "bf16 BF16 [3] [1.0, -3.5, 256.0]\n"
    "bool BOOL [3] [True, False, True]\n"
    "empty F32 [0, 4] []\n"
    "f16 F16 [4] [1.0, -3.5, 65504.0, 5.960464477539063e-08]\n"
    "f32 F32 [2, 3] [1.5, -2.0, 0.25, 1.0000000150474662e+30, -0.0, 3.0]\n"
    "f64 F64 [2] [0.1, 1e+300]\n"
    "i16 I16 [1] [-32768]\n"
    "i32 I32 [1, 1] [-5]\n"
    "i64 I64 [] [1099511627776]\n"
    "i8 I8 [2] [-128, 127]\n"
    "u16 U16 [1] [65535]\n"
    "u32 U32 [1] [4294967295]\n"
    "u64 U64 [1] [18446744073709551615]\n"
    "u8 U8 [3] [0, 255, 7]\n";

TEST(Safetensors, PythonReadsOurFiles) {
  const Folder folder;
  save_safetensors(folder / "a", every_type());
  const auto [output, code] = run_reader("", folder / "a");
  if (code == 127) {
    GTEST_SKIP() << "python3 is not installed";
  }
  EXPECT_EQ(code, 0) << output;
  EXPECT_EQ(output, std::string("metadata note a \"quoted\" \xC3\xA4\nmetadata step 12\n") + kTensorLines);
}

TEST(Safetensors, TheReferenceLibraryReadsOurFiles) {
  const Folder folder;
  save_safetensors(folder / "a", every_type());
  const auto [output, code] = run_reader("--library", folder / "a");
  if (code == 77 || code == 127) {
    GTEST_SKIP() << "the Python package safetensors is not installed";
  }
  EXPECT_EQ(code, 0) << output;
  EXPECT_EQ(output, kTensorLines);
}

std::string refusal_of_bytes(const std::string& bytes) {
  try {
    parse_safetensors(bytes, "file");
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}
std::string header_refusal(const std::string& header, const std::string& elements = std::string(8, '\0')) {
  return refusal_of_bytes(safetensors_bytes(header, elements));
}

TEST(HostileSafetensors, LengthsThatDoNotFit) {
  EXPECT_THAT(refusal_of_bytes(""), HasSubstr("too few"));
  EXPECT_THAT(refusal_of_bytes("1234567"), HasSubstr("too few"));
  EXPECT_THAT(refusal_of_bytes(std::string(8, '\0')), HasSubstr("doesn't begin with '{'"));
  EXPECT_THAT(refusal_of_bytes(std::string(8, '\xFF') + "{}"), HasSubstr("doesn't fit"));
  EXPECT_THAT(refusal_of_bytes(std::string("\x03\0\0\0\0\0\0\0{}", 10)), HasSubstr("cut off"));
  EXPECT_EQ(refusal_of_bytes(safetensors_bytes("{}", "")), "no error");
}

TEST(HostileSafetensors, EntriesThatLie) {
  const auto entry = [](const std::string& text) { return header_refusal("{\"x\":" + text + "}"); };
  const auto f32 = [&](const std::string& shape, const std::string& offsets) {
    return entry(R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}");
  };
  EXPECT_EQ(f32("[2]", "[0,8]"), "no error");
  EXPECT_THAT(f32("[3]", "[0,8]"), AllOf(HasSubstr("\"x\""), HasSubstr("f32[3]"), HasSubstr("12 bytes")));
  EXPECT_THAT(f32("[1]", "[0,4]"), HasSubstr("end at byte 4, the file has 8"));
  EXPECT_THAT(f32("[1]", "[4,8]"), HasSubstr("hole"));
  EXPECT_THAT(f32("[2]", "[8,0]"), HasSubstr("[8, 0)"));
  EXPECT_THAT(f32("[2]", "[0,16]"), HasSubstr("of 8 bytes"));
  EXPECT_THAT(f32("[2]", "[18446744073709551608,18446744073709551615]"), HasSubstr("of 8 bytes"));
  EXPECT_THAT(f32("[4611686018427387904]", "[0,0]"), HasSubstr("no memory holds"));
  EXPECT_THAT(f32("[9223372036854775808]", "[0,0]"), HasSubstr("no memory holds"));
  EXPECT_THAT(f32("[3037000500,3037000500,0]", "[0,0]"), HasSubstr("no memory holds"));
  EXPECT_THAT(f32("[1000000000000]", "[0,8]"), HasSubstr("data_offsets hold 8"));
  EXPECT_THAT(f32("[1,1,1,1,1,1,1,1,2]", "[0,8]"), HasSubstr("more than 8 axes"));
  for (const char* shape : {"[-2]", "[2.0]", "[1e0]", "[\"2\"]", "[true]", "[null]", "[[2]]", "[{}]", "2", "{}"}) {
    EXPECT_NE(f32(shape, "[0,8]"), "no error") << shape;
  }
  for (const char* offsets :
       {"[0]", "[]", "[0,8,8]", "[0,8.0]", "[-0,8]", "[0,\"8\"]", "[0,18446744073709551616]", "8"}) {
    EXPECT_NE(f32("[2]", offsets), "no error") << offsets;
  }
  for (const char* text :
       {"1", "[]", "null", "\"x\"", "{}", R"({"dtype":"F32","shape":[2]})", R"({"dtype":"F32","data_offsets":[0,8]})",
        R"({"shape":[2],"data_offsets":[0,8]})", R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[0,NaN]})"}) {
    EXPECT_NE(entry(text), "no error") << text;
  }
  EXPECT_THAT(entry(R"({"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]})"),
              AllOf(HasSubstr("\"F8_E4M3\""), HasSubstr("convert")));
}

TEST(HostileSafetensors, HeadersThatAreNone) {
  const std::string x = R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_EQ(header_refusal("{" + x + "}"), "no error");
  EXPECT_THAT(header_refusal("{" + x + "," + x + "}"), HasSubstr("\"x\" appears twice"));
  EXPECT_THAT(header_refusal("{" + x + R"(,"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
              HasSubstr("overlaps"));
  EXPECT_THAT(header_refusal(" {" + x + "}"), HasSubstr("begin with '{'"));
  EXPECT_THAT(header_refusal("[1]"), HasSubstr("begin with '{'"));
  EXPECT_THAT(header_refusal("{" + x), HasSubstr("no JSON"));
  EXPECT_THAT(header_refusal("{" + x + "} x"), HasSubstr("no JSON"));
  EXPECT_THAT(header_refusal("{" + x + "}" + std::string("\0x", 2)), HasSubstr("zero byte"));
  EXPECT_THAT(header_refusal("{" + x + R"(,"__metadata__":{"k":1}})"), HasSubstr("metadata \"k\" is not a text"));
  EXPECT_THAT(header_refusal("{" + x + R"(,"__metadata__":{"k":"1","k":"2"}})"),
              HasSubstr("metadata \"k\" appears twice"));
  EXPECT_THAT(header_refusal("{" + x + R"(,"__metadata__":{},"__metadata__":{}})"), HasSubstr("appears twice"));
  EXPECT_NE(header_refusal("{" + x + R"(,"__metadata__":"k"})"), "no error");
  EXPECT_NE(header_refusal("{" + x + ",\"\xFF\":{}}"), "no error") << "not UTF-8";
  EXPECT_NE(header_refusal("{\"x\xC0\xAF\":" + x.substr(4) + "}"), "no error") << "overlong UTF-8";
  std::string deep = "{\"x\":";
  for (int i = 0; i < 1000000; ++i) {
    deep += i % 2 == 0 ? "[" : "{\"a\":";
  }
  EXPECT_NE(header_refusal(deep), "no error");
  EXPECT_NE(header_refusal(std::string(1000000, '[')), "no error");
}

TEST(HostileSafetensors, ABoolIsZeroOrOne) {
  const std::string header = R"({"flags":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_EQ(header_refusal(header, std::string("\0\1", 2)), "no error");
  EXPECT_THAT(header_refusal(header, std::string("\1\2", 2)), AllOf(HasSubstr("\"flags\""), HasSubstr("element 1")));
}

TEST(HostileSafetensors, MessagesAreOneLineWhateverTheNamesHold) {
  const std::string message = header_refusal("{\"a\\nb" + std::string(5000, 'x') + "\":1}");
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 400U);
}

TEST(SafetensorsSaving, RefusesNamesThatOthersCouldNotRead) {
  const Folder folder;
  const Tensor x = zeros({1});
  try {
    save_safetensors(folder / "a", {{{"x", x}, {"x", x}}, {}});
    ADD_FAILURE() << "two of one name";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr((folder / "a").string()), HasSubstr("two tensors are named")));
  }
  EXPECT_THROW(save_safetensors(folder / "a", {{{"\xFF", x}}, {}}), Error);
  EXPECT_THROW(save_safetensors(folder / "a", {{{"x", x}}, {{"k", "\xFF"}}}), Error);
  EXPECT_THROW(save_safetensors(folder / "a", {{{"__metadata__", x}}, {}}), Error);
  EXPECT_THROW(save_safetensors(folder / "a", {{{"x", Tensor()}}, {}}), Error);
  EXPECT_EQ(folder.files(), 0U);
}

TEST(SafetensorsSaving, AnErrorLeavesTheOldFileAndNothingElse) {
  const Folder folder;
  save_safetensors(folder / "a", {{{"x", ones({2})}}, {}});
  const std::string before = bytes_of(folder / "a");
  struct rlimit limit {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const struct rlimit small { 4096, limit.rlim_max };
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);  // the disk is full, so to speak
  std::string message = "no error";
  try {
    save_safetensors(folder / "a", {{{"x", ones({100000})}}, {}});
  } catch (const FileError& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, previous);
  EXPECT_THAT(message, HasSubstr("cannot write"));
  EXPECT_EQ(bytes_of(folder / "a"), before);
  EXPECT_EQ(folder.files(), 1U);
}

TEST(SafetensorsSaving, PlacesThatCanNotBeWritten) {
  const Folder folder;
  std::filesystem::create_directories(folder / "a" / "full");
  const TensorFile file{{{"x", ones({2})}}, {}};
  EXPECT_THROW(save_safetensors(folder / "none" / "a", file), FileError);
  EXPECT_THROW(save_safetensors(folder / "a", file), FileError) << "a folder is there";
  EXPECT_EQ(folder.files(), 1U);
  EXPECT_THROW(load_safetensors(folder / "a"), FileError);
  EXPECT_THROW(load_safetensors(folder / "none"), FileError);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(load_safetensors(folder / "pipe"), FileError);
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const Folder folder;
  save_safetensors(folder / "a", every_type());
  const std::string bytes = bytes_of(folder / "a");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(parse_safetensors(std::string_view(bytes).substr(0, length), "file"), FileError) << length;
  }
  EXPECT_THROW(parse_safetensors(bytes + '\0', "file"), FileError);
}

}  // namespace
}  // namespace diptych::io
