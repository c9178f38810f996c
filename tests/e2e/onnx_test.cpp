// `diptych onnx ...`, and the verbs that take a model file as a workload.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/io/npy.h"
#include "framework/io/onnx/export.h"
#include "framework/ops/creation.h"
#include "reports/run/schema.h"
#include "tests/e2e/program.h"
#include "tests/onnx/builder.h"
#include "tests/support/places.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

class Onnx : public ::testing::Test {
 protected:
  Onnx() {
    const Builder builder = Builder()
                                .input("x", DType::float32, {"batch", 3})
                                .constant("w", full({3, 2}, 0.5))
                                .node("MatMul", {"x", "w"}, {"m"})
                                .node("Tanh", {"m"}, {"y"})
                                .output("y");
    onnx::write_model(*builder.model(), folder_.path() / "small.onnx");
    onnx::write_model(
        *Builder().input("x", DType::float32, {2, 2}).node("ImageDecoder", {"x"}, {"y"}).output("y").model(),
        folder_.path() / "foreign.onnx");
  }
  Outcome run(const std::vector<std::string>& arguments) { return diptych(arguments, folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(Onnx, RunPrintsAndKeepsTheOutputs) {
  const Outcome eager = run({"onnx", "run", "small.onnx", "--dim", "batch=4", "--out", "results"});
  ASSERT_EQ(eager.exit_code, 0) << eager.error;
  EXPECT_THAT(eager.output,
              AllOf(HasSubstr("small.onnx:batch=4"), HasSubstr("random (seed 1)"), HasSubstr("y\tf32[4,2]")));
  const Tensor first = io::load_npy(folder_.path() / "results" / "output_0.npy");
  EXPECT_EQ(first.shape(), (Shape{4, 2}));
  const Outcome graph = run({"onnx", "run", "small.onnx", "--dim", "batch=4", "--mode", "graph", "--out", "results"});
  ASSERT_EQ(graph.exit_code, 0) << graph.error;
  EXPECT_TRUE(bitwise_equal(io::load_npy(folder_.path() / "results" / "output_0.npy"), first));

  io::save_npy(folder_.path() / "x.npy", full({1, 3}, 1));
  const Outcome given = run({"onnx", "run", "small.onnx", "--inputs", "x.npy"});
  ASSERT_EQ(given.exit_code, 0) << given.error;
  EXPECT_THAT(given.output, HasSubstr("0.905148"));  // tanh(1.5)
}

TEST_F(Onnx, WhatIsMissingOrWrongIsNamed) {
  const auto error = [&](std::vector<std::string> arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 1);
    return outcome.error;
  };
  EXPECT_THAT(error({"onnx", "run", "small.onnx"}), AllOf(HasSubstr("\"batch\""), HasSubstr("--dim batch=8")));
  EXPECT_THAT(error({"run", "small.onnx"}), HasSubstr("small.onnx:batch=8"));
  EXPECT_THAT(error({"run", "small.onnx", "--dim", "batch=8"}), HasSubstr("model.onnx:batch=8"));
  EXPECT_THAT(error({"onnx", "run", "small.onnx", "--dim", "bach=4"}),
              AllOf(HasSubstr("\"bach\""), HasSubstr("batch")));
  EXPECT_THAT(error({"onnx", "run", "small.onnx", "--dim", "batch"}), HasSubstr("NAME=LENGTH"));
  EXPECT_THAT(error({"onnx", "run", "missing.onnx"}), HasSubstr("missing.onnx"));
  EXPECT_THAT(error({"onnx", "run", "foreign.onnx"}),
              AllOf(HasSubstr("ImageDecoder, opset 17"), HasSubstr("no such operator")));
  EXPECT_THAT(error({"run", "foreign.onnx"}), HasSubstr("no such operator"));
  EXPECT_THAT(error({"onnx", "rnu"}), HasSubstr("did you mean 'run'"));
  EXPECT_THAT(error({"onnx", "run", "small.onnx", "--rondom"}), HasSubstr("--random"));
  EXPECT_THAT(error({"onnx"}), AllOf(HasSubstr("verb"), HasSubstr("diptych onnx --help")));
  std::ofstream(folder_.path() / "text.onnx") << "no model";
  EXPECT_THAT(error({"onnx", "run", "text.onnx"}), HasSubstr("no ONNX model"));
}

TEST_F(Onnx, EveryMessageNamesTheModel) {
  onnx::write_model(
      *Builder().input("x", DType::float32, {2, 2}).node("NoSuchOperator", {"x"}, {"y"}).output("y").model(),
      folder_.path() / "unknown.onnx");
  onnx::write_model(*Builder()
                         .input("x", DType::float32, {2, 3})
                         .constant("w", full({4, 2}, 0.5))
                         .node("MatMul", {"x", "w"}, {"y"})
                         .output("y")
                         .model(),
                    folder_.path() / "shapes.onnx");
  for (const std::string model : {"unknown.onnx", "shapes.onnx"}) {
    for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
             {"onnx", "run"}, {"run", "small.onnx:batch=2"}, {"ladder"}, {"graph"}, {"profile"}, {"why"}}) {
      std::vector<std::string> arguments = verb;
      arguments.push_back(model);
      EXPECT_THAT(refused(arguments, folder_.path()).error, HasSubstr(model)) << verb[0];
    }
  }
}

