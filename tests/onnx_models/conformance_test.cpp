// The ONNX backend tests that Debian ships (libonnx-testdata): recorded inputs and outputs of one operator or a small
// model each. docs/onnx-conformance.md is made from the results.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/io/onnx/operators.h"
#include "reports/text/text.h"
#include "tests/support/places.h"
#include "workloads/onnx/check.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;

/// Debian's place for them.
const fs::path kData = "/usr/share/libonnx-testdata/data";
const fs::path kPage = fs::path(testing::places::source()) / "docs/onnx-conformance.md";

std::vector<fs::path> all_cases() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::recursive_directory_iterator(kData)) {
    if (entry.path().filename() == "model.onnx") {
      folders.push_back(entry.path().parent_path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Count {
  int passed = 0;
  int unsupported = 0;
};

/// The results, by folder, operator and reason.
class Tally {
 public:
  void add(const fs::path& folder, Outcome outcome, const std::string& reason) {
    std::vector<std::string> operators;
    try {
      const onnx::Model model = onnx::read_model(folder / "model.onnx");
      for (const onnx::Node& node : model.graph->nodes) {
        operators.push_back((node.domain.empty() ? "" : node.domain + "::") + node.op);
      }
    } catch (const Error&) {  // counted with its folder and reason
    }
    count(folders_[fs::relative(folder, kData).begin()->string()], outcome);
    for (const std::string& name : std::set<std::string>(operators.begin(), operators.end())) {
      count(operators_[name], outcome);
    }
    count(all_, outcome);
    if (outcome == Outcome::unsupported) {
      // Without the node's own name: nodes of many cases share a reason.
      static const std::regex node(R"(^[^(]*\(([^,]+), opset \d+\): )");
      ++reasons_[std::regex_replace(reason, node, "$1: ")];
    }
  }

  const Count& all() const { return all_; }

  std::string page() const {
    std::string page = fmt::format(
        "# ONNX conformance\n\n"
        "The cases of Debian's `libonnx-testdata` (ONNX 1.12): {} of {} pass, in eager and in graph and with the same "
        "bits in "
        "both; none fails. The others are refused before anything runs, or have random outputs, which can't be "
        "compared. A test renews this page: "
        "`DIPTYCH_UPDATE_GOLDEN=1 build/release/tests/onnx_models/onnx_models_tests --gtest_filter=OnnxConformance.*`. "
        "[onnx.md](onnx.md) tells how to run "
        "such "
        "cases, [onnx-ops.md](onnx-ops.md) lists the operators.\n\n",
        all_.passed, all_.passed + all_.unsupported);
    page += table("folder", folders_);
    page += "\n## Refused, and why\n\n| why | cases |\n|---|--:|\n";
    for (const auto& [reason, cases] : reasons_) {
      page += fmt::format("| {} | {} |\n", reports::escape_markdown(reason), cases);
    }
    page += "\n## Operators\n\nCases with them.\n\n" + table("operator", operators_);
    return page;
  }

 private:
  static void count(Count& counted, Outcome outcome) {
    ++(outcome == Outcome::pass ? counted.passed : counted.unsupported);
  }
  static std::string table(const char* what, const std::map<std::string, Count>& rows) {
    std::string text = fmt::format("| {} | pass | refused |\n|---|--:|--:|\n", what);
    for (const auto& [name, counted] : rows) {
      text += fmt::format("| {} | {} | {} |\n", reports::escape_markdown(name), counted.passed, counted.unsupported);
    }
    return text;
  }

  Count all_;
  std::map<std::string, Count> folders_;
  std::map<std::string, Count> operators_;
  std::map<std::string, int> reasons_;
};

TEST(OnnxConformance, RecordedResultsInBothModesWithTheSameBits) {
  if (!fs::exists(kData)) {
    GTEST_SKIP() << "libonnx-testdata isn't installed; scripts/setup installs it";
  }
  Tally tally;
  for (const fs::path& folder : all_cases()) {
    Outcome worst = Outcome::pass;
    std::string reason;
    for (const CaseResult& result : check_case(folder, {})) {
      EXPECT_TRUE(result.outcome == Outcome::pass || result.outcome == Outcome::unsupported)
          << name_of(result.outcome) << " " << fs::relative(folder, kData) << " " << name_of(result.mode) << ": "
          << result.reason;
      worst = std::max(worst, result.outcome);
      reason = reason.empty() ? result.reason : reason;
    }
    tally.add(folder, worst, reason);
  }
  EXPECT_GE(tally.all().passed, 1030);
  if (std::getenv("DIPTYCH_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kPage) << tally.page();
  }
  EXPECT_EQ(tally.page(), text_of(kPage)) << "renew docs/onnx-conformance.md: DIPTYCH_UPDATE_GOLDEN=1 and this test";
}

}  // namespace
}  // namespace diptych::workloads
