#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "cli/model_file.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/io/naming.h"
#include "framework/io/npy.h"
#include "framework/io/onnx/export.h"
#include "framework/transforms/jit.h"
#include "reports/text/text.h"
#include "workloads/onnx/workload.h"

namespace diptych::cli {
namespace {

workloads::OnnxSpec spec_of(const OnnxRunOptions& options) {
  workloads::OnnxSpec spec = workloads::parse_onnx_name(options.model);
  for (const std::string& dimension : options.dimensions) {
    const std::size_t equals = dimension.rfind('=');
    std::int64_t length = 0;
    const char* const end = dimension.data() + dimension.size();
    const char* const begin = dimension.data() + std::min(equals, dimension.size() - 1) + 1;
    const auto [stop, problem] = std::from_chars(begin, end, length);
    if (equals == std::string::npos || problem != std::errc() || stop != end || length < 0) {
      throw Error(fmt::format("--dim {}: say NAME=LENGTH, as in --dim batch=8", reports::printable(dimension)));
    }
    spec.lengths[dimension.substr(0, equals)] = length;
  }
  if (!options.inputs.empty()) {
    spec.inputs = options.inputs;
  }
  if (options.random && !spec.inputs.empty()) {
    throw Error("--random and --inputs are both given: choose one");
  }
  return spec;
}

std::vector<Tensor> outputs_of(workloads::OnnxInstance& instance, bool is_graph) {
  if (!is_graph) {
    return instance.model.call(instance.inputs);
  }
  graph::JitFunction compiled(
      [&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return instance.model.call(arguments); },
      {.name = "model"});
  return compiled.call(instance.inputs, Location::current()).outputs;
}

}  // namespace

int onnx_run(const OnnxRunOptions& options) {
  check_model_file(options.model);
  const workloads::OnnxSpec spec = spec_of(options);
  if (!spec.is_forward()) {
    throw Error(
        fmt::format("{}: `onnx run` prints a model's outputs; run, ladder, profile, graph and why take its "
                    "gradients and train it, and `diptych onnx grad` checks gradients",
                    reports::printable(options.model)));
  }
  workloads::OnnxInstance instance = io::naming(spec.path, [&] {
    return workloads::make_onnx_instance(std::make_shared<const onnx::Model>(onnx::read_model(spec.path)), spec,
                                         options.seed);
  });
  const std::vector<Tensor> outputs =
      io::naming(spec.path, [&] { return outputs_of(instance, options.mode == "graph"); });
  if (!options.out.empty()) {
    std::filesystem::create_directories(options.out);
  }
  fmt::print("{}, {}, {} inputs\n", reports::printable(workloads::onnx_name(spec)), options.mode,
             spec.inputs.empty() ? fmt::format("random (seed {})", options.seed) : "given");
  const std::vector<std::string> names = instance.model.output_names(instance.inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    fmt::print("{}\t{}\n", reports::printable(names[i]), to_string(outputs[i]));
    if (!options.out.empty()) {
      const std::filesystem::path folder = options.out;
      io::save_npy(folder / fmt::format("output_{}.npy", i), outputs[i]);
      onnx::write_tensor({names[i], outputs[i]}, folder / fmt::format("output_{}.pb", i));
    }
  }
  if (!options.out.empty()) {
    fmt::print("{}/output_0.npy, output_0.pb{}\n", reports::printable(options.out), outputs.size() > 1 ? ", ..." : "");
  }
  return kSuccess;
}

}  // namespace diptych::cli
