// Completion as a shell sees it: the script is sourced, and queried as the shell does on the tab key.

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"
#include "tests/support/places.h"

namespace diptych::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// What bash offers for the last word.
std::vector<std::string> offered(const std::vector<std::string>& words) {
  TemporaryFolder folder;
  Command command{{"/bin/bash", "-c",
                   "source <(\"$0\" completion bash) && COMP_WORDS=(diptych \"$@\") && COMP_CWORD=$# && _diptych && "
                   "printf '%s\\n' \"${COMPREPLY[@]}\"",
                   places::program()},
                  folder.path().string()};
  command.arguments.insert(command.arguments.end(), words.begin(), words.end());
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  std::vector<std::string> lines;
  std::istringstream text(outcome.output);
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) {
      lines.push_back(line);
    }
  }
  return lines;
}

TEST(Completion, OfVerbs) {
  EXPECT_THAT(offered({"gr"}), ElementsAre("graph"));
  EXPECT_THAT(offered({""}), AllOf(Contains("run"), Contains("doctor"), Contains("help"), Not(Contains("worker"))));
  EXPECT_THAT(offered({"onnx", "ch"}), ElementsAre("check"));
  EXPECT_THAT(offered({"help", "lad"}), ElementsAre("ladder"));
  EXPECT_THAT(offered({"help", "onnx", "gr"}), ElementsAre("grad"));
}

TEST(Completion, OfWorkloadsAndArms) {
  EXPECT_THAT(offered({"run", "mlp/"}),
              AllOf(Contains("mlp/digits"), Contains("mlp/simplenet"), Each(StartsWith("mlp/"))));
  EXPECT_THAT(offered({"run", "mlp/digits", "mic"}), AllOf(Contains("micro"), Contains("micro/fusion")));
  EXPECT_THAT(offered({"why", "attention/wr"}), ElementsAre("attention/written-out", "attention/written-out-train"));
  EXPECT_THAT(offered({"graph", "mlp"}), Not(Contains("mlp")));  // one workload, no suite
  EXPECT_THAT(offered({"profile", "mlp/digits", "--arm", "re"}), ElementsAre("replay"));
  EXPECT_THAT(offered({"run", "--arms", "eager,gr"}), ElementsAre("eager,graph"));
  EXPECT_THAT(offered({"profile", "--arms", "eager,gr"}), ElementsAre("eager,graph"));
  EXPECT_THAT(offered({"profile", "mlp/digits", "--by", "sc"}), ElementsAre("scope"));
  EXPECT_THAT(offered({"run", "--arms", "=", "lad"}), ElementsAre("ladder"));
  EXPECT_THAT(offered({"list", "--suite", "m"}), ElementsAre("mlp", "micro"));
}

TEST(Completion, OfOptionsAndTheirValues) {
  EXPECT_THAT(offered({"run", "--st"}), ElementsAre("--standard"));
  EXPECT_THAT(offered({"why", "mlp/digits", "--c"}), AllOf(Contains("--calls"), Contains("--certify")));
  EXPECT_THAT(offered({"run", "--"}), AllOf(Contains("--arms"), Contains("--help"), Not(Contains("--inject-time"))));
  EXPECT_THAT(offered({"onnx", "check", "--mode", ""}), ElementsAre("eager", "graph", "both"));
  EXPECT_THAT(offered({"graph", "mlp/digits", "--format", "txt,s"}), ElementsAre("txt,svg"));
  EXPECT_THAT(offered({"graph", "mlp/digits", "--stage", "fin"}), ElementsAre("final"));
  EXPECT_THAT(offered({"compare", "run"}), IsEmpty());  // a file: bash's own completion
}

TEST(Completion, OfZshIsAScriptThatZshReads) {
  TemporaryFolder folder;
  const Outcome script = diptych({"completion", "zsh"}, folder.path());
  EXPECT_EQ(script.exit_code, 0);
  EXPECT_THAT(script.output, AllOf(StartsWith("#compdef diptych\n"), HasSubstr("_diptych_onnx_check()"),
                                   HasSubstr("--standard["), HasSubstr("mlp/digits"), Not(HasSubstr("--inject-arm["))));
  write_text(folder.path() / "_diptych", script.output);
  const Outcome read =
      run_command({{"/bin/sh", "-c", "command -v zsh >/dev/null || exit 77; zsh -n _diptych"}, folder.path().string()});
  if (read.exit_code == 77) {
    GTEST_SKIP() << "no zsh";
  }
  EXPECT_EQ(read.exit_code, 0) << read.error;
}

}  // namespace
}  // namespace diptych::testing
