// Documents made from the code are current, and links lead somewhere.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/onnx_ops_page.h"
#include "cli/ops_page.h"
#include "tests/docs/source_text.h"
#include "tests/support/places.h"

namespace diptych {
namespace {

namespace fs = std::filesystem;
using testing::source_text;

TEST(Documents, TheOpsPageIsCurrent) {
  EXPECT_EQ(source_text("docs/ops.md"), reports::ops_page())
      << "renew it: build/release/diptych list --ops --markdown > docs/ops.md";
}

TEST(Documents, TheOnnxOperatorsPageIsCurrent) {
  EXPECT_EQ(source_text("docs/onnx-ops.md"), reports::onnx_ops_page())
      << "renew it: build/release/diptych onnx ops --markdown > docs/onnx-ops.md";
}

TEST(Documents, TheExampleOfAnOwnWorkloadIsTheOneThatIsBuilt) {
  const fs::path example = "tests/install/example";
  const std::string page = source_text("docs/own-workloads.md");
  const std::string program = source_text(example / "main.cpp");
  EXPECT_LE(std::count(program.begin(), program.end(), '\n'), 30);
  EXPECT_NE(page.find(program.substr(program.find("#include"))), std::string::npos);
  EXPECT_NE(page.find(source_text(example / "CMakeLists.txt")), std::string::npos);
}

/// Any space or line break as one space.
std::string reflowed(const std::string& text) { return std::regex_replace(text, std::regex("\\s+"), " "); }

TEST(Documents, ExamplesOfControlFlowAreCompiled) {
  const std::string examples = reflowed(source_text("tests/graph/control_flow_examples_test.cpp"));
  const std::string page = reflowed(source_text("docs/control-flow.md"));
  int blocks = 0;
  for (std::size_t at = page.find("```cpp "); at != std::string::npos; at = page.find("```cpp ", at + 1)) {
    const std::string block = page.substr(at + 7, page.find("```", at + 7) - at - 7);
    EXPECT_NE(examples.find(block), std::string::npos) << block;
    ++blocks;
  }
  EXPECT_EQ(blocks, 4);
}

/// Headings as links name them: lower case, spaces as hyphens, without punctuation.
std::vector<std::string> anchors_of(const std::string& page) {
  std::vector<std::string> anchors;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) {
      continue;
    }
    anchors.emplace_back();
    for (const char c : line.substr(line.find_first_not_of("# "))) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-') {
        anchors.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      } else if (c == ' ') {
        anchors.back() += '-';
      }
    }
  }
  return anchors;
}

TEST(Documents, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#: ]+)(#([^) ]+))?\))");
  std::vector<fs::path> pages = {fs::path(testing::places::source()) / "README.md",
                                 fs::path(testing::places::source()) / "CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(testing::places::source()) / "docs")) {
    if (entry.path().extension() == ".md") {
      pages.push_back(entry.path());
    }
  }
  for (const fs::path& page : pages) {
    const std::string text = source_text(page);
    for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
      const fs::path target = page.parent_path() / (*match)[1].str();
      EXPECT_TRUE(fs::exists(target)) << page << " links to " << (*match)[1];
      if ((*match)[3].matched) {
        EXPECT_THAT(anchors_of(source_text(target)), ::testing::Contains((*match)[3].str())) << page << " links to it";
      }
    }
  }
}

TEST(Documents, TheNamesPageNamesWhatIsDeclared) {
  std::string headers;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(testing::places::source()) / "framework")) {
    if (entry.path().extension() == ".h") {
      headers += source_text(entry.path());
    }
  }
  std::istringstream page(source_text("docs/names.md"));
  const std::regex code("`([A-Za-z0-9_:]+)");
  int names = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) {
      continue;
    }
    const std::string cell = line.substr(0, line.find(" | "));
    for (std::sregex_iterator match(cell.begin(), cell.end(), code), end; match != end; ++match) {
      const std::string qualified = (*match)[1].str();
      const std::string name = qualified.substr(qualified.rfind(':') + 1);
      EXPECT_TRUE(std::regex_search(headers, std::regex("\\b" + name + "\\b"))) << name << " is declared nowhere";
      ++names;
    }
  }
  EXPECT_GT(names, 60);
}

TEST(Documents, TheReadmeOpensWithTheTwoCommandsAndARealOutput) {
  const std::string readme = source_text("README.md");
  EXPECT_THAT(readme, ::testing::HasSubstr("\nscripts/run "));
  EXPECT_THAT(readme, ::testing::HasSubstr("\nscripts/test "));
  EXPECT_THAT(readme, ::testing::HasSubstr("mlp/digits  "));
}

// Every "`Suite.Name`" in the table of what can go wrong is an existing test.
TEST(Documents, TheTestsOfBadInputExist) {
  std::string sources;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(testing::places::source()) / "tests")) {
    if (entry.path().extension() == ".cpp") {
      sources += source_text(entry.path());
    }
  }
  const std::string page = source_text("docs/harness.md");
  const std::string section = page.substr(page.find("## Bad input"));
  const std::regex name("`([A-Z][A-Za-z]+)\\.([A-Z][A-Za-z0-9]+)`");
  int names = 0;
  for (std::sregex_iterator match(section.begin(), section.end(), name), end; match != end; ++match, ++names) {
    std::string test = (*match)[1].str();
    test.append(", ").append((*match)[2].str()).append(")");
    EXPECT_NE(sources.find(test), std::string::npos) << test;
  }
  EXPECT_GT(names, 30);
}

void collect_properties(const nlohmann::json& node, std::set<std::string>& names) {
  if (!node.is_structured()) {
    return;
  }
  for (const auto& [key, value] : node.items()) {
    if (node.is_object() && key == "properties") {
      for (const auto& property : value.items()) {
        names.insert(property.key());
      }
    }
    collect_properties(value, names);
  }
}

TEST(Documents, EveryFieldOfARunIsExplained) {
  std::set<std::string> names;
  collect_properties(nlohmann::json::parse(source_text("reports/schema/run.schema.json")), names);
  const std::string page = reflowed(source_text("docs/run-json.md"));
  EXPECT_GT(names.size(), 80U);
  for (const std::string& name : names) {
    const bool in_estimate = name == "estimate" || name == "low" || name == "high" || name == "level";
    EXPECT_TRUE(in_estimate || page.find("`" + name + "`") != std::string::npos)
        << name << " is not in docs/run-json.md";
  }
}

}  // namespace
}  // namespace diptych
