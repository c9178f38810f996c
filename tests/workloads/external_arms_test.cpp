// Arms of other frameworks, played by shell scripts: what they say is believed as far as it can be, and one that hangs,
// dies or lies ends only itself.

#include "workloads/harness/cell/external_arms.h"

#include <chrono>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "reports/analysis/analyse.h"
#include "reports/run/schema.h"
#include "reports/views/peers.h"
#include "tests/support/places.h"
#include "tests/workloads/played_arm.h"
#include "workloads/arms/external_process.h"
#include "workloads/harness/cell/cell.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::arm;
using ::testing::ElementsAre;
using testing::failure;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::named;
using ::testing::SizeIs;

/// What the scripts give.
const std::vector<TensorType> kTwo = {{DType::float32, {2}}};

TEST(ExternalProcess, AnswersAreTaken) {
  const TemporaryFolder folder("diptych-arm-test");
  ExternalProcess process(arm());
  EXPECT_EQ(process.describe()["framework"], "bash");
  const ExternalProcess::Loaded loaded = process.load("model.onnx", {full({3}, 2)}, folder.path().string());
  EXPECT_EQ(loaded.compile_seconds, 0);
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "input_0.bin"), 12U);
  const std::vector<Tensor> outputs = process.check(folder.path().string(), kTwo);
  ASSERT_THAT(outputs, SizeIs(1));
  EXPECT_THAT(outputs[0].to_vector<float>(), ElementsAre(1, 2));
  const ExternalProcess::Block block = process.run(1);
  EXPECT_GE(block.said, 0.01);
  EXPECT_GE(block.passed, block.said);
  EXPECT_EQ(process.peak_bytes(), 4096);
}

