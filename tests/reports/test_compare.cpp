// Comparisons of two runs. Expected values: Welch's t by Python (numpy's moments, t quantiles of published tables), and
// known effects put into simulated runs.

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/gate/compare.h"
#include "reports/run/fingerprint.h"
#include "reports/run/json_access.h"
#include "reports/statistics/welch.h"
#include "reports/views/compare_views.h"
#include "tests/reports/compared.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::refusal;
using testing::sample_run;
using testing::SampleCell;
using testing::slowed_run;

const Json& row(const Json& comparison, const std::string& arm, const std::string& metric) {
  static const Json none;
  for (const Json& candidate : comparison["rows"]) {
    if (candidate["arm"] == arm && candidate["metric"] == metric) {
      return candidate;
    }
  }
  return none;
}

// Means 2 and 5, variances 1 and 2.5 (of 3 and 5 values): t = 3 / sqrt(1/3 + 1/2) = 3.28634; degrees
// (5/6)^2 / ((1/3)^2/2 + (1/2)^2/4) = 100/17 = 5.88235.
TEST(Welch, MatchesTheFormulaByHand) {
  const auto effect = independent_effect(std::vector{1.0, 2.0, 3.0}, std::vector{3.0, 4.0, 5.0, 6.0, 7.0});
  ASSERT_TRUE(effect);
  EXPECT_DOUBLE_EQ(effect->value, 3);
  EXPECT_NEAR(effect->standard_error, std::sqrt(5.0 / 6), 1e-15);
  EXPECT_NEAR(effect->degrees, 100.0 / 17, 1e-12);
}

// t_{0.975, 4} = 2.776445, t_{0.95, 4} = 2.131847, t_{0.9, 4} = 1.533206 (any table); s = sqrt(2.5), n = 5.
TEST(Welch, PairedIntervalAndDetectableEffectByTable) {
  const auto effect = paired_effect(std::vector{1.0, 2.0, 3.0, 4.0, 5.0});
  ASSERT_TRUE(effect);
  const double error = std::sqrt(0.5);
  EXPECT_NEAR(*effect_interval(*effect, 0.95).low, 3 - 2.776445 * error, 1e-5);
  EXPECT_NEAR(effect_mde(*effect, 0.05, 0.9), (2.776445 + 1.533206) * error, 1e-5);
  EXPECT_TRUE(effect_equivalent(*effect, 3 + 2.131847 * error + 1e-4));
  EXPECT_FALSE(effect_equivalent(*effect, 3 + 2.131847 * error - 1e-4));
  EXPECT_NEAR(effect_p(*effect, 3 - 2.776445 * error), 0.05, 1e-6);
}

TEST(Welch, TooFewSamplesSayNothingAndNoSpreadIsCertain) {
  EXPECT_FALSE(paired_effect(std::vector{1.0}));
  EXPECT_FALSE(independent_effect(std::vector{1.0, 2.0}, std::vector{1.0}));
  const auto same = independent_effect(std::vector{1.0, 1.0}, std::vector{1.0, 1.0});
  EXPECT_EQ(effect_p(*same, 0), 1);
  const auto moved = independent_effect(std::vector{1.0, 1.0}, std::vector{2.0, 2.0});
  EXPECT_EQ(effect_p(*moved, 0.5), 0);
  EXPECT_EQ(effect_p(*moved, 1.5), 1);
}

TEST(Compare, TheSameRunIsEquivalentInAll) {
  const Json run = slowed_run();
  const Json comparison = compare_runs(run, run);
  EXPECT_EQ(comparison["schema"], "diptych.compare/1");
  EXPECT_EQ(comparison["summary"]["verdict"], "EQUIVALENT");
  EXPECT_EQ(comparison["machine"]["same"], "same");
  EXPECT_THAT(comparison["environment"], IsEmpty());
  // eager: dispatches, allocations, peak, time; for a graph also nodes and planned peak.
  EXPECT_EQ(comparison["rows"].size(), 4u + 6u + 6u);
  EXPECT_EQ(row(comparison, "graph", "time")["ratio"]["estimate"], 1.0);
  EXPECT_THAT(comparison["notes"][0].get<std::string>(), HasSubstr("not interleaved"));
}

