// A workload of one's own, with every verb of diptych: `own run own/bell`, `own ladder own/bell`, ...

#include "cli/app.h"
#include "framework/diptych.h"
#include "workloads/workload.h"

using namespace diptych;

/// exp(-x^2) on a million numbers.
class Bell : public workloads::Program {
 public:
  explicit Bell(std::uint64_t seed) : x_{Rng(seed).normal({1000000})} {}
  std::span<const Tensor> inputs(std::int64_t) override { return x_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {exp(-square(inputs[0]))}; }

 private:
  std::array<Tensor, 1> x_;
};

int main(int argc, char** argv) {
  workloads::add_workload({.name = "own/bell", .title = "exp(-x^2)", .unit = "call", .make = [](std::uint64_t seed) {
                             return std::make_unique<Bell>(seed);
                           }});
  return cli::run_app(argc, argv);
}
