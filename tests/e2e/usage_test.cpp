// Wrong usage: exit code 1, what is wrong and the nearest right name on standard error, and nothing written.

#include <algorithm>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"

namespace diptych::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Mistake {
  std::vector<std::string> arguments;
  std::vector<std::string> said;  ///< parts of the message
};

std::string printed(const Mistake& mistake) {
  std::string text;
  for (const std::string& argument : mistake.arguments) {
    text += " '" + argument + "'";
  }
  return text;
}

void expect_refused(const Mistake& mistake) {
  SCOPED_TRACE(printed(mistake));
  TemporaryFolder folder;
  const Outcome outcome = diptych(mistake.arguments, folder.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.error, HasSubstr("diptych: "));
  for (const std::string& part : mistake.said) {
    EXPECT_THAT(outcome.error, HasSubstr(part));
  }
  EXPECT_FALSE(has_control_characters(outcome.error)) << outcome.error;
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
}

TEST(Usage, NearestNames) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {{"lsit"}, {"no verb 'lsit'", "'list'"}},
           {{"rnu", "--quick"}, {"no verb 'rnu'", "'run'"}},
           {{"--versoin"}, {"no option '--versoin'", "'--version'"}},
           {{"run", "mlp/digit"}, {"no workload or suite 'mlp/digit'", "'mlp/digits'"}},
           {{"run", "digits"}, {"'mlp/digits'"}},
           {{"run", "mpl"}, {"'mlp'"}},
           {{"run", "zzzzzzzz"}, {"no workload or suite 'zzzzzzzz'", "mlp/digits", "micro/dispatch"}},
           {{"run", "--arms", "egaer"}, {"no arm 'egaer'", "'eager'"}},
           {{"run", "--arms", "eager,graf"}, {"no arm 'graf'", "'graph'"}},
           {{"run", "--sead", "3"}, {"no option '--sead'", "'--seed'"}},
           {{"run", "--quikc"}, {"no option '--quikc'", "'--quick'"}},
           {{"list", "--suite", "mpl"}, {"no suite 'mpl'", "'mlp'"}},
           {{"list", "--pases"}, {"'--passes'"}},
           {{"doctor", "--jsn"}, {"'--json'"}},
           {{"profile", "mlp/digts"}, {"no workload 'mlp/digts'", "'mlp/digits'"}},
           {{"profile", "mlp/digits", "--arm", "graf"}, {"no arm 'graf'", "'graph'"}},
           {{"graph", "mlp/digts"}, {"no workload 'mlp/digts'", "'mlp/digits'"}},
           {{"graph", "micro/dispatch", "--stage", "dec"}, {"no stage 'dec'", "'dce'"}},
           {{"graph", "micro/dispatch", "--stage", "fnial"}, {"no stage 'fnial'", "'final'"}},
           {{"graph", "micro/dispatch", "--formt", "txt"}, {"'--format'"}},
       }) {
    expect_refused(mistake);
  }
}

// What is suggested is near, is shown in --help, and isn't what was typed.
TEST(Usage, SuggestionsAreNearOrNamedWhereTheyAre) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {{"profile", "micro/dispatch", "--arm", "ladder"}, {"profile takes one arm", "eager, replay", "graph"}},
           {{"profile", "micro/dispatch", "--arm", "eager,graph"}, {"profile takes one arm"}},
           {{"graph", "micro/dispatch", "--json"},
            {"no option '--json' of `diptych graph`", "`ladder`", "`onnx check`"}},
           {{"run", "--batch", "8"}, {"no option '--batch' of `diptych run`", "diptych run --help"}},
           {{"run", "--inject-tim", "1"}, {"no option '--inject-tim' of `diptych run`"}},
           {{"ladder", "micro/dispatch", "--inject-time", "0.1"}, {"`calibrate` has it"}},
           {{"ladder", "micro/dispatch", "--inject-arm", "graph"}, {"diptych ladder --help"}},
           {{"--quick", "run"}, {"no option '--quick' of `diptych`", "`run`"}},
           {{"onnx", "export", "mlp/digits", "--steps", "-3"}, {"--steps", "-3"}},
       }) {
    expect_refused(mistake);
    TemporaryFolder folder;
    const std::string said = diptych(mistake.arguments, folder.path()).error;
    EXPECT_THAT(said, Not(HasSubstr("did you mean"))) << printed(mistake);
    EXPECT_THAT(said, Not(HasSubstr("--inject-instructions"))) << printed(mistake);
    EXPECT_THAT(tree(folder.path()), IsEmpty()) << printed(mistake);
  }
}