TEST(Compare, FindsASlowdownAndItsReverse) {
  const Json slow = compare_runs(slowed_run(1, 1), slowed_run(1.10, 2));
  EXPECT_EQ(row(slow, "graph", "time")["verdict"], "REGRESSED");
  EXPECT_NEAR(row(slow, "graph", "time")["ratio"]["estimate"].get<double>(), 1.10, 0.025);
  EXPECT_LT(row(slow, "graph", "time")["ratio"]["low"].get<double>(), 1.10);
  EXPECT_GT(row(slow, "graph", "time")["ratio"]["high"].get<double>(), 1.10);
  const Json fast = compare_runs(slowed_run(1.10, 2), slowed_run(1, 1));
  EXPECT_EQ(row(fast, "graph", "time")["verdict"], "IMPROVED");
  EXPECT_EQ(slow["summary"]["verdict"], "REGRESSED");
  EXPECT_EQ(fast["summary"]["verdict"], "IMPROVED");
}

TEST(Compare, NoVerdictWithoutItsDetectableChange) {
  const Json comparison = compare_runs(slowed_run(1, 1), slowed_run(1.02, 2));
  const Json& time = row(comparison, "eager", "time");
  EXPECT_EQ(time["verdict"], "INCONCLUSIVE");
  EXPECT_EQ(time["reason"], "effect-below-mde");
  EXPECT_GT(time["detectable"].get<double>(), 0.02);
  EXPECT_GT(time["p_holm"].get<double>(), 0.01);
}

// Two hundred comparisons of equal runs, three rows each: at a family-wise level of 1 % about two of them may alarm if
// the margin were zero; the margin of 2 % leaves none.
TEST(Compare, FalseAlarmsStayBelowTheLevel) {
  int alarms = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::string verdict = compare_runs(slowed_run(1, 2 * i + 1), slowed_run(1, 2 * i + 2))["summary"]["verdict"];
    alarms += verdict == "REGRESSED" || verdict == "IMPROVED" ? 1 : 0;
  }
  EXPECT_LE(alarms, 2);
}

// The machine's speed wanders between rounds; the head is 3 % slower in each. Rounds that stand beside each other see
// the same machine, medians of each side's rounds don't.
TEST(Compare, RoundsOfProcessesThatTookTurnsArePaired) {
  Json base = slowed_run(1, 1);
  Json head = base;
  for (auto& process : base["cells"][0]["processes"]) {
    const auto i = static_cast<std::size_t>(&process - &base["cells"][0]["processes"][0]);
    Json& other = head["cells"][0]["processes"][i];
    for (std::size_t r = 0; r < process["rounds"].size(); ++r) {
      for (const char* arm : {"eager", "replay", "graph"}) {
        const double seconds = 1e-4 * (1 + 0.1 * static_cast<double>((r * 5 + i) % 12));
        process["rounds"][r]["seconds"][arm] = seconds;
        other["rounds"][r]["seconds"][arm] = seconds * (r % 3 == 0 ? 1.02 : r % 3 == 1 ? 1.03 : 1.04);
      }
    }
    process["turns"] = other["turns"] = true;
  }
  CompareOptions options;
  options.interleaved = true;
  const Json paired = row(compare_runs(base, head, options), "graph", "time");
  EXPECT_NEAR(paired["ratio"]["estimate"].get<double>(), 1.03, 1e-9);
  EXPECT_EQ(paired["verdict"], "REGRESSED");
  // One that ended early, or other numbers of rounds: by the medians.
  const auto medians = [&](const Json& b, const Json& h) {
    return row(compare_runs(b, h, options), "graph", "time")["ratio"]["estimate"].get<double>();
  };
  Json alone = base;
  for (Json& process : alone["cells"][0]["processes"]) {
    process["turns"] = false;
  }
  EXPECT_GT(std::abs(medians(alone, head) - 1.03), 1e-6);
}

TEST(Compare, InterleavedEffectsArePaired) {
  Json base = slowed_run(1, 1);
  Json head = base;
  // Each process has a machine of its own speed; the head is 3.5 % slower in each.
  double speed = 0.5;
  for (std::size_t i = 0; i < base["cells"][0]["processes"].size(); ++i, speed += 0.2) {
    for (std::size_t r = 0; r < base["cells"][0]["processes"][i]["rounds"].size(); ++r) {
      for (const char* arm : {"eager", "replay", "graph"}) {
        Json& b = base["cells"][0]["processes"][i]["rounds"][r]["seconds"][arm];
        b = b.get<double>() * speed;
        head["cells"][0]["processes"][i]["rounds"][r]["seconds"][arm] =
            b.get<double>() * (1.035 + 0.001 * static_cast<double>(i % 3));
      }
    }
  }
  CompareOptions options;
  EXPECT_EQ(row(compare_runs(base, head, options), "graph", "time")["verdict"], "INCONCLUSIVE");
  options.interleaved = true;
  const Json paired = compare_runs(base, head, options);
  EXPECT_EQ(row(paired, "graph", "time")["verdict"], "REGRESSED");
  EXPECT_EQ(paired["design"], "interleaved");
}

