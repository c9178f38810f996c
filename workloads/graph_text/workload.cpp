#include "workloads/graph_text/workload.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "framework/capture/graph_function.h"
#include "framework/core/attributes.h"
#include "framework/core/rng.h"
#include "framework/io/path_text.h"
#include "framework/ops/elementwise.h"

namespace diptych::workloads {
namespace {

constexpr std::string_view kExtension = ".txt";
constexpr std::string_view kSpecial = ":special";

struct Spec {
  std::string path;
  bool special;
};
Spec parse_name(const std::string& name) {
  const bool special = name.ends_with(kSpecial);
  return {io::path_of_text(special ? name.substr(0, name.size() - kSpecial.size()) : name).string(), special};
}

template <class T>
Tensor normal_of(Rng& rng, const Shape& shape, bool special) {
  Tensor tensor = rng.normal(shape, 0, 1, std::is_same_v<T, double> ? DType::float64 : DType::float32);
  if (!special) {
    return tensor;
  }
  using Limits = std::numeric_limits<T>;
  const T numbers[] = {T(0),          -T(0),         Limits::infinity(),  -Limits::infinity(), Limits::quiet_NaN(),
                       Limits::max(), Limits::min(), Limits::denorm_min()};
  constexpr std::uint64_t kOneIn = 8;
  for (T& element : std::span(tensor.mutable_data<T>(), static_cast<std::size_t>(tensor.numel()))) {
    if (rng.below(kOneIn) == 0) {
      element = numbers[rng.below(std::size(numbers))];
    }
  }
  return tensor;
}

Tensor random_of(Rng& rng, const TensorType& type, bool special) {
  if (!is_floating(type.dtype)) {
    return cast(rng.integers(type.shape, 0, 2), type.dtype);
  }
  return type.dtype == DType::float64 ? normal_of<double>(rng, type.shape, special)
                                      : cast(normal_of<float>(rng, type.shape, special), type.dtype);
}

class GraphProgram final : public Program {
 public:
  GraphProgram(const graph::Graph& graph, std::uint64_t seed, bool special)
      : is_forward_(graph.updates.empty()), function_(drawn(graph, seed, special, arguments_)) {}

  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return arguments_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return function_(inputs); }
  bool is_forward() const override { return is_forward_; }
  Variables state() const override { return function_.states(); }

 private:
  static graph::GraphFunction drawn(const graph::Graph& graph, std::uint64_t seed, bool special,
                                    std::vector<Tensor>& arguments) {
    Rng rng(seed);
    Variables states;
    std::vector<Tensor> captured;
    for (const graph::Input& input : graph.inputs) {
      Tensor tensor = random_of(rng, graph.types[input.value], special);
      if (input.kind == graph::InputKind::state) {
        states.emplace_back(std::move(tensor), input.name);
      } else {
        (input.kind == graph::InputKind::captured ? captured : arguments).push_back(std::move(tensor));
      }
    }
    return {graph, std::move(states), std::move(captured)};
  }

  bool is_forward_;
  std::vector<Tensor> arguments_;
  graph::GraphFunction function_;
};

std::string read_text(const std::string& path) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{64} << 20U;
  std::error_code problem;
  if (!std::filesystem::exists(path, problem)) {
    throw FileError(fmt::format("cannot read {}: no such file; `diptych graph W` writes such files", quote(path)));
  }
  if (!std::filesystem::is_regular_file(path, problem)) {
    throw FileError(fmt::format("cannot read {}: it is no file", quote(path)));
  }
  if (std::filesystem::file_size(path, problem) > kMostBytes) {
    throw FileError(
        fmt::format("cannot read {}: it has more than {} MiB, which no graph has", quote(path), kMostBytes >> 20U));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (std::string block(std::size_t{1} << 16U, '\0'); text.size() <= kMostBytes && file;) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block, 0, static_cast<std::size_t>(file.gcount()));
  }
  if (!file && !file.eof()) {
    throw FileError(fmt::format("cannot read {}; check its permissions", quote(path)));
  }
  return text;
}

}  // namespace

bool is_graph_name(std::string_view name) {
  if (name.ends_with(kSpecial)) {
    name.remove_suffix(kSpecial.size());
  }
  return name.ends_with(kExtension);
}

const Workload& graph_workload(const std::string& name) {
  static std::map<std::string, Workload> known;
  if (const auto found = known.find(name); found != known.end()) {
    return found->second;
  }
  const Spec spec = parse_name(name);
  const std::string text = read_text(spec.path);
  std::shared_ptr<const graph::Graph> parsed;
  try {
    parsed = std::make_shared<const graph::Graph>(graph::parse(text));
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", quote(spec.path), error.what()));
  }
  Workload workload;
  workload.name = name;
  workload.suite = "graph";
  workload.title = fmt::format("{}, {} nodes{}", io::text_of_path(std::filesystem::path(spec.path).filename().string()),
                               graph::count_nodes(*parsed), spec.special ? ", special numbers" : "");
  workload.unit = "call";
  workload.make = [parsed, special = spec.special](std::uint64_t seed) -> std::unique_ptr<Program> {
    return std::make_unique<GraphProgram>(*parsed, seed, special);
  };
  return known.emplace(name, std::move(workload)).first->second;
}

}  // namespace diptych::workloads