// A word that is a file's name gets what a file gets, whatever its extension, and from every verb that takes a model.
TEST(Usage, NamesOfFilesAreTakenAsFiles) {
  TemporaryFolder folder;
  for (const char* file :
       {"resnet.onnx", "net.onnx", "sub/only.onnx", "weights.pt", "other.xyz", "exported.pt", "exported.onnx"}) {
    std::filesystem::create_directories((folder.path() / file).parent_path());
    write_text(folder.path() / file, "no model");
  }
  const auto said = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = refused(arguments, folder.path());
    EXPECT_FALSE(has_control_characters(outcome.error));
    EXPECT_THAT(outcome.error, Not(HasSubstr("micro/dispatch"))) << "workloads are no files";
    return outcome.error;
  };
  for (const char* verb : {"run", "ladder", "profile", "graph", "why"}) {
    EXPECT_THAT(said({verb, "ResNet.onxx"}), AllOf(HasSubstr("no such file"), HasSubstr("did you mean 'resnet.onnx'")));
  }
  EXPECT_THAT(said({"run", "ResNet.onxx:batch=8"}), HasSubstr("did you mean 'resnet.onnx'"));
  EXPECT_THAT(said({"run", "sub/onyl.onnx"}), HasSubstr("did you mean 'sub/only.onnx'"));
  EXPECT_THAT(said({"run", "sub/something.else"}),
              AllOf(HasSubstr("no such file"), HasSubstr("there is 'sub/only.onnx'")));
  EXPECT_THAT(said({"run", "nowhere/x.onnx"}), AllOf(HasSubstr("no such file"), HasSubstr("diptych list")));
  EXPECT_THAT(said({"onnx", "run", "rsenet.onnx"}), HasSubstr("did you mean 'resnet.onnx'"));
  EXPECT_THAT(said({"run", "\x1b[31m.onxx"}), HasSubstr(R"(\x1b[31m.onxx)"));
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"run"}, {"onnx", "run"}, {"graph"}}) {
    std::vector<std::string> arguments = verb;
    arguments.emplace_back("weights.pt");
    EXPECT_THAT(said(arguments), AllOf(HasSubstr("PyTorch"),
                                       HasSubstr(R"(torch.onnx.export(model.eval(), (example,), "weights.onnx"))")));
  }
  EXPECT_THAT(said({"run", "absent.PTH"}), AllOf(HasSubstr("no such file"), HasSubstr("torch.onnx.export")));
  EXPECT_THAT(said({"run", "exported.pt"}), HasSubstr("did you mean 'exported.onnx'"));
  EXPECT_THAT(said({"run", "m.keras"}), HasSubstr("tf2onnx.convert --keras m.keras --output m.onnx"));
  EXPECT_THAT(said({"run", "m.mindir"}), HasSubstr("mindspore.export"));
  EXPECT_THAT(said({"run", "other.xyz"}), AllOf(HasSubstr("no model"), HasSubstr(".onnx file")));
  EXPECT_THAT(said({"run", "sub"}), AllOf(HasSubstr("is a folder"), HasSubstr("'sub/only.onnx'")));
}

TEST(Usage, VerbsOfOneWorkloadSayWhichASuiteHas) {
  for (const char* verb : {"ladder", "profile", "graph", "why"}) {
    expect_refused({{verb, "mlp"}, {"'mlp' is", "workloads", "mlp/digits", "mlp/simplenet"}});
  }
  expect_refused({{"ladder", "all"}, {"'all' is", "takes one"}});
  expect_refused({{"onnx", "export", "attention/sdpa"}, {"'attention/sdpa' is", "attention/sdpa-{64"}});
  TemporaryFolder folder;
  EXPECT_EQ(diptych({"graph", "loss", "--format", "txt"}, folder.path()).exit_code, 0) << "the only one of its suite";
}

TEST(Usage, WordsBeforeAVerbAreRefused) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {{"foo", "bar", "doctor"}, {"no verb 'foo'", "`diptych doctor`"}},
           {{"hepl", "doctor"}, {"no verb 'hepl'", "'help'"}},
           {{"foo", "run", "micro/dispatch"}, {"no verb 'foo'", "`diptych run`"}},
           {{"onnx", "foo", "ops"}, {"no verb 'foo'", "`diptych onnx ops`"}},
           {{"help", "rnu"}, {"no verb 'rnu'", "'run'"}},
           {{"help", "onnx", "chek"}, {"no verb 'chek'", "'check'"}},
           {{"help", "doctor", "more"}, {"`diptych doctor` has no verbs"}},
       }) {
    expect_refused(mistake);
  }
}

