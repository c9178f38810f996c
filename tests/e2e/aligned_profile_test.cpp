// `diptych profile --arms`: several arms in one profile.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/text/plain_svg.h"
#include "tests/e2e/program.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// The seconds of an arm over all rows.
double sum_of(const Json& profile, std::size_t arm) {
  double sum = 0;
  for (const Json& row : profile["rows"]) {
    sum += row["arms"][arm]["seconds"].is_number() ? row["arms"][arm]["seconds"].get<double>() : 0;
  }
  return sum;
}

void expect_sums(const Json& profile) {
  for (std::size_t arm = 0; arm < profile["arms"].size(); ++arm) {
    const double total = profile["arms"][arm]["seconds"];
    EXPECT_GT(total, 0);
    EXPECT_NEAR(sum_of(profile, arm), total, 1e-9 * total + 1e-12) << profile["arms"][arm]["name"];
  }
}

// 100 ops of 15 ns in a graph: every one traced would take twice as long. What is said of ops adds up to what a call
// takes when nothing is traced; measured again if the machine changed its speed meanwhile.
TEST(ProfileOfArms, TracesFewCallsOfManySmallOps) {
  std::vector<double> ratios;
  const auto add_up = [&] {
    return std::all_of(ratios.begin(), ratios.end(), [](double r) { return r > 0.6 && r < 1.7; });
  };
  for (int attempt = 0; attempt < 3 && (ratios.empty() || !add_up()); ++attempt) {
    TemporaryFolder folder;
    const Outcome outcome = diptych({"profile", "micro/dispatch", "--arms", "eager,graph"}, folder.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_THAT(outcome.output, ::testing::ContainsRegex("tracing graph: one call in [0-9]+ is traced: "));
    const Json profile = read_json(run_folder(folder.path()) / "ops.json");
    expect_sums(profile);
    ratios.clear();
    for (std::size_t arm = 0; arm < 2; ++arm) {
      const Json& tracing = profile["tracing"]["arms"][arm];
      EXPECT_GT(tracing["every"], 1);
      ratios.push_back(profile["arms"][arm]["seconds"].get<double>() / tracing["untraced_seconds"].get<double>());
    }
  }
  EXPECT_TRUE(add_up()) << "eager " << ratios[0] << ", graph " << ratios[1];
}

TEST(ProfileOfArms, JoinsEagerAndGraphOpByOp) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"profile", "mlp/digits", "--arms", "eager,graph", "--steps", "4"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("mlp/digits, eager beside graph: 4 steady calls of each, in turns"), HasSubstr("matmul"),
                    HasSubstr("same kernel"), HasSubstr("view, no kernel"), HasSubstr("folded while compiling"),
                    HasSubstr("(tape)"), HasSubstr("(outside ops)"), HasSubstr("trace-graph.json"),
                    HasSubstr("tracing: a zone takes "),
                    // Where the clock is slow, as kvm-clock is, a zone takes so long that only some calls are traced.
                    AnyOf(HasSubstr("tracing graph: a call takes "), HasSubstr("tracing graph: one call in "))));
  const fs::path written = run_folder(folder.path());
  EXPECT_THAT(written.filename().string(), HasSubstr("profile-mlp-digits-eager-graph"));
  EXPECT_THAT(tree(written), ElementsAre("flame.svg", "memory.json", "memory.svg", "memory.txt", "ops.csv", "ops.json",
                                         "ops.txt", "stacks-eager.txt", "stacks-graph.txt", "stacks.speedscope.json",
                                         "trace-eager.json", "trace-graph.json", "trace.json"));
  const Json profile = read_json(written / "ops.json");
  EXPECT_EQ(profile["by"], "op");
  EXPECT_EQ(profile["steps"], 4);
  expect_sums(profile);
  ASSERT_EQ(profile["tracing"]["arms"].size(), 2U);
  for (const Json& arm : profile["tracing"]["arms"]) {
    EXPECT_GT(arm["zones"], 10) << "a zone an op";
    if (arm["every"] == 1) {
      EXPECT_LT(arm["corrected_seconds"], arm["traced_seconds"]);
    } else {  // what a zone takes is measured in these few calls, and may not be seen
      EXPECT_LE(arm["corrected_seconds"], arm["traced_seconds"]);
    }
    EXPECT_LE(arm["change_low"], arm["change_high"]);
  }
  EXPECT_THAT(outcome.output, AnyOf(HasSubstr("counters of ops: "), HasSubstr("not counted here: ")));
  for (const Json& row : profile["rows"]) {
    if (row["kind"] == "ops") {
      EXPECT_GT(row["ops"], 0) << row["name"] << " is no op of the capture";
    }
    if (row["name"] == "matmul") {
      EXPECT_EQ(row["ops"], 5);
      EXPECT_EQ(row["arms"][1]["fates"][0]["fate"], "kernel");
    }
  }
  for (const char* name : {"trace-eager.json", "trace-graph.json"}) {
    int steps = 0;
    const Json trace = read_json(written / name);
    for (const Json& event : trace["traceEvents"]) {
      steps += event["name"].get<std::string>().starts_with("ProfilerStep#") ? 1 : 0;
    }
    EXPECT_EQ(steps, 4) << name;
  }
  const std::string flames = read_text(written / "flame.svg");
  EXPECT_TRUE(reports::is_plain_svg(flames));
  EXPECT_THAT(flames, HasSubstr("matmul: eager "));
  for (std::size_t arm = 0; arm < 2; ++arm) {  // their nanoseconds are the arm's, but for what runs at one time
    std::istringstream lines(read_text(written / (arm == 0 ? "stacks-eager.txt" : "stacks-graph.txt")));
    double sum = 0;
    for (std::string line; std::getline(lines, line);) {
      sum += std::stod(line.substr(line.rfind(' ') + 1)) * 1e-9;
    }
    const double total = profile["arms"][arm]["seconds"];
    EXPECT_NEAR(sum, total, 0.01 * total);
  }
  const std::string csv = read_text(written / "ops.csv");
  EXPECT_THAT(csv, ::testing::StartsWith("op,kind,ops,eager_seconds,eager_estimate,graph_seconds,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + std::ssize(profile["rows"]));
}

/// What an arena holds at one time lies apart.
void expect_apart(const Json& arm) {
  std::vector<Json> blocks;
  for (const Json& block : arm["blocks"]) {
    if (!block["offset"].is_null()) {
      EXPECT_LE(block["offset"].get<std::int64_t>() + block["bytes"].get<std::int64_t>(), arm["arena_bytes"]);
      blocks.push_back(block);
    }
  }
  EXPECT_GT(blocks.size(), 10U);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto overlap = [&](const Json& a_from, const Json& a_to, const Json& b_from, const Json& b_to) {
        return a_from < b_to && b_from < a_to;
      };
      const auto end = [](const Json& block) {
        return Json(block["offset"].get<std::int64_t>() + block["bytes"].get<std::int64_t>());
      };
      EXPECT_FALSE(overlap(blocks[i]["from_seconds"], blocks[i]["to_seconds"], blocks[j]["from_seconds"],
                           blocks[j]["to_seconds"]) &&
                   overlap(blocks[i]["offset"], end(blocks[i]), blocks[j]["offset"], end(blocks[j])))
          << blocks[i] << " and " << blocks[j];
    }
  }
}