TEST(Compare, ExactMetricsAllowNoChange) {
  const Json base = slowed_run();
  Json head = base;
  Json& exact = head["cells"][0]["arms"][2]["exact"];
  exact["nodes"] = exact["nodes"].get<int>() + 1;
  exact["allocations"] = 1;
  exact["planned_peak_bytes"] = nullptr;
  const Json comparison = compare_runs(base, head);
  EXPECT_EQ(row(comparison, "graph", "nodes")["verdict"], "REGRESSED");
  EXPECT_EQ(row(comparison, "graph", "allocations")["verdict"], "IMPROVED");
  EXPECT_EQ(row(comparison, "graph", "planned_peak_bytes")["verdict"], "INVALID");
  EXPECT_EQ(row(comparison, "graph", "planned_peak_bytes")["reason"], "not-measured");
  EXPECT_EQ(row(comparison, "graph", "peak_bytes")["verdict"], "EQUIVALENT");
}

TEST(Compare, FromNothingToSomethingIsARegression) {
  Json base = slowed_run();
  Json head = base;
  base["cells"][0]["arms"][0]["exact"]["allocations"] = 0;
  head["cells"][0]["arms"][0]["exact"]["allocations"] = 3;
  EXPECT_EQ(row(compare_runs(base, head), "eager", "allocations")["verdict"], "REGRESSED");
  EXPECT_EQ(row(compare_runs(head, base), "eager", "allocations")["verdict"], "IMPROVED");
  EXPECT_EQ(row(compare_runs(base, base), "eager", "allocations")["verdict"], "EQUIVALENT");
}

TEST(Compare, InstructionsMayMoveByHalfAPercent) {
  Json base = slowed_run();
  const auto counted = [&](double count) {
    Json run = base;
    run["cells"][0]["arms"][0]["instructions"] = {{"value", count}, {"isa", "avx2"}};
    return run;
  };
  const auto verdict = [&](double a, double b) {
    return row(compare_runs(counted(a), counted(b)), "eager", "instructions")["verdict"].get<std::string>();
  };
  EXPECT_EQ(verdict(1e6, 1.0049e6), "EQUIVALENT");
  EXPECT_EQ(verdict(1e6, 1.0051e6), "REGRESSED");
  EXPECT_EQ(verdict(1e6, 0.99e6), "IMPROVED");
  EXPECT_TRUE(row(compare_runs(base, base), "eager", "instructions").is_null());
  Json other = counted(1e6);
  other["cells"][0]["arms"][0]["instructions"]["isa"] = "generic";
  EXPECT_EQ(row(compare_runs(counted(1e6), other), "eager", "instructions")["reason"], "instruction-sets-differ");
  Json missing = base;
  missing["cells"][0]["arms"][0]["instructions"] = {{"value", nullptr}, {"reason", "valgrind is not installed"}};
  for (const Json& comparison : {compare_runs(missing, missing), compare_runs(counted(1e6), missing)}) {
    EXPECT_EQ(row(comparison, "eager", "instructions")["verdict"], "INVALID");
    EXPECT_EQ(row(comparison, "eager", "instructions")["detail"], "valgrind is not installed");
  }
}

TEST(Compare, TimesOfDifferentMachinesAreInvalidUnlessForced) {
  const Json base = slowed_run();
  Json head = base;
  head["environment"]["cpu"]["model"] = "Another CPU";
  const Json refused = compare_runs(base, head);
  EXPECT_EQ(row(refused, "graph", "time")["reason"], "machines-differ");
  EXPECT_EQ(row(refused, "graph", "nodes")["verdict"], "EQUIVALENT");
  EXPECT_EQ(refused["machine"]["same"], "different");
  EXPECT_THAT(refused["machine"]["differences"][0].get<std::string>(), HasSubstr("cpu.model"));
  CompareOptions forced;
  forced.force_time = true;
  EXPECT_EQ(row(compare_runs(base, head, forced), "graph", "time")["verdict"], "EQUIVALENT");
  head["environment"] = Json::object();
  EXPECT_EQ(row(compare_runs(base, head), "graph", "time")["reason"], "machine-unknown");
}

