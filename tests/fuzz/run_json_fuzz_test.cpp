// Damaged run.json files: they are refused with a message that names the file, or they load, and then analysis and
// every view work on them or name the problem. Nothing crashes, hangs, or throws anything but Error.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <unistd.h>

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analyse.h"
#include "reports/html.h"
#include "reports/markdown.h"
#include "reports/run_file.h"
#include "reports/schema.h"
#include "reports/table.h"

namespace diptych::reports {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Mutator {
 public:
  Mutator() {
    for (const char* name : {"first_version.json", "complete.json"}) {
      texts_.push_back(read(fs::path(DIPTYCH_GOLDEN) / name));
    }
  }

  /// Bytes flipped, cut, doubled: mostly no JSON any more.
  std::string damaged_text() {
    std::string text = texts_[below(texts_.size())];
    for (std::size_t i = 0; i <= below(3) && !text.empty(); ++i) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.resize(at);
          break;
        case 2:
          text.erase(at, 1 + below(30));
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), 1 + below(60)));
          break;
        default:
          text.insert(at, below(2) == 0 ? "1e999" : "\\ud800");
      }
    }
    return text;
  }

  /// Still JSON, but values anywhere replaced, removed or doubled.
  Json damaged_run() {
    Json run = Json::parse(texts_[below(texts_.size())]);
    for (std::size_t i = 0; i <= below(3); ++i) {
      damage(run);
    }
    return run;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void damage(Json& run) {
    Json* at = &run;
    while (at->is_structured() && !at->empty() && (at == &run || below(7) != 0)) {
      auto next = at->begin();
      std::advance(next, static_cast<std::ptrdiff_t>(below(at->size())));
      if (below(40) == 0) {
        at->erase(next);
        return;
      }
      if (at->is_array() && below(20) == 0) {
        at->push_back(Json(*next));
        return;
      }
      at = &*next;
    }
    if (at->is_number() && below(2) == 0) {
      const double factor = below(2) == 0 ? 1e300 : 1e-300;
      *at = at->get<double>() * factor;  // still a number of the same sign
      return;
    }
    *at = strange_value();
  }

  Json strange_value() {
    const std::vector<Json> values = {nullptr,
                                      true,
                                      0,
                                      -1,
                                      1,
                                      0.5,
                                      2,
                                      1e308,
                                      5e-324,
                                      std::numeric_limits<std::uint64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min(),
                                      "",
                                      "eager",
                                      "graph",
                                      "quick",
                                      "</script><b>",
                                      std::string("a\0b", 3),
                                      std::string(5000, '|'),
                                      Json::array(),
                                      Json::object(),
                                      Json::array({nullptr}),
                                      Json{{"name", "eager"}}};
    return values[below(values.size())];
  }

  std::vector<std::string> texts_;
  std::mt19937_64 random_{20261121};
};

// DIPTYCH_LONG=1 tries twenty times as many.
int times(int usual) { return std::getenv("DIPTYCH_LONG") != nullptr ? 20 * usual : usual; }

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
  }

  // A finding is the text that does it; without it nobody can look.
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
  Mutator mutator;
  int accepted = 0;
  const int tried = times(1500);
  for (int i = 0; i < tried && !HasFailure(); ++i) {
    accepted += survives(mutator.damaged_text()) ? 1 : 0;
  }
  EXPECT_GT(accepted, tried / 100);
  EXPECT_LT(accepted, tried * 8 / 10);
}

TEST_F(RunJsonFuzz, DamagedRunsAreRefusedOrShown) {
  Mutator mutator;
  int accepted = 0;
  const int tried = times(2500);
  for (int i = 0; i < tried && !HasFailure(); ++i) {
    accepted += survives(mutator.damaged_run().dump(-1, ' ', true, Json::error_handler_t::replace)) ? 1 : 0;
  }
  EXPECT_GT(accepted, tried / 20) << "damage that the schema can't see is tried too";
  EXPECT_LT(accepted, tried * 9 / 10);
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