TEST(ProfileOfArms, MemoryOfATrainingStep) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"profile", "mlp/digits", "--arms", "eager,graph", "--steps", "4"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("memory of eager: at most "), HasSubstr("its arena has ")));
  const fs::path written = run_folder(folder.path());
  EXPECT_TRUE(reports::is_plain_svg(read_text(written / "memory.svg")));
  const Json memory = read_json(written / "memory.json");
  const Json& eager = memory["arms"][0];
  const Json& graph = memory["arms"][1];
  // The step's exact metric, which the allocator counts by itself.
  const Outcome run = diptych({"run", "mlp/digits", "--arms", "eager,graph", "--quick"}, folder.path());
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const Json metrics = read_json(folder.path() / "diptych-out" / "latest" / "run.json")["cells"][0]["arms"];
  EXPECT_EQ(eager["peak_bytes"], metrics[0]["exact"]["peak_bytes"]);
  EXPECT_EQ(graph["arena_bytes"], metrics[1]["exact"]["planned_peak_bytes"]);
  EXPECT_TRUE(eager["arena_bytes"].is_null());
  EXPECT_LE(graph["peak_bytes"], eager["peak_bytes"]);
  expect_apart(graph);
}

/// The events of a trace by their phase.
std::map<std::string, std::vector<Json>> by_phase(const fs::path& path) {
  std::map<std::string, std::vector<Json>> events;
  const Json trace = read_json(path);
  for (const Json& event : trace["traceEvents"]) {
    events[event["ph"]].push_back(event);
  }
  return events;
}