TEST(Compare, LeadsOverEagerCompareAcrossMachines) {
  const Json base = slowed_run();
  Json head = slowed_run(1.7, 2);  // all arms slower: the machine, not the build
  head["environment"]["cpu"]["model"] = "Another CPU";
  CompareOptions options;
  options.by = CompareBy::machine;
  const Json comparison = compare_runs(base, head, options);
  EXPECT_EQ(row(comparison, "graph", "time")["verdict"], "INVALID");
  EXPECT_NE(row(comparison, "graph", "speedup")["verdict"], "INVALID");
  EXPECT_NEAR(row(comparison, "graph", "speedup")["ratio"]["estimate"].get<double>(), 1, 0.03);
  EXPECT_TRUE(row(comparison, "eager", "speedup").is_null());
  options.by = CompareBy::arm;
  const Json by_arm = compare_runs(base, head, options);
  EXPECT_EQ(by_arm["rows"].size(), 2u);
}

TEST(Compare, ASmallerLeadIsARegression) {
  SampleCell worse;
  worse.seconds[2] *= 1.15;
  Json head = sample_run({worse});
  analyse(head);
  CompareOptions options;
  options.by = CompareBy::arm;
  const Json comparison = compare_runs(slowed_run(), head, options);
  EXPECT_EQ(row(comparison, "graph", "speedup")["verdict"], "REGRESSED");
  EXPECT_LT(row(comparison, "graph", "speedup")["ratio"]["high"].get<double>(), 1);
  EXPECT_EQ(row(comparison, "replay", "speedup")["verdict"], "EQUIVALENT");
}

TEST(Compare, NamesNewAndVanishedCells) {
  SampleCell other;
  other.workload = "conv/block";
  Json base = sample_run({SampleCell{}, other});
  Json head = sample_run({SampleCell{}});
  head["cells"][0]["arms"].erase(2);
  Json forth = compare_runs(base, head);
  EXPECT_THAT(forth["vanished"],
              ElementsAre("mlp/digits/graph", "conv/block/eager", "conv/block/replay", "conv/block/graph"));
  EXPECT_THAT(forth["new"], IsEmpty());
  EXPECT_THAT(compare_runs(head, base)["new"].size(), 4u);
}

TEST(Compare, NothingInCommonIsInvalid) {
  Json base = slowed_run();
  Json empty = base;
  empty["cells"] = Json::array();
  for (const Json& comparison : {compare_runs(base, empty), compare_runs(empty, base), compare_runs(empty, empty)}) {
    EXPECT_THAT(comparison["rows"], IsEmpty());
    EXPECT_EQ(comparison["summary"]["verdict"], "INVALID");
  }
}

TEST(Compare, StateComesBeforeTheEffect) {
  const Json base = slowed_run();
  const auto reason = [&](const std::function<void(Json&)>& change) {
    Json head = slowed_run(1.2, 2);
    change(head);
    return row(compare_runs(base, head), "graph", "time")["reason"].get<std::string>();
  };
  EXPECT_EQ(reason([](Json& run) {
              run["cells"][0]["validity"]["agree"] = false;
              run["cells"][0]["validity"]["reason"] = "output 0 differs";
            }),
            "arms-disagree");
  EXPECT_EQ(reason([](Json& run) { run["cells"][0]["processes"][1]["control_drift"] = 0.2; }), "control-drift");
  EXPECT_EQ(reason([](Json& run) { run["cells"][0]["processes"][1]["steal_seconds"] = 1e6; }), "steal-time");
  EXPECT_EQ(reason([](Json& run) { run["size"]["name"] = "quick"; }), "quick-size");
  EXPECT_EQ(reason([](Json& run) { run["cells"][0]["processes"] = Json::array(); }), "empty");
  EXPECT_EQ(reason([](Json& run) { run["cells"][0]["processes"] = Json::array({run["cells"][0]["processes"][0]}); }),
            "too-few-processes");
}

TEST(Compare, RefusesTimesThatCannotBe) {
  const Json base = slowed_run();
  for (const Json& bad : {Json(0), Json(-1e-5), Json(nullptr), Json("fast")}) {
    Json head = base;
    head["cells"][0]["processes"][0]["rounds"][0]["seconds"]["graph"] = bad;
    EXPECT_THAT(refusal(base, head), HasSubstr("a round of 'graph'"));
  }
  EXPECT_THAT(refusal(base, Json::array()), HasSubstr("neither"));
  EXPECT_THAT(refusal(base, Json{{"schema", "other/1"}}), HasSubstr("neither"));
}