TEST(ExternalProcess, WhatIsNoAnswerIsAFailureWithItsReason) {
  const TemporaryFolder folder("diptych-arm-test");
  const auto run = [&](const std::string& extra) {
    return failure([&] {
      ExternalProcess process(arm(extra), steady_seconds, 0.005);  // a run may take 0.3 s
      process.describe();
      process.load("model.onnx", {}, folder.path().string());
      process.check(folder.path().string(), kTwo);
      process.run(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // what it says in excess has come by then
      process.run(1);
    });
  };
  EXPECT_THAT(failure([] { ExternalProcess process({"/no/such/program"}); }), HasSubstr("/no/such/program"));
  EXPECT_THAT(run("*describe*) echo '{\"protocol\":2}';;"), HasSubstr("protocol 2"));
  EXPECT_THAT(run("*describe*) echo '{\"error\":\"PyTorch is not installed\"}';;"),
              HasSubstr("PyTorch is not installed"));
  EXPECT_THAT(run("*describe*) echo hello;;"), AllOf(HasSubstr("describe"), HasSubstr("\"hello\"")));
  EXPECT_THAT(run("*load*) exit 3;;"), AllOf(HasSubstr("load"), HasSubstr("exit code 3")));
  EXPECT_THAT(run("*load*) kill -9 $$;;"), HasSubstr("signal 9"));
  EXPECT_THAT(run("*run*) sleep 60;;"), AllOf(HasSubstr("run"), HasSubstr("hangs")));
  EXPECT_THAT(run("*run*) echo '{\"nanoseconds\":1e12}';;"), HasSubstr("passed here"));
  EXPECT_THAT(run("*run*) echo '{\"nanoseconds\":-5}';;"), HasSubstr("passed here"));
  EXPECT_THAT(run("*run*) echo '{\"nanoseconds\":\"fast\"}';;"), HasSubstr("passed here"));
  EXPECT_THAT(run("*run*) printf '{\"nanoseconds\":9}\\n{\"nanoseconds\":9}\\n';;"), HasSubstr("before it is asked"));
  EXPECT_THAT(run("*run*) printf '{\"nanoseconds\"'; exit 4;;"), HasSubstr("exit code 4"));
  EXPECT_THAT(run("*load*) echo '{\"error\":\"no memory\"}'; exit 1;;"), HasSubstr("no memory"));
  EXPECT_THAT(
      run("*run*) while :; do printf aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done;;"),
      AllOf(HasSubstr("run"), ::testing::AnyOf(HasSubstr("megabyte"), HasSubstr("hangs"))));
  EXPECT_THAT(run("*run*) head -c 3000000 /dev/zero | tr '\\0' '['; echo;;"), HasSubstr("megabyte"));
}

TEST(ExternalProcess, DeepNestingIsNoAnswer) {
  ExternalProcess process(
      arm("*describe*) printf '{\"protocol\":1,\"x\":'; head -c 400000 /dev/zero | tr '\\0' '['; "
          "head -c 400000 /dev/zero | tr '\\0' ']'; echo '}';;"));
  EXPECT_THAT(failure([&] { process.describe(); }), HasSubstr("is no answer"));
}

TEST(ExternalProcess, WhatItHasStartedEndsWithIt) {
  const TemporaryFolder folder("diptych-arm-test");
  const std::string file = (folder.path() / "pid").string();
  {
    ExternalProcess process({"/bin/sh", "-c", R"(sleep 1000 & echo $! > "$0"; read line; wait)", file});
    for (int i = 0; i < 500 && !std::filesystem::exists(file); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  std::ifstream pid_file(file);
  int pid = 0;
  ASSERT_TRUE(pid_file >> pid);
  bool is_gone = false;
  for (int i = 0; i < 500 && !is_gone; ++i) {
    std::ifstream status(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(status, line);
    is_gone = line.empty() || line.find(") Z") != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(is_gone);
}

TEST(ExternalProcess, OutputsThatAreNotThereAreAFailure) {
  const TemporaryFolder folder("diptych-arm-test");
  std::ofstream(folder.path() / "output_0.bin") << "1234";
  const auto check = [&](const std::string& outputs) {
    return failure([&] {
      ExternalProcess process(arm("*check*) echo '{\"outputs\":" + outputs + "}';;"));
      process.check(folder.path().string(), kTwo);
    });
  };
  EXPECT_THAT(check("3"), HasSubstr("no list of outputs"));
  EXPECT_THAT(check("[]"), HasSubstr("0 outputs, not 1"));
  EXPECT_THAT(check("[3]"), HasSubstr("isn't described"));
  EXPECT_THAT(check(R"([{"dtype":1,"shape":[2],"file":"output_0.bin"}])"), HasSubstr("isn't described"));
  EXPECT_THAT(check(R"([{"dtype":"f32","shape":[2],"file":[]}])"), HasSubstr("isn't described"));
  EXPECT_THAT(check(R"([{"dtype":"f32","shape":[2],"file":"output_0.bin"}])"), HasSubstr("as it is described"));
  EXPECT_THAT(check(R"([{"dtype":"f16","shape":[2],"file":"output_0.bin"}])"), HasSubstr("wrong results"));
  EXPECT_THAT(check(R"([{"dtype":"f32","shape":[-1],"file":"output_0.bin"}])"), HasSubstr("wrong results"));
  EXPECT_THAT(check(R"([{"dtype":"f32","shape":[99999999999],"file":"output_0.bin"}])"), HasSubstr("wrong results"));
  EXPECT_THAT(check(R"([{"dtype":"f32","shape":[2],"file":"/etc/passwd"}])"), HasSubstr("as it is described"));
}

TEST(ExternalProcess, CountersAreNumbersWithPlainNames) {
  const auto answer = [](const std::string& said) { return arm("*counters*) echo '" + said + "';;"); };
  const auto refused = [&](const std::string& said) {
    return failure([&] {
      ExternalProcess process(answer(said));
      process.counters();
    });
  };
  ExternalProcess process(answer(R"({"counters":{"graph_breaks":2,"compile_seconds":0.001}})"));
  EXPECT_EQ(process.counters(), (json{{"graph_breaks", 2}, {"compile_seconds", 0.001}}));
  EXPECT_THAT(refused("{}"), HasSubstr("no object of up to 32 counters"));
  EXPECT_THAT(refused(R"({"counters":[1]})"), HasSubstr("no object of up to 32 counters"));
  EXPECT_THAT(refused(R"({"counters":{"a <b>":1}})"), HasSubstr(R"("a <b>" is 1)"));
  EXPECT_THAT(refused(R"({"counters":{"":1}})"), HasSubstr(R"("" is 1)"));
  EXPECT_THAT(refused(R"({"counters":{"n":-1}})"), HasSubstr(R"("n": -1; a number from 0)"));
  EXPECT_THAT(refused(R"({"counters":{"n":"many"}})"), HasSubstr(R"("n": "many"; a number from 0)"));
  EXPECT_THAT(refused(R"({"counters":{"n":1e999}})"), HasSubstr("no answer"));
  std::string many;
  for (int i = 0; i < 33; ++i) {
    many += fmt::format("{}\"n{}\":0", i == 0 ? "" : ",", i);
  }
  EXPECT_THAT(refused("{\"counters\":{" + many + "}}"), HasSubstr("no object of up to 32 counters"));
}

/// x + 1 on two elements: {1, 2} from {0, 1}, as the script gives; a millisecond if `slow`, as a script's answer takes.
class PlusOne final : public Program {
 public:
  explicit PlusOne(bool slow) : slow_(slow) {}
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    if (slow_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {inputs[0] + 1.0};
  }

 private:
  bool slow_;
  std::array<Tensor, 1> inputs_{Tensor::from({0.0F, 1.0F}, {2})};
};

Workload plus_one(bool slow) {
  return {.name = "test/plus-one",
          .suite = "test",
          .title = "adds",
          .unit = "call",
          .check_steps = 1,
          .make = [slow](std::uint64_t) { return std::make_unique<PlusOne>(slow); }};
}

/// A cell of eager and arms that play `scripts`, by name.
json measured(const std::map<std::string, std::string>& scripts, bool slow = true) {
  const Workload workload = plus_one(slow);
  CellPlan plan{.workload = &workload,
                .arms = {find_arm("eager")},
                .settings = {.process_seed = 5, .layout_seed = 9, .rounds = 3, .block_seconds = 0.0005},
                .full_check = true};
  for (const auto& [name, extra] : scripts) {
    plan.arms.push_back(&add_external_arm(name, arm(extra)));
  }
  return measure_cell(plan, [](const std::string&) {});
}

/// A run of that cell alone.
json analysed_run(const json& cell) {
  json run = {{"schema", reports::schema_id},
              {"name", "test"},
              {"created", "2026-01-01T00:00:00Z"},
              {"status", "complete"},
              {"command", {"diptych", "run"}},
              {"size", {{"name", "quick"}, {"processes", 1}, {"rounds", 3}}},
              {"seed", 1},
              {"threads", 1},
              {"numerics", "exact"},
              {"environment", json::object()},
              {"cells", {cell}}};
  run["cells"][0].update({{"workload", "test/plus-one"},
                          {"suite", "test"},
                          {"title", "adds"},
                          {"unit", "call"},
                          {"reproduce", "diptych run test/plus-one"},
                          {"comparisons", json::array()},
                          {"rungs", json::array()}});
  reports::analyse(run);
  EXPECT_THAT(reports::validate(run), IsEmpty());
  return run;
}

TEST(ExternalArms, StandBesideTheEnginesInTheSameRounds) {
  const json cell = measured({{"test-good", ""}});
  EXPECT_EQ(cell["validity"]["agree"], true) << cell["validity"];
  const json& process = cell["processes"][0];
  for (const json& round : process["rounds"]) {
    EXPECT_THAT(round["seconds"], SizeIs(2));
    EXPECT_GT(round["seconds"]["test-good"], 0);
  }
  EXPECT_EQ(named(process["arms"], "test-good")["compile_seconds"], 0);
  EXPECT_EQ(named(process["arms"], "test-good")["load_seconds"], 0);
  EXPECT_GT(named(process["arms"], "test-good")["protocol_seconds"], 0);
  EXPECT_GT(named(process["arms"], "test-good")["start_seconds"], 0);
  EXPECT_EQ(named(process["arms"], "test-good")["memory"]["peak_rss_bytes"], 4096);
  EXPECT_EQ(named(cell["arms"], "test-good")["external"]["framework"], "bash");
  EXPECT_EQ(named(cell["arms"], "test-good")["in_ladder"], false);
}

TEST(ExternalArms, OneThatFailsIsInvalidAlone) {
  const json cell = measured({{"test-wrong",
                               "*check*) printf '\\0\\0\\0\\0\\0\\0\\0\\100' > \"$folder/output_0.bin\"\n"
                               "echo '{\"outputs\":[{\"dtype\":\"f32\",\"shape\":[2],\"file\":\"output_0.bin\"}]}';;"},
                              {"test-dies-late",
                               "*warm_up*|*run*) n=$((n+1)); [ $n -gt 2 ] && kill -9 $$; "
                               "sleep 0.06; echo '{\"nanoseconds\":59000000}';;"},
                              {"test-fine", ""}});
  EXPECT_EQ(cell["validity"]["agree"], true);
  EXPECT_THAT(named(cell["arms"], "test-wrong")["failed"].get<std::string>(),
              AllOf(HasSubstr("wrong results"), HasSubstr("element 0")));
  EXPECT_THAT(named(cell["arms"], "test-dies-late")["failed"].get<std::string>(), HasSubstr("signal 9"));
  EXPECT_FALSE(named(cell["arms"], "test-fine").contains("failed"));
  for (const json& round : cell["processes"][0]["rounds"]) {
    EXPECT_THAT(round["seconds"], SizeIs(2)) << round;  // eager, test-fine
    EXPECT_THAT(round["order"], SizeIs(2)) << round;
  }
  const json run = analysed_run(cell);
  for (const json& comparison : run["cells"][0]["comparisons"]) {
    const bool fails = comparison["arm"] == "test-wrong" || comparison["arm"] == "test-dies-late";
    EXPECT_EQ(comparison["verdict"]["verdict"] == "INVALID", fails) << comparison;
    EXPECT_EQ(comparison["verdict"]["reason"] == "arm-failed", fails) << comparison;
  }
}

TEST(ExternalArms, OneThatLiesAboutItsTimeIsInvalidAndMovesNobodysCounts) {
  const json cell =
      measured({{"test-fast-liar", "*warm_up*|*run*) sleep 0.06; echo '{\"nanoseconds\":1}';;"}, {"test-honest", ""}});
  EXPECT_THAT(named(cell["arms"], "test-fast-liar")["failed"].get<std::string>(), HasSubstr("leaves out time"));
  EXPECT_FALSE(named(cell["arms"], "test-honest").contains("failed"));
  EXPECT_LT(cell["processes"][0]["iterations"].get<int>(), 100'000);
}

TEST(ExternalArms, OneThatIsTooSlowForTheCellIsOut) {
  const json cell =
      measured({{"test-slow", "*warm_up*|*run*) sleep 0.2; echo '{\"nanoseconds\":199000000}';;"}}, false);
  EXPECT_THAT(named(cell["arms"], "test-slow")["failed"].get<std::string>(), HasSubstr("too slow"));
  EXPECT_THAT(cell["processes"][0]["rounds"][0]["seconds"], SizeIs(1));
}

TEST(ExternalArms, ResultsAreLookedAtAgainAfterTheRounds) {
  const json cell =
      measured({{"test-drifts",
                 "*check*) n=$((n+1)); if [ $n -gt 1 ]; then printf '\\0\\0\\0\\0\\0\\0\\0\\100'; "
                 "else printf '\\0\\0\\200\\077\\0\\0\\0\\100'; fi > \"$folder/output_0.bin\"\n"
                 "echo '{\"outputs\":[{\"dtype\":\"f32\",\"shape\":[2],\"file\":\"output_0.bin\"}]}';;"}});
  EXPECT_THAT(named(cell["arms"], "test-drifts")["failed"].get<std::string>(), HasSubstr("wrong results"));
}

TEST(ExternalArms, AnothersResultsDoNotPass) {
  // It writes nothing, and names the file that the arm before it has written.
  const json cell =
      measured({{"test-a-writes", ""},
                {"test-b-copies",
                 "*check*) echo '{\"outputs\":[{\"dtype\":\"f32\",\"shape\":[2],\"file\":\"output_0.bin\"}]}';;"}});
  EXPECT_FALSE(named(cell["arms"], "test-a-writes").contains("failed"));
  EXPECT_THAT(named(cell["arms"], "test-b-copies")["failed"].get<std::string>(), HasSubstr("as it is described"));
}

/// An arm whose two outputs are {1e6, 2} and {0.5, 0.5}, and which computes gradients; it keeps the request to load.
constexpr const char* kGradients = R"sh(
    *describe*) echo '{"protocol":1,"framework":"bash","threads":1,"gradients":true}';;
    *load*) printf '%s' "$line" > "$KEPT"; echo '{}';;
    *check*) printf '\0\044\164\111\0\0\0\100' > "$folder/output_0.bin"
      printf '\0\0\0\077\0\0\0\077' > "$folder/output_1.bin"
      echo '{"outputs":[{"dtype":"f32","shape":[2],"file":"output_0.bin"},{"dtype":"f32","shape":[2],"file":"output_1.bin"}]}';;
)sh";

TEST(ExternalArms, GradientsAreForThoseThatComputeThem) {
  const TemporaryFolder folder("diptych-arm-test");
  const std::string kept = (folder.path() / "request").string();
  setenv("KEPT", kept.c_str(), 1);
  const auto failure_of = [&](const std::string& name, const std::string& extra, const std::vector<float>& second) {
    ExternalArm external(add_external_arm(name, arm(extra)), steady_seconds);
    external.start(
        {.file = "model.onnx", .inputs = {full({3}, 2)}, .gradients = {.by = {"x", "w"}, .cotangents = {full({4}, 1)}}},
        {Tensor::from({1e6F, 2.0F}, {2}), Tensor::from(second, {2})}, folder.path().string());
    return external.failure();
  };
  EXPECT_EQ(failure_of("test-forward", "", {0, 0}), "it computes no gradients");
  // Less than a millionth of the largest gradient of all is rounding.
  EXPECT_EQ(failure_of("test-backward", kGradients, {0, 0}), "");
  EXPECT_THAT(failure_of("test-backward-wrong", kGradients, {-1, 0}), HasSubstr("element 0 of output 1"));
  unsetenv("KEPT");
  std::ifstream file(kept);
  const json request = json::parse(file);
  EXPECT_THAT(request["inputs"], SizeIs(1));
  EXPECT_EQ(request["gradients"]["by"], (json{"x", "w"}));
  ASSERT_THAT(request["gradients"]["cotangents"], SizeIs(1));
  EXPECT_EQ(request["gradients"]["cotangents"][0]["shape"], json{4});
  EXPECT_EQ(std::filesystem::file_size(request["gradients"]["cotangents"][0]["file"].get<std::string>()), 16U);
}

/// An arm whose gradient is {0.5, -1.5}, and which says that training moved the weights by `moved`.
std::string trainer(const std::string& moved) {
  return R"sh(
    *describe*) echo '{"protocol":1,"framework":"bash","threads":1,"gradients":true,"training":true}';;
    *load*) printf '%s' "$line" > "$KEPT"; echo '{}';;
    *check*) printf '\0\0\0\077\0\0\300\277' > "$folder/output_0.bin"
      echo '{"outputs":[{"dtype":"f32","shape":[2],"file":"output_0.bin"}])sh" +
         moved + "}';;\n";
}