TEST_F(Onnx, ResultsOfACheckMayGoToStandardOutput) {
  ASSERT_EQ(run({"onnx", "export", "micro/fusion", "--out", "case"}).exit_code, 0);
  for (const char* place : {"-", "/dev/fd/1"}) {
    const Outcome outcome = run({"onnx", "check", "case", "--json", place});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_EQ(Json::parse(outcome.output)["passed"], 2);
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("PASS case eager"), HasSubstr("2 passed")));
  }
  EXPECT_FALSE(fs::exists(folder_.path() / "-"));
  fs::create_symlink("real.json", folder_.path() / "link.json");
  EXPECT_EQ(run({"onnx", "check", "case", "--json", "link.json"}).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(folder_.path() / "link.json"));
  EXPECT_EQ(read_json(folder_.path() / "real.json")["passed"], 2);
}

// Names of files are bytes. Reports, and the plan of a measuring process, are JSON, which is UTF-8.
TEST_F(Onnx, NamesOfFilesNeedNotBeUtf8) {
  const fs::path& path = folder_.path();
  fs::copy(path / "small.onnx", path / "m\xff.onnx");
  const std::string typed = "m\xff.onnx:batch=4";
  const std::string written = "m\\xff.onnx:batch=4";
  const Outcome outcome = run({"run", typed, "--metric", "exact"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, HasSubstr(written));
  const fs::path measured = run_folder(path);
  const Json json = read_json(measured / "run.json");
  EXPECT_EQ(json["cells"][0]["workload"], written);
  EXPECT_EQ(json["name"], written);
  EXPECT_EQ(json["plan"]["workloads"], Json({written}));
  const Outcome again = run({"reproduce", measured.string(), written, "--run", "--out", "again"});  // as it is shown
  EXPECT_EQ(again.exit_code, 0) << again.error;
  EXPECT_THAT(again.output, HasSubstr("came out again"));
  EXPECT_EQ(run({"graph", typed, "--stage", "captured", "--format", "txt", "--out", "g"}).exit_code, 0);
  EXPECT_EQ(run({"profile", typed, "--out", "p"}).exit_code, 0);
  EXPECT_EQ(run({"onnx", "run", "m\xff.onnx", "--dim", "batch=4"}).exit_code, 0);

  ASSERT_EQ(run({"onnx", "export", "micro/fusion", "--out", "c\xe9\xff"}).exit_code, 0);
  const Outcome checked = run({"onnx", "check", "c\xe9\xff", "--json", "-"});
  EXPECT_EQ(checked.exit_code, 0) << checked.error;
  EXPECT_EQ(Json::parse(checked.output)["cases"][0]["folder"], "c\\xe9\\xff");

  write_text(path / "m\\xff.onnx", "another file");
  for (const std::string& name : {typed, written}) {
    EXPECT_THAT(refused({"run", name}, path).error, HasSubstr("rename one of them"));
  }
}

TEST_F(Onnx, InputsThatNoMemoryHoldsAreRefusedWithTheirSize) {
  onnx::write_model(*Builder()
                         .input("x", DType::float32, {(std::int64_t{1} << 62) + 1000})  // its bytes wrap to 4,000
                         .node("Exp", {"x"}, {"y"})
                         .output("y")
                         .model(),
                    folder_.path() / "huge.onnx");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"onnx", "run", "huge.onnx"}, std::vector<std::string>{"graph", "huge.onnx"}}) {
    const Outcome refused = run(words);
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.error, HasSubstr("its input \"x\": f32[4611686018427388904] takes 1.84e+19 bytes"));
  }
  EXPECT_THAT(run({"onnx", "run", "small.onnx", "--dim", "batch=9223372036854775807"}).error,
              HasSubstr("f32[9223372036854775807,3] takes 1.11e+20 bytes"));
}