TEST(Fingerprint, ListsOnlyWhatDiffersAndSetsNoiseApart) {
  Json base = {{"cpu", {{"model", "A"}, {"cores", 2}}},
               {"os", {{"uptime_seconds", 1}, {"load_average", 0.5}, {"kernel", "6"}}},
               {"build", {{"shared_libraries", {{{"name", "libc.so.6"}, {"build_id", "aa"}}}}}}};
  Json head = base;
  head["os"]["uptime_seconds"] = 2;
  head["os"]["load_average"] = 1.5;
  head["build"]["shared_libraries"] =
      Json::array({{{"name", "libnew.so"}, {"build_id", "cc"}}, {{"name", "libc.so.6"}, {"build_id", "bb"}}});
  std::vector<std::string> matter;
  for (const FingerprintField& field : fingerprint_difference(base, head)) {
    if (field.matters) {
      matter.push_back(field.name);
    }
  }
  EXPECT_THAT(matter,
              ElementsAre("build.shared_libraries.libc.so.6.build_id", "build.shared_libraries.libnew.so.build_id"));
  EXPECT_EQ(compare_machines(base, head).same, SameMachine::yes);
  head["os"]["kernel"] = "7";
  EXPECT_EQ(compare_machines(base, head).same, SameMachine::no);
  EXPECT_EQ(compare_machines(Json::object(), head).same, SameMachine::unknown);
  EXPECT_EQ(compare_machines(Json::object(), Json::object()).same, SameMachine::unknown);
}

TEST(Fingerprint, SameProgramsHaveTheSameCode) {
  const Json one = {{"sha256", "a"}, {"code_sha256", "c"}};
  EXPECT_TRUE(same_program(one, {{"sha256", "b"}, {"code_sha256", "c"}})) << "only the revision differs";
  EXPECT_FALSE(same_program(one, {{"sha256", "b"}, {"code_sha256", "d"}}));
  EXPECT_TRUE(same_program(one, {{"sha256", "a"}})) << "written before the code was hashed";
  EXPECT_FALSE(same_program(one, {{"sha256", "b"}, {"code_sha256", nullptr}}));
  EXPECT_FALSE(same_program(Json::object(), Json::object())) << "nothing is known";
  EXPECT_FALSE(same_program(nullptr, {{"sha256", 3}}));
}

TEST(CompareViews, HostileNamesStayWords) {
  Json base = slowed_run();
  const std::string evil = "a|b\n::error::x<script>\x1b[2J";
  base["cells"][0]["workload"] = evil;
  Json head = base;
  head["environment"]["cpu"]["model"] = "evil | `model`\n# head";
  head["cells"][0]["arms"][0]["exact"]["allocations"] = 1e6;
  const Json comparison = compare_runs(base, head);
  const std::string table = render_comparison(comparison, {"a\nb", "c\x1b"});
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
  EXPECT_THAT(table, Not(HasSubstr("\n::error")));
  const std::string markdown = render_comparison_markdown(comparison, {"a\nb", "<b>"});
  EXPECT_THAT(markdown, Not(HasSubstr("<script>")));
  EXPECT_THAT(markdown, Not(HasSubstr("\n# head")));
  EXPECT_THAT(markdown, Not(HasSubstr("<b>")));
}

TEST(CompareViews, TheVerdictComesFirstAndTheWorstRowOnTop) {
  Json head = slowed_run();
  head["cells"][0]["arms"][2]["exact"]["nodes"] = 9999;
  const Json comparison = compare_runs(slowed_run(), head);
  const std::string table = render_comparison(comparison, {"A.json", "B.json"});
  EXPECT_TRUE(table.starts_with("REGRESSED: 16 compared: 1 REGRESSED, 15 EQUIVALENT\n")) << table;
  EXPECT_THAT(table, HasSubstr("9,999"));
  const std::string markdown = render_comparison_markdown(comparison, {"A.json", "B.json"});
  EXPECT_TRUE(markdown.starts_with("# REGRESSED"));
  EXPECT_LT(markdown.find("nodes"), markdown.find("dispatches"));
}

}  // namespace
}  // namespace diptych::reports
