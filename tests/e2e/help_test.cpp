// `--help` and `help`: every verb explains itself, and says the same as docs/.

#include <algorithm>
#include <cctype>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"
#include "tests/support/places.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string said(const std::vector<std::string>& arguments) {
  TemporaryFolder folder;
  const Outcome outcome = diptych(arguments, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(tree(folder.path()), IsEmpty());  // nothing was measured
  return outcome.output;
}

const std::vector<std::vector<std::string>>& all_verbs() {
  static const std::vector<std::vector<std::string>> verbs = {
      {"doctor"},      {"list"},  {"run"},         {"why"},           {"ladder"},       {"peers"},
      {"profile"},     {"graph"}, {"report"},      {"reproduce"},     {"compare"},      {"gate"},
      {"calibrate"},   {"onnx"},  {"onnx", "run"}, {"onnx", "check"}, {"onnx", "grad"}, {"onnx", "export"},
      {"onnx", "ops"}, {"help"},  {"completion"},
  };
  return verbs;
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string text = "diptych";
  for (const std::string& word : words) {
    text += " " + word;
  }
  return text;
}

std::string document(const char* name) { return read_text(fs::path(places::source()) / "docs" / name); }

/// "  arm            one way to ..." -> {"arm", "one way to ..."}
std::vector<std::pair<std::string, std::string>> explained(const std::string& help) {
  std::vector<std::pair<std::string, std::string>> words;
  std::istringstream lines(help.substr(std::min(help.find("Words ("), help.size())));
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, std::regex("  (\\S+( \\S+)?) +(.+)"))) {
      words.emplace_back(match[1], match[3]);
    }
  }
  return words;
}

TEST(Help, TheVerbHelpIsHelp) {
  EXPECT_EQ(said({"help"}), said({"--help"}));
  for (const std::vector<std::string>& verb : all_verbs()) {
    std::vector<std::string> flag = verb;
    flag.emplace_back("--help");
    std::vector<std::string> word = verb;
    word.insert(word.begin(), "help");
    EXPECT_EQ(said(word), said(flag)) << joined_words(verb);
  }
}

TEST(Help, UsageNamesTheProgramAndEveryVerbHasExamples) {
  EXPECT_THAT(said({"help"}), HasSubstr("Usage: diptych [OPTIONS]"));
  for (std::vector<std::string> verb : all_verbs()) {
    const std::string name = joined_words(verb);
    verb.insert(verb.begin(), "help");
    const std::string help = said(verb);
    EXPECT_THAT(help, HasSubstr("Usage: " + name + " [OPTIONS]"));
    EXPECT_THAT(help, Not(HasSubstr("Start with:"))) << name;  // that is the program's
    if (verb[1] != "onnx" || verb.size() == 2) {
      EXPECT_THAT(help, ::testing::ContainsRegex("Examples:\n  .*diptych " + verb[1])) << name;
    }
  }
}

TEST(Help, WordsAreExplainedWhereTheyStand) {
  EXPECT_THAT(said({"help", "profile"}), AllOf(HasSubstr("\n  arm "), HasSubstr("\n  steady call ")));
  EXPECT_THAT(said({"help", "ladder"}), HasSubstr("\n  rung "));
  EXPECT_THAT(said({"help", "run"}), AllOf(HasSubstr("\n  arm "), HasSubstr("\n  rung "), HasSubstr("\n  replay ")));
  EXPECT_THAT(said({"help", "calibrate"}), AllOf(HasSubstr("\n  detect "), HasSubstr("\n  A/A ")));
  EXPECT_THAT(said({"help", "graph"}), AllOf(HasSubstr("\n  IR "), HasSubstr("\n  pass ")));
  EXPECT_THAT(said({"help", "doctor"}), Not(HasSubstr("\n  rung ")));
}

TEST(Help, TheGlossaryHasAllWordsWithTheSameMeaning) {
  const std::string glossary = document("glossary.md");
  std::size_t words = 0;
  for (std::vector<std::string> verb : all_verbs()) {
    verb.insert(verb.begin(), "help");
    for (const auto& [word, meaning] : explained(said(verb))) {
      EXPECT_THAT(glossary, HasSubstr("| " + word + " | " + meaning)) << "docs/glossary.md";
      ++words;
    }
  }
  EXPECT_GT(words, 30U);
  EXPECT_THAT(document("command-line.md"), HasSubstr("(glossary.md)"));
  EXPECT_THAT(read_text(fs::path(places::source()) / "README.md"), HasSubstr("(docs/glossary.md)"));
}

TEST(Help, TheTableOfExitCodesIsTheDocumentsTable) {
  const std::string page = document("command-line.md");
  const std::string help = said({"help"});
  const std::string table = help.substr(help.find("Exit codes:"));
  int codes = 0;
  const std::regex row("\\n\\| ([0-9]+) \\| ([^|]+) \\|");
  for (std::sregex_iterator match(page.begin(), page.end(), row), end; match != end; ++match, ++codes) {
    EXPECT_TRUE(std::regex_search(table, std::regex("\n  " + (*match)[1].str() + " +")));
    EXPECT_THAT(table, HasSubstr(" " + (*match)[2].str() + "\n"));
  }
  EXPECT_EQ(codes, 5);
}

TEST(Help, EveryVerbStandsInTheDocument) {
  const std::string page = document("command-line.md");
  for (const std::vector<std::string>& verb : all_verbs()) {
    EXPECT_TRUE(verb == std::vector<std::string>{"onnx"} ||
                page.find("`" + joined_words(verb).substr(8)) != std::string::npos)
        << joined_words(verb);
  }
}

}  // namespace
}  // namespace diptych::testing