TEST_F(Onnx, AModelIsAWorkload) {
  const Outcome outcome = run({"run", "small.onnx:batch=8", "micro/dispatch", "--arms", "eager,graph"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json measured = read_json(run_folder(folder_.path()) / "run.json");
  EXPECT_THAT(reports::validate(measured), IsEmpty());
  ASSERT_THAT(measured["cells"], SizeIs(2));
  EXPECT_EQ(measured["cells"][1]["workload"], "small.onnx:batch=8");
  EXPECT_EQ(measured["cells"][1]["validity"]["agree"], true);
  EXPECT_THAT(measured["cells"][1]["reproduce"].get<std::string>(), HasSubstr("small.onnx:batch=8"));
  const Outcome profiled = run({"profile", "small.onnx:batch=8", "--arm", "eager", "--out", "p"});
  EXPECT_EQ(profiled.exit_code, 0) << profiled.error;
  EXPECT_THAT(profiled.output, AllOf(HasSubstr("matmul"), HasSubstr("tanh")));
  const Outcome drawn = run({"graph", "small.onnx:batch=8", "--out", "g"});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.error;
  const Outcome laddered = run({"ladder", "small.onnx:batch=8", "--out", "l"});
  EXPECT_EQ(laddered.exit_code, 0) << laddered.error;
  EXPECT_THAT(laddered.output, HasSubstr("eager -> replay"));
}

TEST_F(Onnx, ItsGradientsAreAWorkloadToo) {
  const Outcome outcome = run({"run", "small.onnx:batch=8,gradients", "--arms", "eager,graph,ort"});
  const Json cell = read_json(run_folder(folder_.path()) / "run.json")["cells"][0];
  EXPECT_EQ(cell["unit"], "forward and backward pass");
  EXPECT_EQ(cell["validity"]["agree"], true) << outcome.error;
  const std::string why = cell["arms"][2]["failed"];
  EXPECT_TRUE(why == "it computes no gradients" || why.find("ONNX Runtime isn't found") != std::string::npos) << why;
  const Outcome profiled = run({"profile", "small.onnx:batch=8,gradients", "--arms", "eager,graph", "--out", "p"});
  EXPECT_EQ(profiled.exit_code, 0) << profiled.error;
  EXPECT_THAT(profiled.output, AllOf(HasSubstr("tanh"), HasSubstr("(tape)")));
  const Outcome once = run({"onnx", "run", "small.onnx:batch=8,gradients"});
  EXPECT_EQ(once.exit_code, 1);
  EXPECT_THAT(once.error, HasSubstr("`onnx run` prints a model's outputs"));
}

TEST_F(Onnx, NamesOfTheFileStandInGraphsTracesAndTables) {
  const Outcome drawn = run({"graph", "small.onnx:batch=8", "--out", "g", "--stage", "final"});
  ASSERT_EQ(drawn.exit_code, 0) << drawn.error;
  EXPECT_THAT(drawn.output, ::testing::ContainsRegex("\nw +captured +f32\\[3,2\\] +24 B +matmul"));
  EXPECT_THAT(drawn.output, ::testing::ContainsRegex("\nx +argument +f32\\[8,3\\] +96 B +matmul"));
  for (const std::string& name : tree(folder_.path() / "g")) {
    const std::string text = name.ends_with('/') ? "" : read_text(folder_.path() / "g" / name);
    if (name.ends_with(".txt")) {
      EXPECT_THAT(text, AllOf(HasSubstr("captured \"w\""), HasSubstr("argument \"x\"")));
    } else if (name.ends_with(".svg")) {
      EXPECT_THAT(text, AllOf(HasSubstr(">w</text>"), HasSubstr(">x</text>")));
    }
  }
  const Outcome profiled = run({"profile", "small.onnx:batch=8", "--arm", "graph", "--out", "p"});
  ASSERT_EQ(profiled.exit_code, 0) << profiled.error;
  EXPECT_THAT(profiled.output, ::testing::ContainsRegex("\nw +captured +f32\\[3,2\\] +24 B +matmul +[0-9.]+ [nu]s"));
  const fs::path written = folder_.path() / "p" / tree(folder_.path() / "p").front();
  const Json ops = read_json(written / "ops.json");
  ASSERT_THAT(ops["inputs"], SizeIs(2));
  EXPECT_EQ(ops["inputs"][1]["name"], "w");
  std::size_t reads = 0;
  const Json trace = read_json(written / "trace.json");
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "matmul") {
      reads += event["args"]["Reads"] == Json({"x", "w"}) ? 1U : 0U;
    }
  }
  EXPECT_EQ(reads, 10U) << "of each steady call";
}

