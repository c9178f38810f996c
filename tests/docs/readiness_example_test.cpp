// The example of docs/own-workloads.md that can't be captured, and what `diptych graph W --readiness` says of it.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/app.h"
#include "framework/diptych.h"
#include "tests/docs/source_text.h"
#include "workloads/workload.h"

namespace diptych {
namespace {

// clang-format off: as the page has it.
class Clipped : public workloads::Program {
 public:
  std::span<const Tensor> inputs(std::int64_t) override { return x_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    Tensor y = inputs[0];
    const Tensor norm = sqrt(sum(square(y)));
    if (norm.item() > 1) {
      y = y / norm;
    }
    y = clip(y, 0.0, 0.1 * ++calls_);
    mean_ = mean_ * 0.9 + norm * 0.1;
    return {y * mean_};
  }

 private:
  std::array<Tensor, 1> x_{full({1000}, 0.5)};
  Tensor mean_ = full({}, 1.0);
  int calls_ = 0;
};
// clang-format on

TEST(ReadinessExample, EndsWithOneAndSaysWhatThePageSays) {
  workloads::add_workload({.name = "own/clipped", .title = "clipped", .unit = "call", .make = [](std::uint64_t) {
                             return std::make_unique<Clipped>();
                           }});
  std::string words[] = {"own", "graph", "own/clipped", "--readiness"};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  ::testing::internal::CaptureStdout();
  const int code = cli::run_app(4, arguments);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 1);
  const std::string page = testing::source_text("docs/own-workloads.md");
  EXPECT_THAT(page, ::testing::HasSubstr(said));
  const std::string source = testing::source_text("tests/docs/readiness_example_test.cpp");
  const std::size_t begin = source.find("class Clipped");
  EXPECT_THAT(page, ::testing::HasSubstr(source.substr(begin, source.find("// clang-format on") - begin)));
}

}  // namespace
}  // namespace diptych
