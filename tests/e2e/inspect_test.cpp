// The verbs that show: `list`, `doctor`, `graph`, `profile`.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/parallel.h"
#include "framework/graph/ir.h"
#include "tests/e2e/program.h"
#include "tests/reports/well_formed.h"
#include "tests/support/on_one_cpu.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

std::string output_of(const std::vector<std::string>& arguments) {
  TemporaryFolder folder;
  const Outcome outcome = diptych(arguments, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  EXPECT_FALSE(has_control_characters(outcome.output));
  EXPECT_THAT(tree(folder.path()), IsEmpty());
  return outcome.output;
}

TEST(List, WorkloadsArmsPassesOps) {
  const std::string all = output_of({"list"});
  for (const char* name : {"mlp/digits", "mlp/simplenet", "attention/sdpa-causal-2048", "vit/b16", "conv/resnet18",
                           "gpt/mini", "reference/rigid-512", "reference/rigid-32", "micro/dispatch",
                           "micro/dispatch-tape", "micro/fusion", "eager", "replay", "graph"}) {
    EXPECT_THAT(all, HasSubstr(name));
  }
  EXPECT_THAT(all, AllOf(HasSubstr("* mlp/digits "), HasSubstr("  vit/b16 ")));  // in the default set, and not
  EXPECT_THAT(output_of({"list", "--suite", "mlp"}),
              AllOf(HasSubstr("mlp/digits"), HasSubstr("mlp/simplenet"), Not(HasSubstr("micro/"))));
  EXPECT_THAT(output_of({"list", "--passes"}), AllOf(HasSubstr("cse"), HasSubstr("dce"), HasSubstr("memory-plan")));
  EXPECT_THAT(output_of({"list", "--ops"}), AllOf(HasSubstr("matmul"), HasSubstr("add"), HasSubstr("log_softmax")));
}

TEST(Doctor, SaysWhatTheMachineCanMeasure) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"doctor"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  for (const char* subject : {"hardware counters", "clock", "frequency", "virtualisation", "cores", "steal"}) {
    EXPECT_THAT(outcome.output, HasSubstr(subject));
  }
}

TEST(DoctorFigures, ItTakesTwoSeconds) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"doctor"}, folder.path());
  EXPECT_LT(outcome.cpu_seconds, 2);
  expect_passed(outcome.seconds, 2, outcome.machine);
}

TEST(Doctor, JsonSaysWhyCountersAreMissing) {
  const Json json = Json::parse(output_of({"doctor", "--json"}));
  EXPECT_TRUE(json["fingerprint"].contains("cpu"));
  ASSERT_TRUE(json["counters"]["hardware"].is_boolean());
  if (json["counters"]["hardware"] == false) {
    EXPECT_NE(json["counters"]["hardware_reason"], "");
  }
}

TEST(Doctor, SaysWhatThreadsWouldBring) {
  TemporaryFolder folder;
  const auto doctor = [&] { return Json::parse(diptych({"doctor", "--json"}, folder.path()).output); };
  const int cpus = std::min(usable_cpus(), kMostThreads);
  if (cpus > 1) {
    const Json scaling = doctor()["scaling"];
    EXPECT_EQ(scaling["threads"], cpus);
    for (const char* of : {"compute", "memory"}) {  // how much isn't the test's: other programs may run
      EXPECT_GT(scaling[of].get<double>(), 0.1);
    }
    EXPECT_THAT(diptych({"doctor"}, folder.path()).output, HasSubstr(std::to_string(cpus) + " of them compute "));
  }
  const OnOneCpu one;
  EXPECT_FALSE(doctor().contains("scaling"));
  EXPECT_THAT(diptych({"doctor"}, folder.path()).output, HasSubstr("this process may use one CPU"));
}

/// IR text without the comments behind it: what `fuse` didn't.
std::string without_refusals(const std::string& text) {
  const std::size_t end = text.find("\n# Not in one kernel:\n");
  return text.substr(0, end);
}