TEST(Usage, FilesWithoutAnEndAreRefused) {
  TemporaryFolder folder;
  write_text(folder.path() / "run.json", "{}");
  ASSERT_EQ(truncate((folder.path() / "run.json").c_str(), off_t{1} << 40U), 0);  // a hole: takes no space
  for (const char* file : {"/dev/zero", "run.json"}) {
    for (const std::vector<std::string>& verb :
         std::vector<std::vector<std::string>>{{"compare", file, file},
                                               {"report", file},
                                               {"reproduce", file, "x"},
                                               {"run", "--resume", file},
                                               {"gate", "--base", "run.json", "--config", file},
                                               {"calibrate", "--append", file},
                                               {"onnx", "check", std::string("@") + file}}) {
      Command command = diptych_command(verb, folder.path());
      command.timeout = 60;
      const Outcome outcome = run_command(command);
      EXPECT_EQ(outcome.exit_code, 1) << verb[0] << " " << file;
      EXPECT_THAT(outcome.error, AnyOf(HasSubstr("it is a device"), HasSubstr("more than 256 MiB"))) << verb[0];
    }
  }
}

TEST(Usage, MissingAndBadValues) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {{"run", "--seed"}, {"--seed", "run --help"}},
           {{"run", "--seed", "abc"}, {"--seed", "abc"}},
           {{"run", "--seed", "1.5"}, {"--seed", "1.5"}},
           {{"run", "--arms"}, {"--arms", "missing"}},
           {{"run", "--filter"}, {"--filter", "missing"}},
           {{"run", "--out"}, {"--out", "missing"}},
           {{"run", "--quick", "--standard"}, {"--quick", "--standard"}},
           {{"run", ""}, {"no workload or suite ''"}},
           {{"run", "--arms", ""}, {"arm"}},
           {{"run", "micro/dispatch", "--arms", ","}, {"arm"}},
           {{"profile"}, {"workload", "required"}},
           {{"profile", "micro/dispatch", "--steps", "0"}, {"--steps", "0"}},
           {{"profile", "micro/dispatch", "--steps", "-1"}, {"--steps", "-1"}},
           {{"graph"}, {"workload", "required"}},
           {{"graph", "micro/dispatch", "--format", "pdf"}, {"--format", "pdf", "svg"}},
           {{"report"}, {"run", "required"}},
           {{"report", "a", "--out", "b"}, {"--out", "belong to a page of two runs", "`diptych report A B`"}},
           {{"report", "a", "--format", "json"}, {"--format json", "`diptych report DIR`"}},
           {{"report", "a", "--force-time"}, {"--force-time", "`diptych report A B`"}},
           {{"report", "a", "b", "--format", "google-benchmark"}, {"renders one run"}},
           {{"report", "a", "b", "--format", "json"}, {"--format json"}},
           {{"report", "missing", "gone"}, {"missing", "no such file", "diptych run"}},
           {{"report", "a", "b", "--by", "year"}, {"--by", "year"}},
           {{"doctor", "extra"}, {"'extra'"}},
           {{"list", "run"}, {"'run'"}},
       }) {
    expect_refused(mistake);
  }
}

TEST(Usage, FiltersThatLeaveNothing) {
  expect_refused({{"run", "micro/dispatch", "--filter", "zzz"}, {"'zzz' matches no workload", "diptych list"}});
  expect_refused({{"run", "micro/dispatch", "--filter", "("}, {"'(' is no regular expression"}});
  expect_refused({{"run", "micro/dispatch", "--", "--benchmark_filter=none"}, {"nothing was measured"}});
}

TEST(Usage, UnknownBenchmarkFlags) {
  expect_refused({{"run", "micro/dispatch", "--", "--benchmark_fliter=x"},
                  {"unrecognized", "--benchmark_fliter=x", "nothing was measured"}});
  expect_refused({{"run", "micro/dispatch", "--", "stray"}, {"'stray' behind --", "Google Benchmark"}});
}

const std::string kHostile = "\x1b[31mred\x07\r\b\x1b]0;title\x07";

TEST(Usage, HostileArgumentsAreShownHarmless) {
  for (const Mistake& mistake : std::vector<Mistake>{
           {{kHostile}, {R"(\x1b[31m)"}},
           {{"--" + kHostile}, {R"(\x1b[31m)"}},
           {{"run", kHostile}, {R"(\x1b[31m)"}},
           {{"run", "--" + kHostile}, {R"(\x1b[31m)"}},
           {{"run", "--arms", kHostile}, {R"(\x1b[31m)"}},
           {{"run", "--seed", kHostile}, {R"(\x1b[31m)"}},
           {{"run", "--out", "/dev/null/" + kHostile}, {R"(\x1b[31m)"}},
           {{"list", "--suite", kHostile}, {R"(\x1b[31m)"}},
           {{"doctor", kHostile}, {R"(\x1b[31m)"}},
           {{"graph", "micro/dispatch", "--stage", kHostile}, {R"(\x1b[31m)"}},
           {{"graph", "micro/dispatch", "--format", kHostile}, {R"(\x1b[31m)"}},
           {{"profile", "micro/dispatch", "--steps", kHostile}, {R"(\x1b[31m)"}},
           {{"profile", "micro/dispatch", "--arm", kHostile}, {R"(\x1b[31m)"}},
           {{"report", kHostile}, {R"(\x1b[31m)"}},
           {{"report", "\xff\xfe"}, {"no such file"}},
       }) {
    expect_refused(mistake);
  }
}