TEST(ExternalArms, TrainingMovesTheWeightsOrIsNone) {
  const TemporaryFolder folder("diptych-arm-test");
  const std::string kept = (folder.path() / "request").string();
  setenv("KEPT", kept.c_str(), 1);
  const auto failure_of = [&](const std::string& name, const std::string& extra, OnnxOptimizer optimizer) {
    ExternalArm external(add_external_arm(name, arm(extra)), steady_seconds);
    external.start({.file = "model.onnx",
                    .inputs = {full({3}, 2)},
                    .gradients = {.by = {"w"}, .cotangents = {full({4}, 1)}, .optimizer = described(optimizer)},
                    .optimizer = optimizer,
                    .weights = {full({2}, 0)}},
                   {Tensor::from(std::vector<float>{0.5F, -1.5F}, {2})}, folder.path().string());
    return external.failure();
  };
  // One that computes gradients alone would be faster than those that train.
  EXPECT_EQ(failure_of("test-gradients-only", kGradients, OnnxOptimizer::sgd), "it doesn't train");
  // A rate of 1e-6: by SGD the mean of 5e-7 and 1.5e-6, by Adam 1e-6 each.
  EXPECT_EQ(failure_of("test-sgd", trainer(R"(,"moved":1e-6)"), OnnxOptimizer::sgd), "");
  EXPECT_EQ(failure_of("test-adam", trainer(R"(,"moved":9.9e-7)"), OnnxOptimizer::adam), "");
  EXPECT_THAT(failure_of("test-lazy", trainer(R"(,"moved":0)"), OnnxOptimizer::adam),
              HasSubstr("wrong results: its first step of training moves the weights by 0 in the mean, not 1e-06"));
  EXPECT_THAT(failure_of("test-unmoved", trainer(""), OnnxOptimizer::adam), HasSubstr("doesn't say how far"));
  EXPECT_THAT(failure_of("test-odd", trainer(R"(,"moved":"far")"), OnnxOptimizer::adam),
              HasSubstr(R"("moved": "far"; a number from 0)"));
  unsetenv("KEPT");
  std::ifstream file(kept);
  EXPECT_EQ(json::parse(file)["gradients"]["optimizer"],
            (json{{"name", "adam"}, {"lr", 1e-6}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}}));
}