TEST_F(Onnx, AModelSaysWhetherItCanBeCaptured) {
  const Outcome ready = run({"graph", "small.onnx:batch=4", "--readiness"});
  EXPECT_EQ(ready.exit_code, 0) << ready.output << ready.error;
  EXPECT_THAT(ready.output, HasSubstr("nothing stops or hurts a capture"));
}

TEST_F(Onnx, ExportedModelsCheckAndOneBadCaseEndsNothing) {
  const Outcome exported = run({"onnx", "export", "mlp/digits", "--out", "digits"});
  ASSERT_EQ(exported.exit_code, 0) << exported.error;
  fs::create_directories(folder_.path() / "broken" / "test_data_set_0");
  std::ofstream(folder_.path() / "broken" / "model.onnx") << "no model";
  fs::create_directories(folder_.path() / "foreign" / "test_data_set_0");
  fs::copy(folder_.path() / "foreign.onnx", folder_.path() / "foreign" / "model.onnx");
  write_text(folder_.path() / "list", "broken\n# a comment\n\nforeign\ndigits\n");
  const Outcome checked = run({"onnx", "check", "@list", "--json", "results.json"});
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(checked.output, AllOf(HasSubstr("ERROR broken eager"), HasSubstr("UNSUPPORTED foreign graph"),
                                    HasSubstr("PASS digits eager"), HasSubstr("PASS digits graph"),
                                    HasSubstr("2 passed, 0 failed, 2 unsupported, 2 error")));
  EXPECT_THAT(read_json(folder_.path() / "results.json")["cases"], SizeIs(6));
  for (const char* threads : {"2", "9"}) {
    EXPECT_EQ(run({"onnx", "check", "@list", "--threads", threads}).output, checked.output);
  }
  EXPECT_EQ(run({"onnx", "check", "digits", "foreign", "--mode", "eager"}).exit_code, 0);

  // Another model's results.
  io::save_npy(folder_.path() / "unused.npy", full({1}, 1));
  onnx::write_tensor({"output_0", full({64, 10}, 3)}, folder_.path() / "digits" / "test_data_set_0" / "output_0.pb");
  const Outcome failed = run({"onnx", "check", "digits"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.output, AllOf(HasSubstr("FAIL digits eager"), HasSubstr("3 is recorded")));
}

TEST_F(Onnx, ElementsAreHeldAgainstThemselvesWhereAsked) {
  const Builder builder = Builder().input("x", DType::float32, {2}).node("Identity", {"x"}, {"y"}).output("y");
  const fs::path data = folder_.path() / "same" / "test_data_set_0";
  fs::create_directories(data);
  onnx::write_model(*builder.model(), folder_.path() / "same" / "model.onnx");
  onnx::write_tensor({"x", Tensor::from({8.0F, 0.0F}, {2})}, data / "input_0.pb");
  onnx::write_tensor({"y", Tensor::from({8.0F, 1e-3F}, {2})}, data / "output_0.pb");
  const Outcome whole = run({"onnx", "check", "same", "--json", "whole.json"});
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_THAT(whole.output, AllOf(HasSubstr("PASS same eager maxabs=0.001\n"), HasSubstr("2 passed")));
  const Outcome each = run({"onnx", "check", "same", "--elementwise", "--json", "each.json"});
  EXPECT_EQ(each.exit_code, 1) << each.output;
  EXPECT_THAT(each.output, AllOf(HasSubstr("FAIL same graph maxabs=0.001 elementwise=1 ("), HasSubstr("element 1 is 0"),
                                 HasSubstr("2 failed")));
  for (const char* file : {"whole.json", "each.json"}) {
    std::ifstream stream(folder_.path() / file);
    EXPECT_EQ(Json::parse(stream)["cases"][1]["elementwise"], 1) << file;
  }
}

TEST_F(Onnx, OperatorsAreListed) {
  const Outcome listed = run({"onnx", "ops"});
  EXPECT_EQ(listed.exit_code, 0);
  EXPECT_THAT(listed.output, AllOf(HasSubstr("MatMul"), HasSubstr("Attention"), Not(HasSubstr("|"))));
}

/// An arm that answers as it should, for small.onnx with a batch of 1 and x = 1, 1, 1.
constexpr const char* kArm = R"sh(
while read -r line; do
  [[ $line =~ \"folder\":\"([^\"]*)\" ]] && folder=${BASH_REMATCH[1]}
  [[ $line =~ \"count\":([0-9]+) ]] && count=${BASH_REMATCH[1]}
  case "$line" in
    *describe*) echo '{"protocol":1,"framework":"bash 1","threads":1,"overhead_nanoseconds":5}';;
    *load*) echo '{"load_seconds":0}';;
    *check*) printf '\312\267\147\077\312\267\147\077' > "$folder/o.bin"
      echo '{"outputs":[{"dtype":"f32","shape":[1,2],"file":"o.bin"}]}';;
    *warm_up*|*run*) start=${EPOCHREALTIME/[.,]/}
      for ((i = 0; i < count; i++)); do :; done
      echo "{\"nanoseconds\":$(((${EPOCHREALTIME/[.,]/} - start) * 1000 + 1))}";;
    *memory*) echo '{"peak_bytes":4096}';;
    *exit*) exit 0;;
  esac
