// Damaged run.json files: they are refused with a message that names the file, or they load, and then analysis and
// every view work on them or name the problem. Nothing crashes, hangs, or throws anything but Error.

#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/analyse.h"
#include "reports/history/reader.h"
#include "reports/html/html.h"
#include "reports/html/start_page.h"
#include "reports/run/run_file.h"
#include "reports/run/schema.h"
#include "reports/views/explanation.h"
#include "reports/views/history_views.h"
#include "reports/views/markdown.h"
#include "reports/views/table.h"
#include "tests/reports/json_mutator.h"
#include "tests/support/places.h"

namespace diptych::reports {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

testing::JsonMutator golden_runs() {
  std::vector<std::string> texts;
  for (const char* name : {"first_version.json", "complete.json"}) {
    texts.push_back(testing::read_whole(fs::path(diptych::testing::places::source()) / "tests/reports/golden" / name));
  }
  return testing::JsonMutator(std::move(texts));
}

class RunJsonFuzz : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::temp_directory_path() / ("diptych_fuzz_" + std::to_string(::getpid()) + ".json");
  }
  void TearDown() override { fs::remove(path_); }

  // Whether the file was accepted.
  bool try_one(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    Json run;
    try {
      run = load_run(path_);
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(path_.filename().string()), std::string::npos) << error.what();
      return false;
    }
    views(run);
    try {
      analyse(run);
    } catch (const Error& error) {
      EXPECT_GT(std::string(error.what()).size(), 20U) << error.what();
      return true;
    }
    views(run);
    const std::vector<std::string> problems = validate(Json::parse(to_text(run)));
    EXPECT_TRUE(problems.empty()) << problems.front();
    return true;
  }

  static void views(const Json& run) {
    EXPECT_FALSE(render_table(run, {false, 100}).empty());
    EXPECT_FALSE(render_markdown(run).empty());
    EXPECT_FALSE(render_html(run).empty());
    const reports::Run view(run);
    for (const Cell cell : view.cells()) {
      EXPECT_FALSE(render_explanation(view, cell, 1000).empty());
    }
  }

  // A finding is the text that causes it; without it nobody can look.
  bool survives(const std::string& text) {
    bool accepted = false;
    try {
      accepted = try_one(text);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not the right kind of error: " << error.what();
    }
    if (HasFailure()) {
      const fs::path kept = fs::temp_directory_path() / "diptych_fuzz_finding.json";
      std::ofstream(kept, std::ios::binary) << text;
      ADD_FAILURE() << "the file is kept as " << kept;
    }
    return accepted;
  }

  fs::path path_;
};

TEST_F(RunJsonFuzz, DamagedTextsAreRefusedOrShown) {
  testing::JsonMutator mutator = golden_runs();
  int accepted = 0;
  const int tried = testing::fuzz_times(1500);
  for (int i = 0; i < tried && !HasFailure(); ++i) {
    accepted += survives(mutator.damaged_text()) ? 1 : 0;
  }
  EXPECT_GT(accepted, tried / 100);
  EXPECT_LT(accepted, tried * 8 / 10);
}

TEST_F(RunJsonFuzz, DamagedRunsAreRefusedOrShown) {
  testing::JsonMutator mutator = golden_runs();
  int accepted = 0;
  const int tried = testing::fuzz_times(2500);
  for (int i = 0; i < tried && !HasFailure(); ++i) {
    accepted += survives(mutator.damaged_document()) ? 1 : 0;
  }
  EXPECT_GT(accepted, tried / 20) << "damage that the schema can't see is tried too";
  EXPECT_LT(accepted, tried * 9 / 10);
}

// One file of a folder may be anything: the others' page is made.
TEST_F(RunJsonFuzz, ADamagedRunDoesNotKillItsHistory) {
  const std::string good =
      testing::read_whole(fs::path(diptych::testing::places::source()) / "tests/reports/golden/complete.json");
  testing::JsonMutator mutator({good});
  const Json sound = Json::parse(good);
  int accepted = 0;
  const int tried = testing::fuzz_times(600);
  for (int i = 0; i < tried && !HasFailure(); ++i) {
    std::ofstream(path_, std::ios::binary) << mutator.damaged_document();
    HistoryReader reader;
    try {
      reader.add({}, sound);
      try {
        reader.add({}, load_run(path_));
        ++accepted;
      } catch (const Error&) {  // listed with its reason
      }
      reader.add({}, sound);
      const History history = std::move(reader).finish();
      EXPECT_FALSE(render_start_page(history).empty());
      EXPECT_FALSE(render_history(history).empty());
      EXPECT_FALSE(to_text(history_document(history)).empty());
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << testing::read_whole(path_).substr(0, 3000);
    }
  }
  EXPECT_GT(accepted, tried / 20);
}

TEST_F(RunJsonFuzz, DeepNestingAndNoiseAreRefused) {
  EXPECT_FALSE(survives(std::string(100000, '[')));
  std::string deep = R"({"schema": "diptych.run/1", "environment": )";
  for (int i = 0; i < 20000; ++i) {
    deep += "[";
  }
  EXPECT_FALSE(survives(deep));
  std::mt19937_64 random(4);
  for (int i = 0; i < 200; ++i) {
    std::string noise;
    for (std::size_t k = 0; k < random() % 300; ++k) {
      noise += static_cast<char>(random());
    }
    EXPECT_FALSE(survives(noise));
  }
}

}  // namespace
}  // namespace diptych::reports