TEST(Graph, EveryStageAsTextAndPicture) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"graph", "mlp/digits", "--stage", "all"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const fs::path written = run_folder(folder.path());
  EXPECT_THAT(written.filename().string(), HasSubstr("graph-mlp-digits"));
  const std::vector<std::string> names = tree(written);
  std::size_t texts = 0;
  for (const char* stage :
       {"captured", "constant-folding", "simplify", "cse", "dce", "epilogue", "multi-tensor", "fuse"}) {
    EXPECT_THAT(names, Contains(::testing::EndsWith(std::string("-") + stage + ".txt")));
    EXPECT_THAT(names, Contains(::testing::EndsWith(std::string("-") + stage + ".svg")));
    EXPECT_THAT(outcome.output, HasSubstr(stage));
  }
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    EXPECT_THAT(outcome.output, HasSubstr(name));  // it says what it wrote
    const std::string content = read_text(written / name);
    if (name.ends_with(".txt")) {
      const graph::Graph parsed = graph::parse(content);
      EXPECT_NO_THROW(graph::verify(parsed));
      EXPECT_EQ(graph::print(parsed), without_refusals(content));
      EXPECT_EQ(content != without_refusals(content), name.ends_with("-fuse.txt"));
      EXPECT_THAT(content, HasSubstr("matmul"));
      ++texts;
    } else if (name == "graph.html") {
      EXPECT_EQ(reports::testing::markup_problem(content), "");
    } else {
      EXPECT_EQ(reports::testing::markup_problem(content), "");
      EXPECT_TRUE(content.starts_with("<svg") || content.starts_with("<?xml"));
      EXPECT_THAT(content, HasSubstr("matmul"));
    }
  }
  EXPECT_EQ(texts * 2 + 1, names.size());
  EXPECT_EQ(names.back(), "graph.html");
  // Sorted by number: captured comes first, the last pass last.
  EXPECT_LT(graph::parse(read_text(written / names[names.size() - 2])).nodes.size(),
            graph::parse(read_text(written / names[1])).nodes.size());
  const std::string last = (written / names[names.size() - 2]).string();
  const Outcome checked = diptych({"graph", last, "--check-passes"}, folder.path());
  EXPECT_EQ(checked.exit_code, 0) << checked.error;
  EXPECT_THAT(checked.output, HasSubstr("those of eager: outputs and states of 2 steps"));
}