/// The zone that an end of an arrow is bound to: the innermost that is open.
const Json& zone_at(const std::vector<Json>& zones, const Json& end) {
  const Json* found = nullptr;
  for (const Json& zone : zones) {
    const double begin = zone["ts"];
    if (zone["tid"] == end["tid"] && begin <= end["ts"] &&
        end["ts"].get<double>() <= begin + zone["dur"].get<double>() &&
        (found == nullptr || begin >= found->at("ts").get<double>())) {
      found = &zone;
    }
  }
  EXPECT_NE(found, nullptr) << end;
  return *found;
}

TEST(ProfileOfArms, TracesLinkOpsGradientsAndKernels) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"profile", "mlp/digits", "--arms", "eager,graph", "--steps", "2"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  auto events = by_phase(run_folder(folder.path()) / "trace.json");
  std::map<std::string, int> arrows;
  std::map<std::pair<std::string, int>, const Json*> starts;
  for (const Json& start : events["s"]) {
    starts[{start["name"], start["id"]}] = &start;
  }
  EXPECT_EQ(starts.size(), events["s"].size()) << "no id twice";
  ASSERT_EQ(starts.size(), events["f"].size());
  for (const Json& end : events["f"]) {
    const Json& start = *starts.at({end["name"], end["id"]});
    ASSERT_LE(start["ts"], end["ts"]);
    const Json& from = zone_at(events["X"], start);
    const Json& to = zone_at(events["X"], end);
    ++arrows[end["name"]];
    if (end["name"] == "fwdbwd") {
      EXPECT_EQ(from["args"]["Sequence number"], to["args"]["Sequence number"]) << from << to;
      continue;
    }
    const auto sources = [](const Json& zone) {
      return zone["args"].contains("Source ops") ? zone["args"]["Source ops"].get<std::set<int>>()
                                                 : std::set<int>{zone["args"]["External id"].get<int>()};
    };
    std::set<int> common;
    std::ranges::set_intersection(sources(from), sources(to), std::inserter(common, common.end()));
    EXPECT_FALSE(common.empty()) << from << to;
  }
  EXPECT_GE(arrows["fwdbwd"], 2 * 2 * 4) << "of two calls of two arms, at least the layers and the loss";
  EXPECT_GE(arrows["same op"], 2 * 30);
  for (const Json& zone : events["X"]) {
    if (zone["name"] == "linear" && zone["cat"] == "cpu_op") {
      EXPECT_EQ(zone["args"]["Input Dims"][0][0], 64) << zone;  // the batch
      EXPECT_EQ(zone["args"]["Input type"][0], "float");
    }
  }
}