// Google Benchmark would print these as they are.
TEST(Usage, HostileFiltersAndFlagsAreShownHarmless) {
  expect_refused({{"run", "micro/dispatch", "--filter", "\x1b\\[31mred"}, {R"(\x1b)"}});
  expect_refused({{"run", "micro/dispatch", "--", "--" + kHostile}, {R"(\x1b)"}});
}

// The folder's name is chosen by the user, and printed at the end.
TEST(Usage, HostileFolderNamesAreShownHarmless) {
  TemporaryFolder folder;
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", "micro/dispatch", "--arms", "eager", "--out", "o\x1b[31m"},
           {"graph", "micro/dispatch", "--out", "o\x1b[31m"},
           {"profile", "micro/dispatch", "--out", "o\x1b[31m"},
       }) {
    const Outcome outcome = diptych(arguments, folder.path());
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.output, Not(HasSubstr("\x1b"))) << arguments[0];
  }
}

TEST(Usage, NumbersOutOfRangeAreRefused) {
  expect_refused({{"run", "micro/dispatch", "--seed", "-1"}, {"--seed"}});
  expect_refused({{"run", "micro/dispatch", "--seed", "99999999999999999999999"}, {"--seed"}});
  expect_refused({{"run", "micro/dispatch", "--seed", ""}, {"--seed"}});
}

TEST(Usage, ThreadsThatCannotComputeAreRefused) {
  for (const char* verb : {"run", "ladder", "profile"}) {
    for (const char* count : {"0", "-1", "10000"}) {
      expect_refused({{verb, "micro/dispatch", "--threads", count}, {"--threads", count}});
    }
  }
  TemporaryFolder folder;
  for (const char* wanted : {"0", "257", "many"}) {
    Command command = diptych_command({"profile", "micro/dispatch"}, folder.path());
    command.environment["DIPTYCH_THREADS"] = wanted;
    const Outcome outcome = run_command(command);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.error,
              "diptych: DIPTYCH_THREADS is '" + std::string(wanted) + "': give a number from 1 to 256\n");
  }
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
}

TEST(Usage, EmptyValuesAreRefused) {
  expect_refused({{"run", "--out=", "micro/dispatch"}, {"--out= has no value"}});
  expect_refused({{"run", "--quick=5", "micro/dispatch"}, {"quick", "flag"}});
}

TEST(Usage, ABrokenFilterIsNamedOnce) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"run", "micro/dispatch", "--filter", "("}, folder.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("regular expression"));
}

// A list in front of the workload must not take the workload as one more element.
TEST(Usage, ListsEndAtTheirCommas) {
  TemporaryFolder folder;
  EXPECT_EQ(diptych({"graph", "--format", "txt", "micro/dispatch"}, folder.path()).exit_code, 0);
  const Outcome outcome = diptych({"run", "--arms", "eager,graph", "micro/dispatch"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
}

TEST(Usage, HelpForAllAndForEveryVerb) {
  TemporaryFolder folder;
  const Outcome nothing = diptych({}, folder.path());
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_EQ(nothing.error, "");
  EXPECT_EQ(diptych({"--help"}, folder.path()).output, nothing.output);
  for (const char* verb : {"doctor", "list", "run", "ladder", "profile", "graph", "report"}) {
    EXPECT_THAT(nothing.output, HasSubstr(verb));
    const Outcome help = diptych({verb, "--help"}, folder.path());
    EXPECT_EQ(help.exit_code, 0) << verb;
    EXPECT_THAT(help.output, HasSubstr(verb));
    EXPECT_THAT(help.output, HasSubstr("--help"));
    EXPECT_EQ(help.error, "");
  }
  EXPECT_THAT(nothing.output, HasSubstr("Exit codes"));
  EXPECT_THAT(nothing.output, Not(HasSubstr("worker")));
  for (const char* option : {"--quick", "--standard", "--certify", "--arms", "--seed", "--filter", "--out"}) {
    EXPECT_THAT(diptych({"run", "--help"}, folder.path()).output, HasSubstr(option));
  }
  EXPECT_THAT(tree(folder.path()), IsEmpty());
}

TEST(Usage, Version) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"--version"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, ::testing::MatchesRegex("diptych [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace diptych::testing
