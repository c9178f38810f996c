// Documents made from the code are current, and links lead somewhere.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/composed_functions.h"
#include "cli/onnx_ops_page.h"
#include "cli/ops_page.h"
#include "framework/capture/capture.h"
#include "framework/diptych.h"
#include "framework/dispatch/op.h"
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

/// The functions that the headers of ops declare for users: name and header.
std::map<std::string, std::string> declared_functions() {
  std::map<std::string, std::string> functions;
  const std::string all = source_text("framework/diptych.h");
  const std::regex included("#include \"(framework/ops/[a-z_0-9]+\\.h)\"");
  const std::regex declaration(R"((?:^|\n)(?:std::vector<Tensor>|std::pair<Tensor, Tensor>|Tensor) (\w+)\()");
  for (std::sregex_iterator header(all.begin(), all.end(), included), end; header != end; ++header) {
    if ((*header)[1] == "framework/ops/debug.h") {
      continue;  // what observes: control-flow.md
    }
    const std::string text = source_text((*header)[1].str());
    for (std::sregex_iterator match(text.begin(), text.end(), declaration); match != end; ++match) {
      functions.emplace((*match)[1].str(), (*header)[1].str());
    }
  }
  return functions;
}

// A reader who looks for `split` finds it, though no op has that name.
TEST(Documents, TheOpsPageHasEveryPublicFunction) {
  std::set<std::string> ops;
  for (const OpDef* op : registry()) {
    ops.insert(op->name);
  }
  std::set<std::string> composed;
  for (const reports::ComposedFunction& function : reports::composed_functions()) {
    EXPECT_TRUE(composed.empty() || *composed.rbegin() < function.name) << function.name << " is out of order";
    EXPECT_TRUE(composed.insert(function.name).second) << function.name;
    EXPECT_FALSE(ops.contains(function.name)) << function.name << " is an op";
  }
  const std::map<std::string, std::string> declared = declared_functions();
  EXPECT_GT(declared.size(), 150U);
  for (const auto& [name, header] : declared) {
    EXPECT_TRUE(ops.contains(name) || composed.contains(name))
        << name << " (" << header << ") is no op: add it to cli/composed_functions.cpp";
  }
  for (const std::string& name : composed) {
    EXPECT_TRUE(declared.contains(name)) << name << " is declared nowhere";
  }
}

/// The ops of a capture of `function` on f32[4, 6], each once.
std::set<std::string> recorded(const std::function<std::vector<Tensor>(const Tensor&)>& function) {
  graph::Capture capture("function");
  const graph::CaptureScope scope(capture);
  const std::vector<Tensor> results = function(capture.argument({DType::float32, {4, 6}}, "x"));
  std::set<std::string> names;
  for (const graph::Node& node : capture.finish(results, Location::current()).nodes) {
    names.insert(node.op->name);
    EXPECT_THAT(node.provenance.where.file, ::testing::EndsWith("docs_test.cpp"))
        << node.op->name << " names a line of ours: " << to_string(node.provenance.where);
  }
  names.erase("random_next_state");  // of every draw
  return names;
}

TEST(Documents, FunctionsAreMadeOfTheOpsThatThePageNames) {
  const Generator generator(1);
  using Function = std::function<std::vector<Tensor>(const Tensor&)>;
  const std::map<std::string, Function> functions = {
      {"split", [](const Tensor& x) { return split(x, 2); }},
      {"chunk", [](const Tensor& x) { return chunk(x, 2, 1); }},
      {"unbind", [](const Tensor& x) { return unbind(x); }},
      {"select", [](const Tensor& x) { return std::vector{select(x, 0, 1)}; }},
      {"squeeze", [](const Tensor& x) { return std::vector{squeeze(slice(x, 0, 1, 2), 0)}; }},
      {"unsqueeze", [](const Tensor& x) { return std::vector{unsqueeze(x, 0)}; }},
      {"stack",
       [](const Tensor& x) {
         return std::vector{stack({x, x})};
       }},
      {"randint", [&](const Tensor&) { return std::vector{randint(0, 9, {3}, DType::int64, generator)}; }},
      {"randperm", [&](const Tensor&) { return std::vector{randperm(5, generator)}; }},
      {"uniform", [&](const Tensor&) { return std::vector{uniform({3}, 0, 1, DType::float32, generator)}; }},
      {"normal", [&](const Tensor&) { return std::vector{normal({3}, 0, 1, DType::float32, generator)}; }},
      {"dropout", [&](const Tensor& x) { return std::vector{dropout(x, 0.5, true, generator)}; }},
      {"mean", [](const Tensor& x) { return std::vector{mean(x)}; }},
      {"l1_loss", [](const Tensor& x) { return std::vector{l1_loss(x, x)}; }},
      {"mse_loss", [](const Tensor& x) { return std::vector{mse_loss(x, x)}; }},
      {"nll_loss",
       [](const Tensor& x) {
         return std::vector{
             nll_loss(x, Tensor::from({std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}}, {4}))};
       }},
      {"outer", [](const Tensor& x) { return std::vector{outer(select(x, 0, 0), select(x, 0, 1))}; }},
      {"bmm",
       [](const Tensor& x) {
         return std::vector{bmm(reshape(x, {2, 2, 6}), reshape(x, {2, 6, 2}))};
       }},
      {"masked_fill", [](const Tensor& x) { return std::vector{masked_fill(x, ones({6}, DType::boolean), 2)}; }},
      {"take", [](const Tensor& x) { return std::vector{take(x, zeros({2}, DType::int64))}; }},
      {"tile",
       [](const Tensor& x) {
         return std::vector{tile(x, {2, 1})};
       }},
      {"roll", [](const Tensor& x) { return std::vector{roll(x, {1}, {0})}; }},
      {"transpose", [](const Tensor& x) { return std::vector{transpose(x)}; }},
      {"flatten", [](const Tensor& x) { return std::vector{flatten(x)}; }},
      {"sort", [](const Tensor& x) { return std::vector{sort(x).first}; }},
      {"topk", [](const Tensor& x) { return std::vector{topk(x, 2).first}; }},
      {"smooth_l1_loss", [](const Tensor& x) { return std::vector{smooth_l1_loss(x, x)}; }},
      {"group_norm", [](const Tensor& x) { return std::vector{group_norm(x, 2, ones({6}), ones({6}))}; }},
      {"conv1d",
       [](const Tensor& x) {
         return std::vector{conv1d(reshape(x, {2, 2, 6}), ones({3, 2, 3}))};
       }},
      {"max_pool1d",
       [](const Tensor& x) {
         return std::vector{max_pool1d(reshape(x, {2, 2, 6}), {2})};
       }},
  };
  for (const reports::ComposedFunction& function : reports::composed_functions()) {
    const auto found = functions.find(function.name);
    if (found == functions.end()) {
      continue;
    }
    const std::set<std::string> made_of = recorded(found->second);
    const std::string named = function.ops;
    for (const std::string& op : made_of) {
      const bool is_given = op == "reshape" || op == "slice" || op == "full" || op == "cast";  // what the case made
      EXPECT_TRUE(is_given || named.find(op) != std::string::npos) << function.name << " is made of " << op;
    }
    std::istringstream words(std::regex_replace(named, std::regex("[,;]"), " "));
    for (std::string word; words >> word;) {
      EXPECT_TRUE(made_of.contains(word)) << function.name << " is not made of " << word;
    }
  }
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
