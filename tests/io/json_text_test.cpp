// JSON from outside: how deep it may nest, and that nobody reads it in another way.

#include "framework/io/json_text.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/places.h"

namespace diptych::io {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string nested(std::size_t levels, const std::string& open = "[", const std::string& close = "]") {
  std::string text;
  for (std::size_t i = 0; i < levels; ++i) {
    text += open;
  }
  text += "1";
  for (std::size_t i = 0; i < levels; ++i) {
    text += close;
  }
  return text;
}

TEST(JsonText, IsReadUpToItsDepth) {
  EXPECT_EQ(parse_json_text(nested(kDeepestJson)).dump(), nested(kDeepestJson));
  EXPECT_FALSE(json_or_discarded(nested(kDeepestJson, R"({"a":)", "}")).is_discarded());
  for (const std::string& deep : {nested(kDeepestJson + 1), nested(20'000), nested(20'000, R"({"a":)", "}"),
                                  nested(20'000, R"({"a":[)", "]}"), std::string(20'000, '[')}) {
    EXPECT_THROW(parse_json_text(deep), JsonTooDeep);
    EXPECT_TRUE(json_or_discarded(deep).is_discarded());
  }
  try {
    parse_json_text(R"({"a": )" + nested(kDeepestJson) + "}");
    FAIL() << "read";
  } catch (const JsonTooDeep& error) {
    EXPECT_THAT(error.what(), HasSubstr("at byte 105")) << "the 101st level opens there";
  }
}

TEST(JsonText, BracketsInStringsAreNoLevels) {
  const std::string brackets(1000, '[');
  EXPECT_EQ(parse_json_text("\"" + brackets + "\""), brackets);
  EXPECT_EQ(parse_json_text(R"(["\")" + brackets + R"(", "\\"])")[0], "\"" + brackets);
  EXPECT_EQ(parse_json_text(R"({")" + brackets + R"(": 1})")[brackets], 1);
  std::string wide = "[";
  for (int i = 0; i < 1000; ++i) {
    wide += "[],{},";
  }
  EXPECT_EQ(parse_json_text(wide + "1]").size(), 2001U) << "beside one another";
}

TEST(JsonText, WhatIsNoJsonStaysNone) {
  for (const char* text : {"", "{", "]]]]", "\"", "\"\\", "nul", "{]", "1e999"}) {
    EXPECT_THROW(parse_json_text(text), nlohmann::json::exception) << text;
    EXPECT_TRUE(json_or_discarded(text).is_discarded()) << text;
  }
}

// The schema is the program's own text; the servers are programs of their own, which only this program asks.
TEST(JsonText, NothingElseInTheProgramParsesIt) {
  const std::set<std::string> known = {"framework/io/json_text.cpp", "reports/run/schema.cpp",
                                       "workloads/arms/server/arm_server.cpp",
                                       "workloads/arms/onnxruntime/node_times.cpp"};
  const fs::path root = fs::path(testing::places::source());
  std::size_t files = 0;
  for (const char* part : {"framework", "profiler", "workloads", "reports", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / part)) {
      const std::string extension = entry.path().extension().string();
      const std::string name = entry.path().lexically_relative(root).string();
      if ((extension != ".cpp" && extension != ".h") || known.contains(name)) {
        continue;
      }
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      for (const char* call : {"json::parse(", "Json::parse("}) {
        EXPECT_EQ(text.find(call), std::string::npos) << name << " calls " << call << "), not parse_json_text()";
      }
      ++files;
    }
  }
  EXPECT_GT(files, 500U);
}

}  // namespace
}  // namespace diptych::io
