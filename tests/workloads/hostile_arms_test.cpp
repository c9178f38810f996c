// Arms that lie about what they have computed, say what can't be, wait for ever or leave something behind: each ends
// itself alone, and soon.

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sys/stat.h>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/diptych.h"
#include "tests/workloads/played_arm.h"
#include "workloads/arms/external_process.h"
#include "workloads/harness/cell/cell.h"
#include "workloads/harness/cell/external_arms.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::arm;
using testing::failure;
using ::testing::HasSubstr;
using testing::named;
using ::testing::Not;
using ::testing::SizeIs;

const std::vector<TensorType> kOneAndTwo = {{DType::float32, {2}}};

/// {1, 2}, either without any arithmetic, or with a product of matrices whose sum is zero.
class OneAndTwo final : public Program {
 public:
  explicit OneAndTwo(std::int64_t length) : length_(length) {}
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    return {length_ == 0 ? reshape(inputs[0], {2}) : reshape(inputs[0], {2}) + sum(matmul(inputs[1], inputs[1]))};
  }

 private:
  std::int64_t length_;
  std::array<Tensor, 2> inputs_{Tensor::from({1.0F, 2.0F}, {1, 2}), full({length_, length_}, 0)};
};

/// A cell of eager and one such arm; why that one failed, or "".
std::string why_invalid(const std::string& name, const std::string& extra, std::int64_t length) {
  const Workload workload{.name = "test/one-and-two",
                          .suite = "test",
                          .title = "gives",
                          .unit = "call",
                          .check_steps = 1,
                          .make = [length](std::uint64_t) { return std::make_unique<OneAndTwo>(length); }};
  const CellPlan plan{.workload = &workload,
                      .arms = {find_arm("eager"), &add_external_arm(name, arm(extra))},
                      .settings = {.process_seed = 5, .layout_seed = 9, .rounds = 3, .block_seconds = 0.0005},
                      .full_check = true};
  const json cell = measure_cell(plan, [](const std::string&) {});
  EXPECT_EQ(cell["validity"]["agree"], true) << cell["validity"];
  return named(cell["arms"], name).value("failed", "");
}

/// A microsecond for each call, by everybody's clock.
constexpr const char* kMicroseconds = R"sh(*warm_up*|*run*) start=${EPOCHREALTIME/[.,]/}
      until ((${EPOCHREALTIME/[.,]/} - start >= count)); do :; done
      echo "{\"nanoseconds\":$((count * 1000))}";;)sh";

TEST(HostileArms, OneThatComputesNothingIsInvalid) {
  const std::string at_once = "*warm_up*|*run*) echo '{\"nanoseconds\":1}';;";
  EXPECT_THAT(why_invalid("test-nothing", at_once, 0), HasSubstr("no call is that short"));
  // Honest while it warms up.
  const std::string later = "*'\"run\"'*) echo '{\"nanoseconds\":1}';;\n";
  EXPECT_THAT(why_invalid("test-nothing-later", later + kMicroseconds, 0), HasSubstr("no call is that short"));
}

// Its times agree with ours, but 2 x 256^3 operations a microsecond are more than twenty times what any core does.
TEST(HostileArms, NoCallIsShorterThanItsArithmetic) {
  EXPECT_THAT(why_invalid("test-too-fast", kMicroseconds, 256),
              AllOf(HasSubstr("a call takes 1e-06 s"), HasSubstr("the model's 3.36e+07 operations take"),
                    HasSubstr("less than a 20th of that")));
  EXPECT_EQ(why_invalid("test-fast-for-little", kMicroseconds, 0), "");
  EXPECT_EQ(why_invalid("test-honest-product", "", 256), "");
}

// Of blocks of 60 ms it gives account of 1 ns: what is missing counts as its own, but for what an answer takes.
TEST(HostileArms, TimeLeftOutOfSomeBlocksIsNotGained) {
  const TemporaryFolder folder("diptych-arm-test");
  ExternalArm external(add_external_arm("test-omits", arm("*'\"run\"'*) sleep 0.06; echo '{\"nanoseconds\":1}';;")),
                       steady_seconds);
  external.start({.file = "model.onnx", .inputs = {}}, {Tensor::from({1.0F, 2.0F}, {2})}, folder.path().string());
  external.warm_up(0.01, kLeastBlockSeconds, 4, {});
  const ExternalArm::Timed block = external.time_block(20);
  ASSERT_TRUE(external.runs()) << external.failure();
  EXPECT_GE(block.calls, 20);
  EXPECT_GT(block.seconds, 0.05);
}