done)sh";

/// Whether the process is gone, or soon is.
bool is_gone(int pid) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(status, line);
    if (line.empty() || line.find(") Z") != std::string::npos) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// An orphan in a session of its own, once while all goes well, once when the measuring process is killed.
TEST_F(Onnx, WhatAnArmHidesEndsWithTheRun) {
  io::save_npy(folder_.path() / "x.npy", full({1, 3}, 1));
  write_text(folder_.path() / "arm.sh",
             std::string("(setsid sh -c 'echo $$ > pid; exec sleep 1000' &)\nuntil [ -s pid ]; do :; done\n") + kArm);
  const fs::path file = folder_.path() / "pid";
  for (const bool is_killed : {false, true}) {
    fs::remove(file);
    Process process(diptych_command(
        {"run", "small.onnx:inputs=x.npy", "--arms", "eager,mine", "--arm", "mine=bash arm.sh"}, folder_.path()));
    const auto has_started = [&] { return fs::exists(file) && fs::file_size(file) > 0 && !process.children().empty(); };
    ASSERT_TRUE(process.wait_until(has_started)) << process.so_far().error;
    int pid = 0;
    std::ifstream(file) >> pid;
    ASSERT_GT(pid, 0);
    if (is_killed) {
      kill(process.children().front(), SIGKILL);
    }
    process.finish();
    EXPECT_TRUE(is_gone(pid)) << is_killed;
  }
}

/// The program itself says that it could not tell how long an arm's blocks were: beside others, no fault of the arm.
bool is_disturbed(const Json& arm, const MachineState& machine) {
  const std::string why = arm.value("failed", "");
  const auto says = [&](const char* text) { return why.find(text) != std::string::npos; };
  return !machine.is_quiet() && (says("it leaves out time") || says("too slow for this cell"));
}

