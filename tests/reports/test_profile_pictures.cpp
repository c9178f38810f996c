// What run.json keeps of a profile for its pictures: bounded, read back as it was written, and shown in the page.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/html/html.h"
#include "reports/run/run.h"
#include "reports/run/schema.h"
#include "reports/views/profile_record.h"
#include "reports/views/profile_views.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kKibibyte = 1024;

/// 100 us against 75: exp takes a third of its time in the graph.
ProfileInput traced() {
  ProfileInput input;
  input.ops = {{1, "matmul", "net.0", "", "f32[768]"}, {2, "exp", "net.1", "", "f32[256]"}};
  input.arms = {{"eager", {{"matmul", {1}, 60e-6}, {"exp", {2}, 30e-6}}, {}, 0, 100e-6},
                {"graph", {{"matmul", {1}, 60e-6}, {"exp", {2}, 10e-6}}, {}, 0, 75e-6}};
  return input;
}

std::vector<MemoryOfArm> watched() {
  return {{.name = "eager",
           .seconds = 100e-6,
           .blocks = {{.bytes = 2 * kKibibyte, .from = 1e-6, .to = 90e-6, .op = "exp", .shape = "f32[512]"},
                      {.bytes = 3 * kKibibyte, .from = 30e-6, .to = 40e-6, .op = "matmul", .scope = "net.0"}}},
          {.name = "graph",
           .seconds = 75e-6,
           .blocks = {{.bytes = 3 * kKibibyte, .from = 0, .to = 60e-6, .op = "matmul", .scope = "net.0", .offset = 0},
                      {.bytes = kKibibyte, .from = 60e-6, .to = 70e-6, .op = "exp", .offset = 2 * kKibibyte}},
           .arena_bytes = 3 * kKibibyte,
           .lower_bound_bytes = 3 * kKibibyte}};
}

/// As `diptych why` records it.
Json recorded_profile(const ProfileInput& input, const std::vector<MemoryOfArm>& memory) {
  Json profile = profile_json(align(input, ProfileBy::op), 10);
  profile["flames"] = flames_json(flame_frames(align(input, ProfileBy::stack)));
  profile["memory"] = memory_record_json(memory_records(memory));
  return profile;
}

Json run_of_profile(const Json& profile) {
  Json run = testing::analysed_run();
  run["cells"][0]["profile"] = profile;
  return run;
}

TEST(ProfilePictures, AreReadBackAsTheyWereWritten) {
  const Json profile = recorded_profile(traced(), watched());
  EXPECT_THAT(validate(run_of_profile(profile)), IsEmpty());
  const auto frames = read_flames(profile);
  ASSERT_TRUE(frames);
  EXPECT_EQ(flames_json(*frames), profile["flames"]);
  const FlameFrames drawn = flame_frames(align(traced(), ProfileBy::stack));
  EXPECT_EQ(frames->arms, drawn.arms);
  EXPECT_EQ(frames->total_seconds, drawn.total_seconds);
  ASSERT_EQ(frames->frames.size(), drawn.frames.size());
  for (std::size_t i = 0; i < drawn.frames.size(); ++i) {
    EXPECT_EQ(frames->frames[i].name, drawn.frames[i].name);
    EXPECT_EQ(frames->frames[i].depth, drawn.frames[i].depth);
    EXPECT_EQ(frames->frames[i].kind, drawn.frames[i].kind);
    EXPECT_EQ(frames->frames[i].seconds, drawn.frames[i].seconds);
  }
  EXPECT_EQ(memory_record_json(read_memory(profile)), profile["memory"]);
  EXPECT_EQ(profile["memory"][0]["peak_bytes"], 5 * kKibibyte) << "two and three, from 30 to 40 us";
  EXPECT_EQ(profile["memory"][0]["peak_seconds"], 30e-6);
  EXPECT_TRUE(profile["memory"][0]["arena_bytes"].is_null());
  EXPECT_EQ(profile["memory"][1]["arena"].size(), 2U);
}