TEST(HostileArms, FilesThatAreNoneDoNotHang) {
  const auto check = [](const std::string& command) {
    const TemporaryFolder folder("diptych-arm-test");
    return failure([&] {
      ExternalProcess process(
          arm("*check*) " + command + R"(; echo '{"outputs":[{"dtype":"f32","shape":[2],"file":"output_0.bin"}]}';;)"));
      process.check(folder.path().string(), kOneAndTwo);
    });
  };
  EXPECT_THAT(check("mkfifo \"$folder/output_0.bin\""), HasSubstr("is not a file"));
  EXPECT_THAT(check("mkdir \"$folder/output_0.bin\""), HasSubstr("is not a file"));
  EXPECT_THAT(check("ln -s /dev/zero \"$folder/output_0.bin\""), HasSubstr("is not a file"));
  EXPECT_THAT(check("printf 1234 > \"$folder/output_0.bin\""), HasSubstr("it has 4 bytes, not 8"));
}

TEST(HostileArms, InputsAreWrittenToNewFilesAlone) {
  const TemporaryFolder folder("diptych-arm-test");
  ASSERT_EQ(mkfifo((folder.path() / "input_0.bin").c_str(), 0600), 0);
  ExternalProcess process(arm());
  process.load("model.onnx", {full({3}, 2)}, folder.path().string());
  EXPECT_TRUE(std::filesystem::is_regular_file(folder.path() / "input_0.bin"));
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "input_0.bin"), 12U);
}

// Each answer within its own time, together later than all may be. A run may take 0.3 s more than 50 times the usual
// 10 ms by a factor of 0.005.
TEST(HostileArms, AnswersAreLateOnlyOnce) {
  ExternalProcess process(arm("*warm_up*) sleep 0.2; echo '{\"nanoseconds\":199000000}';;"), steady_seconds, 0.005);
  process.run(1);
  EXPECT_THAT(failure([&] {
                for (int i = 0; i < 3; ++i) {
                  process.warm_up(1);
                }
              }),
              HasSubstr("hangs"));
}

TEST(HostileArms, EveryNumberHasItsRange) {
  const TemporaryFolder folder("diptych-arm-test");
  const auto said = [&](const std::string& request, const std::string& answer) {
    const TemporaryFolder files("diptych-arm-test");
    return failure([&] {
      ExternalProcess process(arm("*'\"" + request + "\"'*) echo '" + answer + "';;"));
      process.describe();
      process.load("model.onnx", {}, files.path().string());
      double moved = 0;
      process.check(files.path().string(), kOneAndTwo, request == "check" ? &moved : nullptr);
      process.warm_up(1);
      process.run(1);
      process.peak_bytes();
      process.profile(1, files.path().string());
    });
  };
  for (const char* threads : {"-5", "0", "1.5", "1e9", "\"one\"", "[1]"}) {
    EXPECT_THAT(said("describe", fmt::format(R"({{"protocol":1,"threads":{}}})", threads)),
                AllOf(HasSubstr("describe"), HasSubstr("\"threads\": "), HasSubstr("a whole number from 1 to 65536")));
  }
  for (const char* overhead : {"-1e9", "-1", "2e9", "1e300", "true"}) {
    EXPECT_THAT(said("describe", fmt::format(R"({{"protocol":1,"overhead_nanoseconds":{}}})", overhead)),
                AllOf(HasSubstr("\"overhead_nanoseconds\": "), HasSubstr("a number from 0 to 1e+09")));
  }
  for (const char* field : {"load_seconds", "compile_seconds"}) {
    for (const char* seconds : {"-1", "3600", "1e300", "\"soon\""}) {
      EXPECT_THAT(said("load", fmt::format(R"({{"{}":{}}})", field, seconds)),
                  AllOf(HasSubstr("load: "), HasSubstr(field), HasSubstr("a number from 0 to ")));
    }
  }
  for (const char* moved : {"-1", "\"far\"", "[]"}) {
    const std::string answer =
        fmt::format(R"({{"outputs":[{{"dtype":"f32","shape":[2],"file":"output_0.bin"}}],"moved":{}}})", moved);
    EXPECT_THAT(failure([&] {
                  std::ofstream(folder.path() / "output_0.bin") << "12345678";
                  ExternalProcess process(arm("*check*) echo '" + answer + "';;"));
                  double distance = 0;
                  process.check(folder.path().string(), kOneAndTwo, &distance);
                }),
                HasSubstr("\"moved\": "));
  }
  for (const char* request : {"warm_up", "run"}) {
    for (const char* nanoseconds : {"-5", "0", "1e30", "null"}) {
      EXPECT_THAT(said(request, fmt::format(R"({{"nanoseconds":{}}})", nanoseconds)), HasSubstr("passed here"));
    }
  }
  for (const char* bytes : {"-1", "0.5", "1e300", "\"much\""}) {
    EXPECT_THAT(said("memory", fmt::format(R"({{"peak_bytes":{}}})", bytes)),
                AllOf(HasSubstr("memory: "), HasSubstr("\"peak_bytes\": ")));
  }
  for (const char* node : {R"("seconds":-1)", R"("seconds":3600)", R"("seconds":0,"runs":-1)",
                           R"("seconds":0,"runs":0)", R"("seconds":0,"runs":1e300)"}) {
    EXPECT_THAT(said("profile", fmt::format(R"({{"nodes":[{{"node":"a","op":"Gemm",{}}}]}})", node)),
                HasSubstr("profile: "));
  }
  for (const char* counter : {R"("n":1e300)", R"("x_bytes":0.5)", R"("x_seconds":1e6)", R"("n":-1)"}) {
    EXPECT_THAT(failure([&] {
                  ExternalProcess process(arm(fmt::format("*counters*) echo '{{\"counters\":{{{}}}}}';;", counter)));
                  process.counters();
                }),
                HasSubstr(" was expected"))
        << counter;
  }
}