TEST_F(Onnx, ArmsOfOnesOwnTakePartAndFailAlone) {
  io::save_npy(folder_.path() / "x.npy", full({1, 3}, 1));
  write_text(folder_.path() / "arm.sh", kArm);
  const Outcome outcome = run({"run", "small.onnx:inputs=x.npy", "--arms", "eager,graph,mine,absent", "--arm",
                               "mine=bash arm.sh", "--arm", "absent=/no/such/program"});
  ASSERT_EQ(outcome.exit_code, 1) << outcome.error;  // a cell is INVALID
  const Json measured = read_json(run_folder(folder_.path()) / "run.json");
  EXPECT_THAT(reports::validate(measured), IsEmpty());
  const Json& cell = measured["cells"][0];
  ASSERT_THAT(cell["arms"], SizeIs(4));
  EXPECT_EQ(cell["arms"][2]["external"]["framework"], "bash 1");
  if (is_disturbed(cell["arms"][2], outcome.machine)) {
    GTEST_SKIP() << cell["arms"][2]["failed"] << "; " << outcome.machine.text();
  }
  EXPECT_FALSE(cell["arms"][2].contains("failed")) << cell["arms"][2];
  EXPECT_TRUE(cell["arms"][2]["seconds"].is_object());
  EXPECT_THAT(cell["arms"][3]["failed"].get<std::string>(), HasSubstr("ended"));
  EXPECT_EQ(cell["comparisons"][2]["verdict"]["verdict"], "INVALID");
  EXPECT_THAT(outcome.output, HasSubstr("absent"));
  EXPECT_THAT(outcome.output,
              ::testing::ContainsRegex("mine against eager: [0-9.]+x \\[[0-9.]+, [0-9.]+\\], [A-Z]+: [a-z]+"));
  EXPECT_THAT(outcome.output, HasSubstr("absent against eager: -, INVALID"));
  EXPECT_THAT(cell["reproduce"].get<std::string>(), HasSubstr("--arm 'mine=bash arm.sh'"));

  // A command recorded in a file isn't run when the file is read.
  const std::string folder = run_folder(folder_.path()).string();
  const std::string name = cell["workload"];
  const Outcome shown = run({"reproduce", folder, name, "--arm", "mine"});
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.output, AllOf(HasSubstr("--arm 'mine=bash arm.sh' --arms eager,mine"), Not(HasSubstr("absent="))));
  const Outcome refused = run({"reproduce", folder, name, "--arm", "mine", "--run"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.error, HasSubstr("commands that stand in the file"));
  const Outcome left_out = run({"run", name, "--arms", "eager", "--arm", "mine=bash arm.sh"});
  EXPECT_EQ(left_out.exit_code, 1);
  EXPECT_THAT(left_out.error, HasSubstr("--arms leaves it out"));
}