TEST(ProfileOfArms, TakesOnnxRuntimesOwnProfile) {
  // Its steps are timed before it profiles them: where other programs slow one of the two down, they are measured
  // again.
  double share = 0;
  for (int attempt = 0; attempt < 4 && share <= 0.8; ++attempt) {
    TemporaryFolder folder;
    const Outcome outcome =
        diptych({"profile", "vit/reference-b1", "--arms", "eager,graph,ort", "--steps", "4"}, folder.path());
    if (outcome.exit_code != 0 && outcome.error.find("isn't found") != std::string::npos) {
      GTEST_SKIP() << "ONNX Runtime isn't installed (docs/arms.md): " << outcome.error;
    }
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    const Json profile = read_json(run_folder(folder.path()) / "ops.json");
    expect_sums(profile);
    ASSERT_EQ(profile["arms"].size(), 3U);
    double matched = 0;
    for (const Json& row : profile["rows"]) {
      const Json& ort = row["arms"][2];
      const bool is_ours = row["kind"] == "ops" && row["ops"] > 0;
      matched += is_ours && ort["seconds"].is_number() ? ort["seconds"].get<double>() : 0;
      if (row["name"] == "linear" || row["name"] == "conv2d") {
        EXPECT_TRUE(ort["seconds"].is_number()) << row;
        EXPECT_EQ(ort["fates"][0]["fate"], "node");
      }
    }
    share = matched / profile["arms"][2]["seconds"].get<double>();
  }
  EXPECT_GT(share, 0.8) << "most of its time is some op's of ours";
}

TEST(ProfileOfArms, AnotherFrameworkThatCannotTakePartSaysWhy) {
  TemporaryFolder folder;
  Command command = diptych_command({"profile", "micro/fusion", "--arms", "eager,ort"}, folder.path());
  command.environment["DIPTYCH_ONNXRUNTIME"] = "/nowhere/libonnxruntime.so.1";
  const Outcome outcome = run_command(command);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("ort: "), HasSubstr("/nowhere/libonnxruntime.so.1")));
  EXPECT_FALSE(fs::exists(folder.path() / "diptych-out" / "latest"));
  const Outcome training = diptych({"profile", "mlp/digits", "--arms", "eager,ort"}, folder.path());
  EXPECT_NE(training.exit_code, 0);
  EXPECT_THAT(training.error, HasSubstr("more than a model's forward pass"));
}

TEST(ProfileOfArms, ThreeArmsByModule) {
  TemporaryFolder folder;
  const Outcome outcome = diptych(
      {"profile", "gpt/mini-infer", "--arms", "eager,replay,graph", "--by", "scope", "--steps", "2"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, HasSubstr("eager beside replay beside graph"));
  const fs::path written = run_folder(folder.path());
  EXPECT_THAT(read_text(written / "ops.txt"), HasSubstr("0.self_attention.key"));  // the terminal shows the largest
  const Json profile = read_json(written / "ops.json");
  expect_sums(profile);
  for (const Json& row : profile["rows"]) {
    EXPECT_FALSE(row["name"].get<std::string>().starts_with("(no source op)")) << row["name"] << ": not aligned";
  }
}

TEST(ProfileOfArms, WrongUsageSaysWhatToSay) {
  for (const auto& [arguments, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--arms", "eager"}, "--arms eager,graph, or --arm eager"},
           {{"--arms", "eager,eager"}, "stands there twice"},
           {{"--arms", "ort,eager"}, "say --arms eager,ort"},
           {{"--arm", "ort"}, "--arms eager,graph,ort"},
           {{"--arms", "eager,grap"}, "'graph'"},
           {{"--arms", "ladder"}, "the base first"},
           {{"--arms", "eager,graph", "--by", "colour"}, "--by"},
           {{"--by", "scope"}, "add --arms eager,graph"},
           {{"--arm", "eager", "--arms", "eager,graph"}, "excludes"},
       }) {
    std::vector<std::string> words = {"profile", "micro/dispatch"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    expect_usage_error(words, said);
  }
}

}  // namespace
}  // namespace diptych::testing
