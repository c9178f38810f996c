// ONNX Runtime's arm with a library that is played (fake_onnxruntime.cpp): how it is found, what is refused, and what
// it says when it fails. tests/e2e/onnx_test.cpp has the real one.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/core/text.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "tests/support/places.h"
#include "workloads/arms/external_process.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;

std::string arm_program() { return diptych::testing::places::build() + "/arms/diptych_ort_arm"; }
std::string fake_library() { return diptych::testing::places::build() + "/tests/workloads/libfake_onnxruntime.so"; }
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OrtArm : public ::testing::Test {
 protected:
  OrtArm() {
    for (const char* name : {"DIPTYCH_ONNXRUNTIME", "DIPTYCH_NODE_MODULES", "LD_LIBRARY_PATH"}) {
      set(name, "");
    }
  }
  ~OrtArm() override {
    for (const auto& [name, value] : before_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  OrtArm(const OrtArm&) = delete;
  OrtArm& operator=(const OrtArm&) = delete;

  void set(const std::string& name, const std::string& value) {
    const char* const old = std::getenv(name.c_str());
    before_.try_emplace(name, old != nullptr ? std::optional<std::string>(old) : std::nullopt);
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  /// The library under this name below a temporary folder, whose path is returned.
  std::string put(const std::string& name) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    fs::copy_file(fake_library(), path);
    return path.string();
  }
  /// What the arm says of itself, or why it fails.
  std::string description(const std::string& program = arm_program(), const std::string& level = "all") {
    try {
      return ExternalProcess({program, level}).describe()["framework"];
    } catch (const ArmFailure& error) {
      return error.what();
    }
  }
  /// All requests with this input; returns why one fails.
  std::string run(const Tensor& input, const std::string& level = "all") {
    try {
      ExternalProcess process({arm_program(), level});
      process.describe();
      process.load("model.onnx", {input}, folder_.path().string());
      for (int i = 0; i < 2; ++i) {  // a first call, and one with what is bound
        const std::vector<Tensor> outputs = process.check(folder_.path().string(), {input.type()});
        EXPECT_TRUE(bitwise_equal(outputs.at(0), input)) << to_string(input.type());
        EXPECT_GT(process.run(3).said, 0);
      }
      return "";
    } catch (const ArmFailure& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_{"diptych-ort-test"};

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

constexpr const char* kFound = "ONNX Runtime 1.99.0 (all optimisations)";
constexpr const char* kInPackage =
    "node_modules/onnxruntime-node/bin/napi-v6/linux/"
#if defined(__aarch64__)
    "arm64"
#else
    "x64"
#endif
    "/libonnxruntime.so.1";

TEST_F(OrtArm, IsFoundByItsPathAndByItsFolder) {
  set("DIPTYCH_ONNXRUNTIME", put("release/lib/libonnxruntime.so.1.99.0"));
  EXPECT_EQ(description(), kFound);
  set("DIPTYCH_ONNXRUNTIME", (folder_.path() / "release").string());
  EXPECT_EQ(description(), kFound);
}

TEST_F(OrtArm, IsFoundInThePackageOfNpm) {
  put(std::string("project/") + kInPackage);
  for (const char* place : {"project", "project/node_modules", "project/deeper/than/that"}) {
    set("DIPTYCH_NODE_MODULES", (folder_.path() / place).string());
    EXPECT_EQ(description(), kFound) << place;
  }
}

TEST_F(OrtArm, IsFoundWhereTheLoaderLooks) {
  set("LD_LIBRARY_PATH", fs::path(put("anywhere/libonnxruntime.so.1")).parent_path().string());
  EXPECT_EQ(description(), kFound);
}

TEST_F(OrtArm, APathThatIsGivenIsNotReplaced) {
  put(kInPackage);
  set("DIPTYCH_NODE_MODULES", folder_.path().string());
  set("DIPTYCH_ONNXRUNTIME", (folder_.path() / "no/such.so").string());
  EXPECT_THAT(description(), HasSubstr("no/such.so"));
  set("DIPTYCH_ONNXRUNTIME", folder_.path().string());
  EXPECT_THAT(description(), HasSubstr("no libonnxruntime.so in $DIPTYCH_ONNXRUNTIME"));
  set("DIPTYCH_ONNXRUNTIME", arm_program());  // no library at all
  EXPECT_THAT(description(), HasSubstr("can't be loaded"));
}

TEST_F(OrtArm, WhereItIsNotItSaysWhereItLooked) {
  const fs::path program = folder_.path() / "arm";  // away from any node_modules of the tree
  fs::copy_file(arm_program(), program);
  const fs::path current = fs::current_path();
  fs::current_path(folder_.path());
  set("DIPTYCH_NODE_MODULES", folder_.path().string());
  const std::string said = description(program.string());
  fs::current_path(current);
  if (said.find("ONNX Runtime 1.") != std::string::npos) {
    GTEST_SKIP() << "the system has one: " << said;
  }
  EXPECT_THAT(said, AllOf(HasSubstr("isn't found"), HasSubstr(folder_.path().string()),
                          HasSubstr("DIPTYCH_ONNXRUNTIME"), HasSubstr("LD_LIBRARY_PATH")));
}

TEST_F(OrtArm, OtherVersionsAreRefused) {
  set("DIPTYCH_ONNXRUNTIME", fake_library());
  for (const auto& [version, why] : std::map<std::string, std::string>{{"1.4.2", "came with 1.5"},
                                                                       {"0.5.0", "versions 1.x"},
                                                                       {"2.0.0", "versions 1.x"},
                                                                       {"newest", "which is none"},
                                                                       {"\x1b[31m", "which is none"}}) {
    set("FAKE_ORT_VERSION", version);
    EXPECT_THAT(description(), AllOf(HasSubstr(version), HasSubstr(why)));
  }
  set("FAKE_ORT_VERSION", "1.5.0");
  EXPECT_THAT(description(), HasSubstr("ONNX Runtime 1.5.0"));
}

TEST_F(OrtArm, AFunctionThatIsMissingIsNamed) {
  set("DIPTYCH_ONNXRUNTIME", fake_library());
  for (const char* name : {"CreateSession", "GetTensorMutableData", "ReleaseValue", "RunWithBinding"}) {
    set("FAKE_ORT_LACKS", name);
    EXPECT_THAT(run(full({3}, 2)), HasSubstr(std::string("lacks ") + name));
  }
}

TEST_F(OrtArm, WhatTheLibrarySaysIsCutAndHasItsFunction) {
  set("DIPTYCH_ONNXRUNTIME", fake_library());
  for (const char* name : {"CreateEnv", "CreateSession", "Run", "RunWithBinding"}) {
    set("FAKE_ORT_FAILS", name);
    const std::string said = run(full({3}, 2));
    EXPECT_THAT(said, AllOf(HasSubstr(std::string(name) + ": \x1b[31m"), HasSubstr("\"quoted\"")));
    EXPECT_LT(said.size(), 420U);
    EXPECT_THAT(printable(said), Not(HasSubstr("\x1b")));
  }
}

TEST_F(OrtArm, ValuesOfEveryTypeComeBack) {
  set("DIPTYCH_ONNXRUNTIME", fake_library());
  for (const DType type :
       {DType::float32, DType::float64, DType::bfloat16, DType::int32, DType::int64, DType::uint8, DType::boolean,
        DType::float16, DType::int8, DType::uint16, DType::int16, DType::uint32, DType::uint64}) {
    EXPECT_EQ(run(full({2, 3}, 1, type)), "") << name_of(type);
  }
  EXPECT_EQ(run(full({}, 7)), "");
  EXPECT_EQ(run(full({0, 4}, 7)), "");
}

TEST_F(OrtArm, ItsProfileCountsEachNodeWithoutTheFirstCall) {
  set("DIPTYCH_ONNXRUNTIME", fake_library());
  const std::string log = (folder_.path() / "log").string();
  set("FAKE_ORT_LOG", log);
  {
    ExternalProcess process({arm_program(), "basic"});
    process.load("model.onnx", {full({3}, 2)}, folder_.path().string());
    const auto nodes = process.profile(4, folder_.path().string());
    ASSERT_EQ(nodes.size(), 2U);
    EXPECT_EQ(nodes[0].node, "MatMul_0/MatMulAddFusion");
    EXPECT_EQ(nodes[0].op, "FusedMatMul");
    EXPECT_DOUBLE_EQ(nodes[0].seconds, 1e-6);
    EXPECT_DOUBLE_EQ(nodes[0].runs, 1);
    EXPECT_EQ(nodes[1].node, "LayerNormalization");
    EXPECT_DOUBLE_EQ(nodes[1].seconds, 3e-6);
    EXPECT_DOUBLE_EQ(nodes[1].runs, 2);
    process.run(1);  // the model is as it was
  }
  std::ifstream file(log);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "model.onnx level 1 threads 1\nmodel.onnx level 1 threads 1\nleft 0\n");
}

TEST_F(OrtArm, AProfileThatCannotBeReadIsRefused) {
  set("DIPTYCH_ONNXRUNTIME", fake_library());
  const auto said = [&] {
    try {
      ExternalProcess process({arm_program(), "all"});
      process.load("model.onnx", {full({3}, 2)}, folder_.path().string());
      process.profile(4, folder_.path().string());
      return std::string();
    } catch (const ArmFailure& error) {
      return std::string(error.what());
    }
  };
  for (const auto& [profile, why] :
       std::map<std::string, std::string>{{"[{", "can't be read"},
                                          {"{}", "can't be read"},
                                          {R"([7, {"ph":"X","name":"model_run"}])", "has 0 calls, not 4"},
                                          {R"([{"ph":"X","name":3}])", "type must be string"}}) {
    set("FAKE_ORT_PROFILE", profile);
    EXPECT_THAT(said(), HasSubstr(why)) << profile;
  }
  set("FAKE_ORT_LACKS", "SessionEndProfiling");
  EXPECT_THAT(said(), HasSubstr("lacks SessionEndProfiling"));
  set("FAKE_ORT_LACKS", "");
  set("FAKE_ORT_FAILS", "EnableProfiling");
  EXPECT_THAT(said(), HasSubstr("EnableProfiling: "));
}

TEST_F(OrtArm, OptionsArriveAndEverythingIsReleased) {
  set("DIPTYCH_ONNXRUNTIME", fake_library());
  set("FAKE_ORT_LOG", (folder_.path() / "log").string());
  for (const auto& [name, value] : std::map<std::string, int>{{"all", 99}, {"basic", 1}, {"extended", 2}, {"off", 0}}) {
    EXPECT_EQ(run(full({3}, 2), name), "");
    std::ifstream file(folder_.path() / "log");
    std::stringstream log;
    log << file.rdbuf();
    EXPECT_EQ(log.str(), "model.onnx level " + std::to_string(value) + " threads 1\nleft 0\n");
    fs::remove(folder_.path() / "log");
  }
  EXPECT_THAT(description(arm_program(), "most"), HasSubstr("all, extended, basic or off"));
}

}  // namespace
}  // namespace diptych::workloads
