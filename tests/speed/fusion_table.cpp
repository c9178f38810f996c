// What graphs gain by computing ops tile by tile: the tables of docs/fusion.md. Not a test.

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "framework/ops/row_ops.h"
#include "tests/speed/ratio.h"
#include "tests/support/called.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

using Inputs = std::array<Tensor, 3>;
struct Case {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& y, const Tensor& z)> compute;
};

Tensor row_sum(const Tensor& x) { return sum(x, {-1}, true); }
Tensor row_mean(const Tensor& x) { return mean(x, {-1}, true); }
Tensor first_row(const Tensor& x) { return slice(x, 0, 0, 1); }

const Case kElements[] = {
    {"ten multiply-adds in a chain",
     [](const Tensor& x, const Tensor& y, const Tensor&) {
       Tensor t = x;
       for (int i = 0; i < 10; ++i) {
         t = t * y + x;
       }
       return t;
     }},
    {"three `tanh(t + y)`",
     [](const Tensor& x, const Tensor& y, const Tensor&) { return tanh(tanh(tanh(x + y) + y) + y); }},
    {"a row added, then `relu`",
     [](const Tensor& x, const Tensor& y, const Tensor&) { return relu(x + first_row(y)); }},
    {"`x + y + z`", [](const Tensor& x, const Tensor& y, const Tensor& z) { return x + y + z; }},
};

const Case kTransposes[] = {
    {"`relu(x + y^T)`", [](const Tensor& x, const Tensor& y, const Tensor&) { return relu(x + transpose(y)); }},
    {"`tanh(y^T * x) + z`",
     [](const Tensor& x, const Tensor& y, const Tensor& z) { return tanh(transpose(y) * x) + z; }},
    {"`x / 2 + x^T / 2`", [](const Tensor& x, const Tensor&, const Tensor&) { return x * 0.5 + transpose(x) * 0.5; }},
    {"`relu(x + y) * z^T + x`",
     [](const Tensor& x, const Tensor& y, const Tensor& z) { return relu(x + y) * transpose(z) + x; }},
};

const Case kRows[] = {
    {"layer norm written by hand (8 ops)",
     [](const Tensor& x, const Tensor&, const Tensor&) {
       const Tensor centred = x - row_mean(x);
       return centred / sqrt(row_mean(centred * centred) + 1e-5);
     }},
    {"softmax written by hand",
     [](const Tensor& x, const Tensor&, const Tensor&) {
       const Tensor e = exp(x - max(x, {-1}, true));
       return e / row_sum(e);
     }},
    {"`x / sqrt(sum(square(x)))`",
     [](const Tensor& x, const Tensor&, const Tensor&) { return x / sqrt(row_sum(square(x))); }},
    {"its gradient",
     [](const Tensor& g, const Tensor& x, const Tensor& y) { return g + row_sum(neg(g * x)) * 0.5 / 3.0 * (y + y); }},
    {"add, add, layer norm, add",
     [](const Tensor& x, const Tensor& y, const Tensor& z) { return layer_norm(x + y + z, {x.shape()[1]}) + z; }},
    {"add, layer norm, GELU, mul",
     [](const Tensor& x, const Tensor& y, const Tensor&) { return gelu(layer_norm(x + y, {x.shape()[1]})) * y; }},
    {"add, layer norm",
     [](const Tensor& x, const Tensor& y, const Tensor&) { return layer_norm(x + y, {x.shape()[1]}); }},
    {"softmax, mul", [](const Tensor& x, const Tensor& y, const Tensor&) { return softmax(x, -1) * y; }},
};

using Results = std::vector<Tensor>;
using Function = std::function<Results(std::span<const Tensor>)>;

Tensor norm_op(const OpDef& op, const std::vector<Tensor>& inputs) {
  const ops::ChannelAttributes attributes{1e-5};
  return called(op, inputs, &attributes);
}
/// One number for each channel of x.
Tensor weight_of(const Tensor& x) { return full_like(x, 1.1, Shape{x.shape()[1]}); }