TEST(Graph, OneStageAndFormat) {
  const auto written = [](const std::vector<std::string>& options) {
    TemporaryFolder folder;
    std::vector<std::string> arguments = {"graph", "micro/dispatch-tape"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = diptych(arguments, folder.path());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    std::map<std::string, std::string> files;
    for (const std::string& name : tree(run_folder(folder.path()))) {
      files[name] = read_text(run_folder(folder.path()) / name);
    }
    return files;
  };
  const auto dce = written({"--stage", "dce", "--format", "txt"});
  ASSERT_THAT(dce, SizeIs(1));
  EXPECT_THAT(dce.begin()->first, HasSubstr("dce.txt"));
  const auto last = written({"--stage", "final", "--format", "txt,dot"});
  ASSERT_THAT(last, SizeIs(2));
  EXPECT_EQ(without_refusals(last.rbegin()->second), dce.begin()->second);  // there is nothing to fuse
  EXPECT_THAT(last.rbegin()->second, HasSubstr("#   %2 add -> %3 tanh: unprofitable by 2 ns"));
  EXPECT_THAT(last.begin()->first, HasSubstr(".dot"));
  EXPECT_THAT(last.begin()->second, AllOf(HasSubstr("digraph"), HasSubstr("->"), HasSubstr("tanh")));
  EXPECT_THAT(written({"--stage", "captured"}), SizeIs(3));
}

/// The boxes of the picture that a page shows without script.
std::size_t first_boxes(const std::string& page) {
  const std::string figure = page.substr(0, page.find("<h2>Stages"));
  std::size_t count = 0;
  for (std::size_t at = figure.find("class=\"dg-node"); at != std::string::npos;
       at = figure.find("class=\"dg-node", at + 1)) {
    ++count;
  }
  return count;
}

TEST(Graph, ExplorerOpensWithOnePictureThatFitsAScreen) {
  struct Expected {
    std::string workload, repeat, count;
    std::size_t most_boxes;
  };
  for (const Expected& expected : {Expected{"vit/tiny", ">blocks.0 to blocks.11<", "× 12, 20 ops each", 40},
                                   Expected{"gpt/mini", ">module 3 to 1<", "× 3", 50}}) {
    SCOPED_TRACE(expected.workload);
    TemporaryFolder folder;
    const Outcome outcome = diptych({"graph", expected.workload, "--format", "html"}, folder.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_THAT(outcome.output, HasSubstr("graph.html"));
    ASSERT_THAT(tree(run_folder(folder.path())), SizeIs(1));
    const std::string page = read_text(run_folder(folder.path()) / "graph.html");
    EXPECT_EQ(reports::testing::markup_problem(page), "");
    EXPECT_LT(page.size(), 5'000'000U);
    EXPECT_GT(first_boxes(page), 5U);
    EXPECT_LE(first_boxes(page), expected.most_boxes);
    EXPECT_THAT(page, AllOf(HasSubstr(expected.repeat), HasSubstr(expected.count), HasSubstr("after fuse"),
                            Not(HasSubstr("plain layout"))));
    const std::size_t start = page.find(R"(id="data">)") + 10;
    const Json data = Json::parse(page.substr(start, page.find("</script>", start) - start));
    EXPECT_EQ(data["workload"], expected.workload);
    EXPECT_FALSE(data["refusals"].empty());
    for (const Json& level : data["levels"]) {
      EXPECT_LE(level["boxes"].size(), expected.most_boxes);
    }
  }
}

TEST(Graph, TimesOfBothArmsStandOnThePage) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"graph", "mlp/digits", "--format", "html", "--times"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const std::string page = read_text(run_folder(folder.path()) / "graph.html");
  const std::size_t start = page.find(R"(id="data">)") + 10;
  const Json data = Json::parse(page.substr(start, page.find("</script>", start) - start));
  ASSERT_THAT(data["times"]["arms"], SizeIs(2));
  std::size_t timed = 0;
  for (std::size_t arm = 0; arm < 2; ++arm) {
    double sum = 0;
    for (const auto& [source, times] : data["times"]["ops"].items()) {
      sum += times[arm].is_null() ? 0 : times[arm][0].get<double>();
      timed += times[arm].is_null() ? 0 : 1;
    }
    EXPECT_GT(sum, 0.1 * data["times"]["arms"][arm]["seconds"].get<double>());
    EXPECT_LE(sum, 1.01 * data["times"]["arms"][arm]["seconds"].get<double>());
  }
  EXPECT_GT(timed, 40U) << "of 69 nodes in eager, and their kernels in graph";
  expect_usage_error({"graph", "mlp/digits", "--format", "txt", "--times"}, "add html to it");
}

TEST(Graph, SaysWhatToDoWhereMemoryIsRefused) {
  TemporaryFolder folder;
  std::ofstream(folder.path() / "large.txt") << "graph \"large\"(%0: f32[20000,20000] argument \"x\") {\n"
                                                "  %1: f32[20000,20000] = exp(%0)\n"
                                                "  return %1\n"
                                                "}\n";
  Command command = diptych_command({"graph", "large.txt", "--format", "txt"}, folder.path());
  command.memory_limit = std::size_t{1200} << 20U;  // x takes 1.5 GiB
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("out of memory: the system refused 1.6e+09 bytes; raise its limit"));
}

TEST(Graph, SaysWhatIsNotFusedAndWhy) {
  TemporaryFolder folder;
  const std::string output =
      diptych({"graph", "mlp/simplenet", "--stage", "fuse", "--format", "txt"}, folder.path()).output;
  EXPECT_THAT(output, ::testing::ContainsRegex(
                          "fused: [0-9]+ ops in [0-9]+ kernels; [0-9]+ results are read by ops in other kernels"));
  EXPECT_THAT(output, HasSubstr("kind (one of them can't be computed in tiles)"));
  EXPECT_THAT(output, ::testing::ContainsRegex("unprofitable by [0-9]+ ns \\(a kernel of both would take longer"));
}

TEST(Graph, TimesItsFusedKernels) {
  TemporaryFolder folder;
  const Outcome timed = diptych({"graph", "micro/fusion", "--time-fused"}, folder.path());
  EXPECT_EQ(timed.exit_code, 0) << timed.error;
  EXPECT_THAT(timed.output, AllOf(HasSubstr("fused / apart"), HasSubstr("square, neg, exp"), HasSubstr("and 4 more"),
                                  HasSubstr("1 fused kernel"), HasSubstr("of them lose")));
  EXPECT_THAT(diptych({"graph", "micro/dispatch", "--time-fused"}, folder.path()).output,
              HasSubstr("nothing is fused"));
}