TEST_F(Onnx, PeersWriteTheirTable) {
  io::save_npy(folder_.path() / "x.npy", full({1, 3}, 1));
  write_text(folder_.path() / "arm.sh", kArm);
  const Outcome outcome = run({"peers", "mlp/digits", "small.onnx:inputs=x.npy", "--arms", "eager,graph,mine", "--arm",
                               "mine=bash arm.sh", "--markdown", "peers.md"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.error;  // results for small.onnx are INVALID for the other
  const std::string page = read_text(folder_.path() / "peers.md");
  EXPECT_THAT(page, AllOf(HasSubstr("diptych peers mlp/digits small.onnx:inputs=x.npy --arms eager,graph,mine"),
                          HasSubstr("| workload | eager | graph | mine |"),
                          HasSubstr("| small.onnx:inputs=x.npy | mine |"), HasSubstr("bash 1")));
  // For a workload that trains, the trained model.
  EXPECT_THAT(page, HasSubstr("models/mlp-digits-seed-1.onnx | graph |"));
  EXPECT_THAT(page, AllOf(HasSubstr("Missing, and why"), HasSubstr("wrong results")));
}

TEST_F(Onnx, LongNamesFitIntoFiles) {
  const std::string deep = std::string(120, 'a') + "/" + std::string(120, 'b');
  fs::create_directories(folder_.path() / deep);
  fs::copy(folder_.path() / "small.onnx", folder_.path() / deep / "small.onnx");
  const Outcome outcome =
      run({"run", deep + "/small.onnx:batch=1", deep + "/small.onnx:batch=2", "--arms", "eager,graph"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  const auto pictures = fs::directory_iterator(run_folder(folder_.path()) / "graphs");
  EXPECT_EQ(std::distance(fs::begin(pictures), fs::end(pictures)), 2);
}

/// It isn't installed, and says so; anything else that goes wrong with a shipped arm fails the test.
bool is_absent(const Json& arm) {
  const std::string why = arm.value("failed", "");
  const auto says = [&](const char* text) { return why.find(text) != std::string::npos; };
  return says("install") &&
         (says("No module named") || says("ONNX Runtime isn't found") || says("can't start a process"));
}

/// A shipped arm in a run of small.onnx, with a batch that keeps an arm with long calls from being too slow; skips
/// where its framework isn't there, and then expects a line on how to get it.
void expect_it_takes_part(const Outcome& outcome, const fs::path& folder, const std::string& framework) {
  const Json measured = read_json(run_folder(folder) / "run.json");
  EXPECT_THAT(reports::validate(measured), IsEmpty());
  const Json& arm = measured["cells"][0]["arms"][2];
  if (is_absent(arm)) {
    EXPECT_THAT(outcome.error, HasSubstr("install"));
    GTEST_SKIP() << arm["failed"];
  }
  if (is_disturbed(arm, outcome.machine)) {
    GTEST_SKIP() << arm["failed"] << "; " << outcome.machine.text();
  }
  ASSERT_FALSE(arm.contains("failed")) << arm["failed"];
  EXPECT_THAT(arm["external"]["framework"].get<std::string>(), HasSubstr(framework));
  EXPECT_TRUE(arm["seconds"].is_object());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
}

TEST_F(Onnx, TheTemplateIsAnArmInUnder100Lines) {
  const fs::path source = fs::path(places::source()) / "scripts/arms/template_arm.py";
  const std::string text = read_text(source);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 100);
  const Outcome outcome = run({"run", "small.onnx:batch=4096", "--arms", "eager,graph,mine", "--arm",
                               "mine=/usr/bin/python3 '" + source.string() + "'"});
  expect_it_takes_part(outcome, folder_.path(), "numpy");
}

TEST_F(Onnx, PyTorchIsAnArm) {
  const Outcome outcome = run({"run", "small.onnx:batch=4096", "--arms", "eager,graph,torch-eager"});
  expect_it_takes_part(outcome, folder_.path(), "PyTorch");
}

TEST_F(Onnx, PyTorchComputesGradients) {
  const Outcome outcome = run({"run", "small.onnx:batch=4096,gradients", "--arms", "eager,graph,torch-eager"});
  expect_it_takes_part(outcome, folder_.path(), "PyTorch");
}

TEST_F(Onnx, PyTorchTrains) {
  for (const char* optimizer : {"adam", "sgd"}) {
    const Outcome outcome =
        run({"run", std::string("small.onnx:batch=4096,train=") + optimizer, "--arms", "eager,graph,torch-eager"});
    expect_it_takes_part(outcome, folder_.path(), "PyTorch");
    fs::remove_all(run_folder(folder_.path()));
  }
}

TEST_F(Onnx, OnnxRuntimeIsAnArm) {
  const Outcome outcome = run({"run", "small.onnx:batch=4096", "--arms", "eager,graph,ort"});
  expect_it_takes_part(outcome, folder_.path(), "(all optimisations)");
}

TEST_F(Onnx, OnnxRuntimeWithoutItsOptimisationsIsAnArm) {
  const Outcome outcome = run({"run", "small.onnx:batch=4096", "--arms", "eager,graph,ort-off"});
  expect_it_takes_part(outcome, folder_.path(), "(no optimisations)");
}

TEST_F(Onnx, OnnxRuntimeAgreesWithWhatIsExported) {
  std::vector<std::string> arguments = {"run", "--arms", "eager,ort"};
  for (const char* name : {"mlp/digits", "attention/block", "vit/digits", "conv/digits", "gpt/mini"}) {
    std::string folder = name;
    std::replace(folder.begin(), folder.end(), '/', '-');
    const Outcome exported = run({"onnx", "export", name, "--out", folder});
    ASSERT_EQ(exported.exit_code, 0) << exported.error;
    arguments.push_back(folder + "/model.onnx:inputs=" + folder + "/test_data_set_0/input_0.pb");
  }
  const Outcome outcome = run(arguments);
  const Json measured = read_json(run_folder(folder_.path()) / "run.json");
  ASSERT_THAT(measured["cells"], SizeIs(5));
  for (const Json& cell : measured["cells"]) {
    const Json& arm = cell["arms"][1];
    if (is_absent(arm) || is_disturbed(arm, outcome.machine)) {
      GTEST_SKIP() << arm["failed"] << "; " << outcome.machine.text();
    }
    EXPECT_FALSE(arm.contains("failed")) << cell["workload"] << arm["failed"];
  }
}

TEST_F(Onnx, LibtorchIsAnArm) {
  const Outcome outcome = run({"run", "small.onnx:batch=4096", "--arms", "eager,graph,libtorch"});
  expect_it_takes_part(outcome, folder_.path(), "libtorch");
}

}  // namespace
}  // namespace diptych::testing