/// As it stands in papers.
Tensor norm_by_hand(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Axes axes{0, 2, 3};
  const Tensor centred = x - mean(x, axes, true);
  return centred / sqrt(mean(square(centred), axes, true) + 1e-5) * weight + bias;
}
Tensor column_of(const Tensor& x) { return full_like(x, 1.1, Shape{x.shape()[1], 1, 1}); }

struct ChannelCase {
  const char* name;
  Function compute;
};
const ChannelCase kChannels[] = {
    {"statistics, norm",
     [](std::span<const Tensor> in) -> Results {
       const Tensor statistics = norm_op(op::batch_norm_statistics, {in[0]});
       return {norm_op(op::batch_norm, {in[0], weight_of(in[0]), weight_of(in[0]), statistics}), statistics};
     }},
    {"statistics, norm, `relu`",
     [](std::span<const Tensor> in) -> Results {
       const Tensor statistics = norm_op(op::batch_norm_statistics, {in[0]});
       return {relu(norm_op(op::batch_norm, {in[0], weight_of(in[0]), weight_of(in[0]), statistics})), statistics};
     }},
    {"add, statistics, norm, `relu`",
     [](std::span<const Tensor> in) -> Results {
       const Tensor x = in[0] + in[1];
       const Tensor statistics = norm_op(op::batch_norm_statistics, {x});
       return {relu(norm_op(op::batch_norm, {x, weight_of(x), weight_of(x), statistics})), statistics, x};
     }},
    {"gradients behind a mask",
     [](std::span<const Tensor> in) -> Results {
       const Tensor statistics = full_like(in[0], 0.9, Shape{in[0].shape()[1], 4});
       const Tensor dy = in[1] * in[2];
       return {norm_op(op::batch_norm_input_gradient, {dy, in[0], weight_of(in[0]), statistics}),
               norm_op(op::batch_norm_weight_gradient, {dy, in[0], statistics}), sum(dy, {2, 3})};
     }},
    {"`sum(x * y)`",
     [](std::span<const Tensor> in) -> Results {
       return {sum(in[0] * in[1], {0, 2, 3})};
     }},
    {"norm written by hand (11 ops)",
     [](std::span<const Tensor> in) -> Results { return {norm_by_hand(in[0], column_of(in[0]), column_of(in[0]))}; }},
    {"its gradients (28 ops)",
     [](std::span<const Tensor> in) -> Results {
       return grad([&](const Tensor& x, const Tensor& weight,
                       const Tensor& bias) { return sum(mul(norm_by_hand(x, weight, bias), in[1])); },
                   {0, 1, 2})(in[0], column_of(in[0]), column_of(in[0]));
     }},
};

/// Time with the pass over time without it, all kernels fused however little they save. `sets`: of inputs, in turn.
std::string ratio(const Function& compute, const Shape& shape, int sets) {
  Rng rng(1);
  std::vector<Inputs> inputs;
  for (int i = 0; i < sets; ++i) {
    inputs.push_back({rng.normal(shape), rng.normal(shape), rng.normal(shape)});
  }
  const auto function = [&](bool fuses) {
    graph::JitOptions options;
    options.pipeline.least_fused_bytes = 0;
    if (!fuses) {
      options.pipeline.disabled = {"fuse"};
    }
    return graph::JitFunction(
        [&](std::span<const Tensor> x, std::shared_ptr<void>& /*structure*/) { return compute(x); },
        std::move(options));
  };
  graph::JitFunction apart = function(false);
  graph::JitFunction fused = function(true);
  std::size_t next = 0;
  const auto calls_of = [&](graph::JitFunction& called) {
    return block_of([&] { called.call(inputs[next++ % inputs.size()], Location::current()); });
  };
  InterleavedRounds round({calls_of(apart), calls_of(fused)}, {}, {});
  return ratio_of(take_rounds(round, 15), 0, 1).text;
}