TEST(Graph, ChecksItsPassesAndItsReadiness) {
  TemporaryFolder folder;
  for (const char* workload : {"mlp/digits", "attention/written-out"}) {
    const Outcome checked = diptych({"graph", workload, "--check-passes"}, folder.path());
    EXPECT_EQ(checked.exit_code, 0) << checked.output << checked.error;
    EXPECT_THAT(checked.output, AllOf(HasSubstr("the same, value by value"), HasSubstr("those of eager")));
    const Outcome ready = diptych({"graph", workload, "--readiness"}, folder.path());
    EXPECT_EQ(ready.exit_code, 0) << ready.output << ready.error;
    EXPECT_THAT(ready.output, HasSubstr("nothing stops or hurts a capture"));
  }
}

struct Zone {
  std::int64_t start, end;  ///< nanoseconds
  std::string name;
};

/// A JSON number of microseconds with three decimals, in whole nanoseconds.
std::int64_t nanoseconds(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

/// Zones by thread: each lies inside or outside every other one.
void expect_nested(std::vector<Zone> zones) {
  std::stable_sort(zones.begin(), zones.end(),
                   [](const Zone& a, const Zone& b) { return a.start != b.start ? a.start < b.start : a.end > b.end; });
  std::vector<Zone> open;
  for (const Zone& zone : zones) {
    while (!open.empty() && open.back().end <= zone.start) {
      open.pop_back();
    }
    if (!open.empty()) {
      ASSERT_LE(zone.end, open.back().end) << zone.name << " ends after " << open.back().name << " around it";
    }
    open.push_back(zone);
  }
}

class ProfileOf : public ::testing::TestWithParam<const char*> {};

TEST_P(ProfileOf, TraceAndTableOfDigits) {
  const std::string arm = GetParam();
  TemporaryFolder folder;
  Process process(diptych_command({"profile", "mlp/digits", "--arm", arm, "--steps", "4"}, folder.path()));
  const Outcome outcome = process.finish();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("mlp/digits, " + arm + ": 4 steady calls"), HasSubstr("matmul"),
                                    HasSubstr("self"), HasSubstr("trace.json")));
  const fs::path written = run_folder(folder.path());
  EXPECT_THAT(unfinished_files(folder.path()), IsEmpty());

  const Json trace = read_json(written / "trace.json");
  std::map<std::int64_t, std::vector<Zone>> threads;
  std::set<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    ASSERT_EQ(event["pid"], process.pid());
    ASSERT_TRUE(event["tid"].is_number_integer());
    if (event["ph"] != "X") {
      continue;
    }
    ASSERT_TRUE(event["ts"].is_number() && event["dur"].is_number()) << event;
    ASSERT_GE(event["ts"], 0);
    ASSERT_GE(event["dur"], 0);
    const std::int64_t start = nanoseconds(event["ts"]);
    threads[event["tid"]].push_back({start, start + nanoseconds(event["dur"]), event["name"]});
    names.insert(event["name"].get<std::string>());
  }
  ASSERT_FALSE(threads.empty());
  EXPECT_TRUE(threads.count(process.pid())) << "the main thread's id is the process's";
  for (const auto& [id, zones] : threads) {
    expect_nested(zones);
  }
  EXPECT_THAT(names, AllOf(Contains("matmul"), Contains("ProfilerStep#0"), Contains("ProfilerStep#3"),
                           Not(Contains("ProfilerStep#4"))));

  const Json table = read_json(written / "ops.json");
  ASSERT_FALSE(table["rows"].empty());
  std::int64_t self = 0;
  for (const Json& row : table["rows"]) {
    EXPECT_LE(row["self_ns"], row["total_ns"]);
    self += row["self_ns"].get<std::int64_t>();
    if (row["name"] == "matmul") {
      // 3 layers (their forward passes are `linear`): gradients of weights, and of inputs of all but the first.
      EXPECT_EQ(row["calls"], 4 * 5);
    }
  }
  if (threads.size() == 1) {  // then self times add up to what was covered
    EXPECT_EQ(self, table["covered_ns"]);
  }
}
INSTANTIATE_TEST_SUITE_P(Arms, ProfileOf, ::testing::Values("eager", "eager-pipelined", "replay", "graph"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace diptych::testing