TEST(ExternalArms, AloneTheyHaveNothingToBeCheckedAgainst) {
  const Workload workload = plus_one(false);
  const CellPlan plan{.workload = &workload,
                      .arms = {&add_external_arm("test-alone", arm())},
                      .settings = {.process_seed = 5, .layout_seed = 9, .rounds = 3, .block_seconds = 0.0005},
                      .full_check = true};
  EXPECT_THROW(measure_cell(plan, [](const std::string&) {}), Error);
}

/// The answers of a recorded conversation ("> request", "< answer"), for arm(): all but its times, which are played.
std::map<std::string, std::string> recorded(const std::string& file) {
  std::map<std::string, std::string> answers;
  std::ifstream stream(std::filesystem::path(diptych::testing::places::source()) / "tests/workloads" / file);
  for (std::string request, answer; std::getline(stream, request) && std::getline(stream, answer);) {
    answers[json::parse(request.substr(2))["do"]] = answer.substr(2);
  }
  return answers;
}

// A conversation with scripts/arms/torch_arm.py, recorded by torch_compile_arm.py: what torch.compile has counted.
TEST(ExternalArms, WhatACompilerCountsBecomesMetricsOfTheRun) {
  const std::map<std::string, std::string> answers = recorded("torch_compile.transcript");
  ASSERT_TRUE(answers.contains("counters"));
  std::string script;
  for (const char* request : {"describe", "memory", "counters"}) {
    script += fmt::format("*'\"{}\"'*) echo '{}';;\n", request, answers.at(request));
  }
  script +=
      "*'\"load\"'*) start=${EPOCHREALTIME/[.,]/}; until ((${EPOCHREALTIME/[.,]/} - start >= 500000)); do :; done\n";
  script += fmt::format("echo '{}';;\n", answers.at("load"));
  script += "*'\"check\"'*) printf '\\0\\0\\200\\077\\0\\0\\0\\100' > \"$folder/output_0.bin\"\n";
  script += fmt::format("echo '{}';;\n", answers.at("check"));
  const json run = analysed_run(measured({{"test-recorded", script}, {"test-silent", ""}}));
  const json& cell = run["cells"][0];
  const json& process = cell["processes"][0];
  ASSERT_FALSE(named(cell["arms"], "test-recorded").contains("failed")) << cell["arms"];
  EXPECT_EQ(named(process["arms"], "test-recorded")["framework_counters"],
            json::parse(answers.at("counters"))["counters"]);
  EXPECT_EQ(named(process["arms"], "test-recorded")["compile_seconds"],
            json::parse(answers.at("load"))["compile_seconds"]);
  EXPECT_FALSE(named(process["arms"], "test-silent").contains("framework_counters"));
  const auto metric = [](const char* name, double value, const char* unit) {
    return json{{"name", name}, {"arm", "test-recorded"}, {"value", value}, {"unit", unit}};
  };
  EXPECT_THAT(cell["metrics"],
              ElementsAre(metric("autograd cache hits", 2, ""), metric("cache hits", 2, ""),
                          metric("cache misses", 0, ""), metric("compile time", 0.25, "seconds"),
                          metric("graph breaks", 2, ""), metric("graphs", 2, ""), metric("recompiles", 1, "")));
  const std::string page = reports::render_peers(run);
  EXPECT_THAT(page, HasSubstr("| autograd cache hits | cache hits | cache misses | compile time | graph breaks |"));
  EXPECT_THAT(page, HasSubstr("| test/plus-one | test-recorded | 2 | 2 | 0 | 250 ms | 2 | 2 | 1 |"));
}

TEST(ExternalArms, NamesAreOwnAndPlain) {
  add_external_arm("test-name", {"/bin/true"});
  EXPECT_EQ(&add_external_arm("test-name", {"/bin/true"}), find_arm("test-name"));
  EXPECT_THROW(add_external_arm("test-name", {"/bin/false"}), Error);
  EXPECT_THROW(add_external_arm("eager", {"/bin/true"}), Error);
  EXPECT_THROW(add_external_arm("Not plain", {"/bin/true"}), Error);
}

}  // namespace
}  // namespace diptych::workloads