/// Whether the process is gone, or soon is.
bool is_over(int pid) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream status(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(status, line);
    if (line.empty() || line.find(") Z") != std::string::npos) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

int pid_in(const std::filesystem::path& file) {
  int pid = 0;
  for (int i = 0; i < 500 && pid == 0; ++i) {
    std::ifstream(file) >> pid;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return pid;
}

// In sessions of their own, orphaned, without the environment.
TEST(HostileArms, WhatLeavesItsGroupEndsWithIt) {
  const TemporaryFolder folder("diptych-arm-test");
  const std::string file = (folder.path() / "pid").string();
  const std::string sleeper = fmt::format("sh -c 'echo $$ > {}; exec sleep 1000'", file);
  for (const std::string& start :
       {"setsid " + sleeper + " &", "(setsid " + sleeper + " &)", "(setsid env -i " + sleeper + " &)",
        "(setsid setsid " + sleeper + " & sleep 0.1)"}) {
    for (const bool ends_first : {false, true}) {
      std::filesystem::remove(file);
      int pid = 0;
      {
        ExternalProcess process({"/bin/sh", "-c", start + (ends_first ? "\nsleep 0.3" : "\nread line; sleep 1000")});
        pid = pid_in(file);
        EXPECT_GT(pid, 0);
        if (ends_first) {
          EXPECT_THAT(failure([&] { process.describe(); }), Not(HasSubstr("hangs")));
        }
      }
      EXPECT_TRUE(is_over(pid)) << start << ends_first;
    }
  }
}

TEST(HostileArms, OneThatEndsLeavesAnothersProcessesAlone) {
  const TemporaryFolder folder("diptych-arm-test");
  const std::string file = (folder.path() / "pid").string();
  const ExternalProcess other(
      {"/bin/sh", "-c", fmt::format("(setsid sh -c 'echo $$ > {}; exec sleep 1000' &); read line", file)});
  const int pid = pid_in(file);
  ASSERT_GT(pid, 0);
  { const ExternalProcess process(arm()); }
  EXPECT_TRUE(std::filesystem::exists(fmt::format("/proc/{}", pid)));
}

TEST(HostileArms, WhatItComputesElsewhereCounts) {
  const TemporaryFolder folder("diptych-arm-test");
  const std::string file = (folder.path() / "pid").string();
  ExternalProcess process(
      {"/bin/bash", "-c", fmt::format("(setsid bash -c 'echo $$ > {}; while :; do :; done' &); read line", file)});
  ASSERT_GT(pid_in(file), 0);
  double seconds = 0;
  for (int i = 0; i < 1000 && seconds < 0.2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    seconds = process.cpu_seconds();
  }
  EXPECT_GE(seconds, 0.2);
  EXPECT_THAT(process.threads(), SizeIs(2));
}

}  // namespace
}  // namespace diptych::workloads