std::string ratio(const Case& of, const Shape& shape, int sets) {
  return ratio([&](std::span<const Tensor> x) { return Results{of.compute(x[0], x[1], x[2])}; }, shape, sets);
}

void print_elements(std::span<const Case> cases, std::span<const Shape> shapes) {
  fmt::print("| elements (f32) |");
  for (const Case& of : cases) {
    fmt::print(" {} |", of.name);
  }
  fmt::print("\n|--:|--:|--:|--:|--:|\n");
  for (const Shape& shape : shapes) {
    fmt::print("| {} |", shape.product());
    for (const Case& of : cases) {
      fmt::print(" {} |", ratio(of, shape, 1));
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}

/// Inputs that are in the cache, and eight sets of them, one after the other, which are not.
void print_rows() {
  fmt::print("\n| |");
  for (const std::int64_t rows : {64, 512, 4096}) {
    fmt::print(" {} rows | others between |", rows);
  }
  fmt::print("\n|---|--:|--:|--:|--:|--:|--:|\n");
  for (const Case& of : kRows) {
    fmt::print("| {} |", of.name);
    for (const std::int64_t rows : {64, 512, 4096}) {
      fmt::print(" {} | {} |", ratio(of, {rows, 768}, 1), ratio(of, {rows, 768}, 8));
    }
    fmt::print("\n");
  }
}

void print_channels() {
  fmt::print("\n| |");
  for (const ChannelCase& of : kChannels) {
    fmt::print(" {} |", of.name);
  }
  fmt::print("\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const Shape& shape :
       {Shape{1024, 256, 1, 1}, Shape{1, 512, 7, 7}, Shape{4, 8, 16, 16}, Shape{16, 64, 4, 4}, Shape{32, 16, 8, 8},
        Shape{8, 64, 14, 14}, Shape{8, 64, 28, 28}, Shape{8, 128, 28, 28}, Shape{8, 64, 48, 48}, Shape{1, 64, 112, 112},
        Shape{8, 64, 56, 56}, Shape{32, 64, 56, 56}, Shape{128, 256, 14, 14}, Shape{128, 512, 8, 8},
        Shape{256, 512, 7, 7}, Shape{4096, 256, 2, 2}}) {
    fmt::print("| {} |", to_string(shape));
    for (const ChannelCase& of : kChannels) {
      fmt::print(" {} |", ratio(of.compute, shape, 1));
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}

struct Table {
  std::string_view name;
  void (*print)();
};
const Table kTables[] = {
    {"elements",
     [] {
       const Shape rows[] = {{1, 256}, {4, 256}, {16, 256}, {64, 256}, {256, 256}, {4096, 256}};
       print_elements(kElements, rows);
       fmt::print("\n");
     }},
    {"transposes",
     [] {
       const Shape squares[] = {{64, 64}, {128, 128}, {256, 256}, {500, 500}, {1024, 1024}, {2048, 2048}};
       print_elements(kTransposes, squares);
     }},
    {"rows", print_rows},
    {"channels", print_channels},
};

int print(std::span<const std::string> names) {
  for (const std::string& name : names) {
    if (std::none_of(std::begin(kTables), std::end(kTables), [&](const Table& table) { return table.name == name; })) {
      fmt::print(stderr, "fusion_table: there is no table '{}'; choose from elements, transposes, rows, channels\n",
                 name);
      return 1;
    }
  }
  for (const Table& table : kTables) {
    if (names.empty() || std::find(names.begin(), names.end(), table.name) != names.end()) {
      table.print();
    }
  }
  return 0;
}

}  // namespace
}  // namespace diptych::testing

/// The tables named by the arguments, or all.
int main(int count, char** arguments) {
  return diptych::testing::print(std::vector<std::string>(arguments + 1, arguments + count));
}