TEST(ProfilePictures, StandInThePageAsSectionsThatOpen) {
  const Json run = run_of_profile(recorded_profile(traced(), watched()));
  const std::string page = render_html(run);
  EXPECT_EQ(testing::markup_problem(page), "");
  for (const char* part :
       {"<h3>Flame graphs</h3>", "<details open><summary>The difference, as wide as eager",
        "<details><summary>The difference, as wide as graph", "<details><summary>Each arm by itself",
        "<details><summary>The largest frames as a table", "net / 1 / exp: eager 30.0 µs, graph 10.0 µs",
        "changes by less than 1.00 µs, 1 % of a call of eager", "<h3>Memory</h3>",
        "<details open><summary>Live bytes over a call", "eager: at most 5.00 KiB, after 30.0 µs; 3.00 KiB by matmul",
        "eager holds at its peak", "<details><summary>The arena of graph", "No plan needs less than 3.00 KiB",
        "exp: 1.00 KiB at 2.00 KiB, from 60.0 µs to 70.0 µs"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, AllOf(Not(HasSubstr("The arena of eager")), Not(HasSubstr("left out"))));
  EXPECT_LT(page.find("<h3>Memory</h3>"), page.find("<h3>Numbers</h3>"));
}

TEST(ProfilePictures, ARunWithoutThemHasNone) {
  const Json plain = testing::analysed_run();
  EXPECT_THAT(render_html(plain), AllOf(Not(HasSubstr("Flame graphs")), Not(HasSubstr("<h3>Memory</h3>"))));
  const Json older = run_of_profile(profile_json(align(traced(), ProfileBy::op), 10));
  EXPECT_THAT(validate(older), IsEmpty());
  EXPECT_THAT(render_html(older), AllOf(Not(HasSubstr("Flame graphs")), Not(HasSubstr("<h3>Memory</h3>"))));
}

TEST(ProfilePictures, AreBoundedAndSayWhatIsLeftOut) {
  ProfileInput input = traced();
  std::vector<MemoryOfArm> memory = watched();
  const std::string longer(10'000, 'n');
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::string name = longer + std::to_string(i);
    input.ops.push_back({i + 3, name, longer + "." + std::to_string(i / 10), "", longer});
    input.arms[0].kernels.push_back({name, {i + 3}, 1e-8});
    const double at = 1e-8 * static_cast<double>(i);
    memory[1].blocks.push_back({.bytes = kKibibyte,
                                .from = at,
                                .to = at + 2e-8,
                                .op = name,
                                .scope = name,
                                .shape = name,
                                .offset = 3 * kKibibyte});
  }
  const Json profile = recorded_profile(input, memory);
  const Json run = run_of_profile({{"by", "op"},
                                   {"steps", 10},
                                   {"arms", profile["arms"]},
                                   {"rows", Json::array()},
                                   {"flames", profile["flames"]},
                                   {"memory", profile["memory"]}});
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_EQ(profile["flames"]["frames"].size(), kFramesKept);
  // The call, net, two modules and two ops in them, what is outside ops; 500 modules below one, and 5,000 ops.
  EXPECT_EQ(profile["flames"]["left_out"], 7 + 1 + 500 + 5000 - kFramesKept);
  EXPECT_LE(profile["memory"][1]["timeline"].size(), 601U);
  EXPECT_EQ(profile["memory"][1]["arena"].size(), 400U);
  EXPECT_EQ(profile["memory"][1]["blocks_left_out"], 5002 - 400);
  EXPECT_LT(profile["flames"].dump().size() + profile["memory"].dump().size(), 700'000U);
  const std::string page = render_html(run);
  EXPECT_EQ(testing::markup_problem(page), "");
  EXPECT_THAT(page, AllOf(HasSubstr("5,108 smaller frames are left out."), HasSubstr("40 of 5,508"),
                          HasSubstr("4,602 smaller blocks are left out."), HasSubstr("The lines leave out ")));
  EXPECT_LT(page.size(), 4'000'000U);
}

TEST(ProfilePictures, OddFilesAreDrawnAllTheSame) {
  Json run = run_of_profile(recorded_profile(traced(), watched()));
  Json& profile = run["cells"][0]["profile"];
  profile["flames"]["frames"][0]["depth"] = 9;
  profile["flames"]["frames"][2]["depth"] = 1'000'000'000;
  profile["flames"]["frames"][3]["depth"] = 0;
  profile["flames"]["frames"][4]["seconds"] = {1e300};
  profile["flames"]["frames"][5]["seconds"] = Json::array();
  profile["memory"][0]["timeline"] = {{1e-6, 4e18}, {0, -4e18}, {5e300, 1}};
  profile["memory"][0]["holders"][0]["scopes"] = Json::array();
  profile["memory"][1]["arena"][0]["offset"] = std::int64_t{1} << 62;
  profile["memory"][1]["arena"][1]["from_seconds"] = -1e300;
  profile["memory"][1]["seconds"] = 0;
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_EQ(testing::markup_problem(render_html(run)), "");
  for (const char* member : {"flames", "memory", "notes"}) {  // whatever may be in a file that nobody has checked
    for (const Json& odd : {Json(7), Json("x"), Json::array(), Json{{"frames", {7}}}, Json::array({7, nullptr})}) {
      Json changed = run;
      changed["cells"][0]["profile"][member] = odd;
      EXPECT_EQ(testing::markup_problem(render_html(changed)), "") << member << odd;
    }
  }
}

TEST(ProfilePictures, NamesFromOutsideStayNames) {
  for (const std::string& name : testing::hostile_names()) {
    ProfileInput input = traced();
    input.ops[0].op = input.ops[1].scope = input.arms[0].name = input.arms[0].kernels[0].name = name;
    std::vector<MemoryOfArm> memory = watched();
    memory[0].name = memory[1].blocks[0].op = memory[1].blocks[1].scope = memory[0].blocks[0].shape = name;
    Json run = run_of_profile(recorded_profile(input, memory));
    run["cells"][0]["profile"]["notes"] = {name};
    const std::string page = render_html(run);
    EXPECT_EQ(testing::markup_problem(page), "");
    EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  }
}

}  // namespace
}  // namespace diptych::reports
