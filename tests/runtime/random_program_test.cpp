// Random programs: eager and all kinds of graphs give the same bits and leave the same states.

#include "tests/runtime/random_program.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/capture/graph_function.h"
#include "framework/core/allocator.h"
#include "framework/core/isa.h"
#include "framework/graph/fused_op.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/window_ops.h"
#include "framework/runtime/check_stages.h"
#include "framework/runtime/placed_parts.h"
#include "tests/graph/variants.h"
#include "tests/support/short_run.h"
#include "tests/support/with_isa.h"
#include "tests/support/with_threads.h"

namespace diptych::runtime {
namespace {

using diptych::testing::message_of;
using diptych::testing::Program;
using diptych::testing::Random;
using diptych::testing::Step;
using diptych::testing::Variant;
using diptych::testing::WithIsa;
using diptych::testing::WithThreads;

struct Trace {
  std::vector<Tensor> seen;
  bool failed = false;
  std::string why;
};

template <class Call>
Trace trace(const Program& program, const std::vector<std::vector<Tensor>>& arguments, Variables& variables,
            const Call& call) {
  variables.clear();
  for (const Tensor& state : program.states) {
    variables.emplace_back(copy(state), fmt::format("s{}", variables.size()));
  }
  Trace result;
  for (const std::vector<Tensor>& with : arguments) {
    try {
      for (const Tensor& tensor : call(with)) {
        result.seen.push_back(tensor);
      }
    } catch (const Error& error) {
      result.failed = true;
      result.why = error.what();
      return result;
    }
    for (const Variable& variable : variables) {
      result.seen.push_back(copy(variable.value()));
    }
  }
  return result;
}

/// Two calls, the second with other elements of the same layout.
std::vector<std::vector<Tensor>> two_calls(const Program& program) {
  std::vector<Tensor> second;
  for (const Tensor& argument : program.arguments) {
    const bool turned = argument.rank() >= 2 && !argument.is_contiguous();
    Tensor other = turned ? transpose(copy(transpose(argument))) : copy(argument);
    second.push_back(other.strides() == argument.strides() ? other : argument);
  }
  return {program.arguments, second, program.arguments};
}

Trace trace_eager(const Program& program) {
  Variables variables;
  return trace(program, two_calls(program), variables,
               [&](const std::vector<Tensor>& with) { return program.run(with, variables); });
}

/// Five calls, whose gradients are of the program's results and of the others in turn, by whatever runs the steps.
template <class Steps>
Trace trace_in_turns(const Program& program, Variables& variables, const Steps& steps) {
  Program now = program;
  std::vector<std::vector<Tensor>> arguments = two_calls(program);
  arguments.insert(arguments.end(), {arguments[1], arguments[0]});
  return trace(program, arguments, variables, [&](const std::vector<Tensor>& with) {
    std::vector<Tensor> results = now.run(with, steps);
    now.aside = program.aside == 0 ? 0 : ~now.aside;
    return results;
  });
}

/// Whether what a region finds for each channel, by a reduction, is read by elements of that channel.
bool reads_what_it_reduces(const graph::Graph& region, const RowLayout& rows) {
  std::set<graph::ValueId> numbers;
  for (const graph::Node& node : region.nodes) {
    const Shape& shape = region.types[node.output()].shape;
    const bool reads_number = std::any_of(node.inputs.begin(), node.inputs.end(),
                                          [&](graph::ValueId input) { return numbers.contains(input); });
    if (reads_number && node.op->elementwise() && shape.product() > rows.count) {
      return rows.by_channel();
    }
    if (node.op->kind == OpKind::reduction ? shape.product() == rows.count : reads_number) {
      numbers.insert(node.output());
    }
  }
  return false;
}

/// What graphs were made of.
struct Compiled {
  // Fused kernels:
  std::size_t kernels_of_rows = 0, kernels_of_channels = 0, norms_by_hand = 0, elementwise = 0, epilogues = 0,
              several_regions = 0;
  std::size_t merged_products = 0, split_sums = 0;
  std::size_t concats_in_place = 0;  ///< whose parts were all written where they lie

  void add(const graph::JitFunction& function) {
    const graph::Graph& graph = *function.graph();
    for (const graph::Node& node : graph.nodes) {
      if (node.op == &graph::fused_op()) {
        const graph::Graph& region = *node.regions[0];
        const bool is_epilogue = graph::contraction_of(region) != nullptr;
        epilogues += is_epilogue ? 1 : 0;
        const RowLayout rows = is_epilogue ? RowLayout{} : graph::rows_of(region);
        kernels_of_rows += rows.count > 0 && !rows.by_channel() ? 1 : 0;
        kernels_of_channels += rows.by_channel() ? 1 : 0;
        norms_by_hand += reads_what_it_reduces(region, rows) ? 1 : 0;
        elementwise += !is_epilogue && rows.count == 0 ? 1 : 0;
        several_regions += node.regions.size() > 1 ? 1 : 0;
      }
      merged_products += node.op == &op::merged_linear ? 1 : 0;
    }
    concats_in_place += placed_concats(graph, function.executable()->values()).size();
    const std::vector<passes::PassRecord>& records = function.ledger().back().passes;
    split_sums += std::any_of(records.begin(), records.end(), [](const passes::PassRecord& record) {
      return record.name == "split-sums" && record.changed;
    });
  }
};

/// A value that a kernel reads of another one, directly or through views, if nothing says why they aren't one.
/// `instructions`: what they make; a concat that has none reads nothing.
std::optional<graph::ValueId> read_without_reason(const graph::Graph& graph,
                                                  std::span<const graph::ValueId> instructions,
                                                  std::span<const passes::PassRecord> records) {
  std::map<graph::ValueId, const graph::Node*> producers;
  std::set<graph::ValueId> refused;
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId output : node.outputs) {
      producers[output] = &node;
    }
  }
  for (const passes::PassRecord& record : records) {
    for (const passes::FusionRefusal& refusal : record.refusals) {
      if (!refusal.in_region) {
        refused.insert(refusal.producer);
      }
    }
  }
  const std::vector<const graph::Node*> placed = placed_concats(graph, instructions);
  for (const graph::Node& node : graph.nodes) {
    if (std::find(placed.begin(), placed.end(), &node) != placed.end()) {
      continue;
    }
    for (graph::ValueId input : node.op->view == nullptr ? node.inputs : std::vector<graph::ValueId>()) {
      auto producer = producers.find(input);
      while (producer != producers.end() && producer->second->op->view != nullptr) {
        input = producer->second->inputs[0];
        producer = producers.find(input);
      }
      // A refusal names a node of several results by the first.
      if (producer != producers.end() && !refused.contains(input) &&
          !refused.contains(producer->second->outputs.front())) {
        return input;
      }
    }
  }
  return std::nullopt;
}

/// The first tensor that differs, if one does.
std::optional<std::string> difference_of(const Trace& actual, const Trace& expected) {
  if (actual.failed != expected.failed) {
    return actual.failed ? "the graph fails: " + actual.why : "eager fails: " + expected.why;
  }
  if (actual.seen.size() != expected.seen.size()) {
    return "another number of results";
  }
  for (std::size_t i = 0; i < actual.seen.size(); ++i) {
    if (!bitwise_equal(actual.seen[i], expected.seen[i])) {
      return fmt::format("tensor {}: got {}\nexpected {}", i, to_string(actual.seen[i]), to_string(expected.seen[i]));
    }
  }
  return std::nullopt;
}

/// Whether the graph in the text, which a pipeline compiles, has other bits than its ops one by one, on the program's
/// arguments and states, and these tensors in the places of those that it captured.
bool reproduces(const std::string& text, const Program& program, const std::vector<Tensor>& captured,
                const passes::PipelineOptions& pipeline) {
  const graph::Graph parsed = graph::parse(text);
  const auto traced = [&](bool compiles) {
    Variables variables;
    std::optional<graph::GraphFunction> function;
    std::optional<graph::JitFunction> compiled;
    return trace(program, {program.arguments}, variables, [&](const std::vector<Tensor>& with) {
      // The graph has those of the states that the program touches.
      Variables states;
      for (const graph::Input& input : parsed.inputs) {
        if (input.kind == graph::InputKind::state) {
          states.push_back(variables[std::stoul(input.name.substr(1))]);
        }
      }
      function.emplace(parsed, states, captured);
      if (!compiles) {
        return (*function)(with);
      }
      compiled.emplace([&](std::span<const Tensor> inputs, std::shared_ptr<void>&) { return (*function)(inputs); },
                       graph::JitOptions{.pipeline = pipeline});
      return compiled->call(with, Location::current()).outputs;
    });
  };
  const Trace eager = traced(false);
  return !eager.failed && difference_of(traced(true), eager).has_value();
}

/// The program's graph as captured, as a file for `diptych graph`, and whether it has the fault by itself.
std::string as_text(const Program& program, const Variant& variant) {
  std::string text;
  std::vector<Tensor> captured;
  passes::PipelineOptions pipeline = variant.pipeline;
  pipeline.observe = [&](const std::string& stage, const graph::Graph& graph, bool) {
    if (stage == "captured") {
      text = graph::print(graph);
      captured.clear();
      for (const graph::Input& input : graph.inputs) {
        if (input.kind == graph::InputKind::captured) {
          captured.push_back(input.tensor);
        }
      }
    }
  };
  Variables mine;
  auto function = jit([&](const std::vector<Tensor>& with) { return program.run(with, mine); }, {.pipeline = pipeline});
  trace(program, {program.arguments}, mine, [&](const std::vector<Tensor>& with) { return function(with); });
  return fmt::format("# {}: `diptych graph FILE.txt:special --check-passes`\n{}",
                     reproduces(text, program, captured, variant.pipeline) ? "this text has the fault"
                                                                           : "this text alone doesn't have the fault",
                     text);
}

/// The stages of a pipeline, run one by one on the program's arguments: the first that changes a bit, and which value.
std::optional<std::string> first_wrong_stage(const Program& program, passes::PipelineOptions pipeline) {
  std::vector<std::string> names;
  std::vector<graph::Graph> stages;
  pipeline.observe = [&](const std::string& stage, const graph::Graph& graph, bool) {
    if (stage == "captured") {
      names.clear();
      stages.clear();
    }
    names.push_back(stage);
    stages.push_back(graph);
  };
  Variables mine;
  auto function = jit([&](const std::vector<Tensor>& with) { return program.run(with, mine); }, {.pipeline = pipeline});
  trace(program, {program.arguments}, mine, [&](const std::vector<Tensor>& with) { return function(with); });
  const auto differences = differences_of(stages, program.arguments);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (differences[i]) {
      return fmt::format("{} is the first that changes a bit: {}", names[i], to_string(*differences[i]));
    }
  }
  return std::nullopt;
}

/// Of variants: not the program as a graph, with its gradient, but the gradient, in eager, of its steps as one.
constexpr const char* kAround = "in a gradient";

/// What is wrong with it as a graph, if anything, with the text of the graph.
std::optional<std::string> fault_of(const Program& program, const Variant& variant, const Trace& eager,
                                    Compiled* compiled = nullptr) {
  Variables mine;
  const bool is_around = variant.name == kAround;
  auto function = jit(
      [&](const std::vector<Tensor>& with) {
        return is_around ? program.run_steps(with, mine) : program.run(with, mine);
      },
      {.pipeline = variant.pipeline});
  const auto call = [&](const std::vector<Tensor>& with) { return function(with); };
  const Trace graph = is_around ? trace_in_turns(program, mine, call) : trace(program, two_calls(program), mine, call);
  std::string fault = difference_of(graph, eager).value_or("");
  if (fault.empty() && variant.name == "fused") {
    const graph::JitFunction& compiled_now = *function.compiled();
    const auto value = read_without_reason(*compiled_now.graph(), compiled_now.executable()->values(),
                                           compiled_now.ledger().back().passes);
    fault = value ? fmt::format("%{} is read by another kernel, and nothing says why", *value) : "";
  }
  if (!fault.empty()) {
    return fmt::format("{}, {}\n{}\n{}", variant.name, fault, program.describe(),
                       graph.failed ? "" : graph::print(*function.compiled()->graph()));
  }
  if (compiled != nullptr) {
    compiled->add(*function.compiled());
  }
  return std::nullopt;
}

/// What fault_of() compares with.
Trace eager_of(const Program& program, const Variant& variant) {
  if (variant.name != kAround) {
    return trace_eager(program);
  }
  Variables variables;
  return trace_in_turns(program, variables,
                        [&](const std::vector<Tensor>& with) { return program.run_steps(with, variables); });
}

/// The fault of the smallest program that has one, and that program as a graph.
std::string shrunk_fault(const Program& program, const Variant& variant) {
  const auto fault = [&](const Program& candidate) {
    const Trace eager = eager_of(candidate, variant);
    return eager.failed ? std::nullopt : fault_of(candidate, variant, eager);
  };
  const Program smallest =
      diptych::testing::shrunk(program, [&](const Program& candidate) { return fault(candidate).has_value(); });
  return fmt::format("{}\n{}\n{}", fault(smallest).value_or("not again"),
                     first_wrong_stage(smallest, variant.pipeline).value_or("each pass by itself keeps every bit"),
                     as_text(smallest, variant));
}

void expect_same(const Trace& actual, const Trace& expected, const std::string& what) {
  ASSERT_EQ(actual.failed, expected.failed) << what;
  ASSERT_EQ(actual.seen.size(), expected.seen.size()) << what;
  for (std::size_t i = 0; i < expected.seen.size(); ++i) {
    ASSERT_TRUE(bitwise_equal(actual.seen[i], expected.seen[i])) << what << ", tensor " << i;
  }
}

/// How often each kind of step was in a program that ran.
struct Seen {
  std::size_t programs = 0, steps = 0, updates = 0, branches = 0, loops = 0, concats = 0, contractions = 0,
              gradients = 0;

  void add(const Program& program) {
    ++programs;
    steps += program.steps.size();
    gradients += program.gradient >= 0 ? 1 : 0;
    for (const Step& step : program.steps) {
      updates += step.kind == Step::Kind::update ? 1 : 0;
      branches += step.kind == Step::Kind::branch ? 1 : 0;
      loops += step.kind == Step::Kind::loop ? 1 : 0;
      concats += step.op == &op::concat ? 1 : 0;
      contractions += step.op != nullptr && step.op->epilogue_axes != 0 ? 1 : 0;
    }
  }
};

TEST(RandomPrograms, GiveEagersBitsAsEveryKindOfGraph) {
  const std::uint64_t kPrograms = diptych::testing::is_short_run() ? 600 : 12000;
  // By night each program is every kind of graph.
  const bool is_every_kind = std::getenv("DIPTYCH_LONG") != nullptr;
  const auto variants = diptych::testing::pipeline_variants();
  const Variant around{kAround, diptych::testing::fusing_all()};
  std::size_t compared = 0, mixed = 0, on_each_isa = 0, on_threads = 0;
  std::set<std::string_view> missing;
  Compiled compiled;
  Seen seen;
  const std::int64_t in_use = allocator::stats().bytes_in_use;
  std::string before;  // the program
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    ASSERT_EQ(allocator::stats().bytes_in_use, in_use) << "it leaves memory behind\n" << before;
    Random random(seed * 2654435761U + 17);
    const Program program = diptych::testing::random_program(random);
    before = program.describe();
    const Trace eager = trace_eager(program);
    if (eager.failed) {
      const PipelinedScope scope;
      const Trace pipelined = trace_eager(program);
      const bool failed_later = !message_of<Error>([] { synchronize(); }).empty();
      ASSERT_TRUE(pipelined.failed || failed_later) << "seed " << seed;
      continue;  // an index out of range: what is left of such a program depends on what was dead code
    }
    seen.add(program);
    if (seed % 3 == 0) {
      const PipelinedScope scope;
      expect_same(trace_eager(program), eager, fmt::format("seed {}, pipelined\n{}", seed, program.describe()));
    }
    if (seed % 7 == 0) {
      for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
        if (!is_supported(isa)) {
          missing.insert(kIsaNames[static_cast<std::size_t>(isa)]);
          continue;
        }
        const WithIsa with(isa);
        const std::string where = fmt::format("seed {}, {}", seed, kIsaNames[static_cast<std::size_t>(isa)]);
        expect_same(trace_eager(program), eager, where + "\n" + program.describe());
        for (const Variant& variant : variants) {
          if (seed % (6 * 7) != 0 && variant.name != "fused") {
            continue;
          }
          if (const auto fault = fault_of(program, variant, eager)) {
            FAIL() << where << ", " << *fault << "\nsmaller: " << shrunk_fault(program, variant);
          }
          ++on_each_isa;
        }
      }
    }
    if (program.gradient >= 0) {
      if (const auto fault = fault_of(program, around, eager_of(program, around))) {
        FAIL() << "seed " << seed << ", " << *fault << "\nsmaller: " << shrunk_fault(program, around);
      }
      ++mixed;
    }
    for (const Variant& variant : variants) {
      // Everything for one program in six; the two ends of the pipeline for all.
      if (!is_every_kind && seed % 6 != 0 && variant.name != "replay" && variant.name != "full" &&
          variant.name != "fused") {
        continue;
      }
      if (const auto fault = fault_of(program, variant, eager, &compiled)) {
        FAIL() << "seed " << seed << ", " << *fault << "\nsmaller: " << shrunk_fault(program, variant);
      }
      ++compared;
      if (seed % 5 == 0) {  // whatever can be divided, and instructions side by side
        const int count = seed % 2 == 0 ? 2 : 3;
        const WithThreads threads(count, true);
        if (const auto fault = fault_of(program, variant, eager)) {
          FAIL() << "seed " << seed << ", " << count << " threads, " << *fault
                 << "\nsmaller: " << shrunk_fault(program, variant);
        }
        ++on_threads;
      }
    }
    if (seed % 48 == 0) {
      const auto wrong = first_wrong_stage(program, diptych::testing::fusing_all());
      ASSERT_EQ(wrong, std::nullopt) << "seed " << seed << "\n" << program.describe();
    }
    if (seed % 16 == 0) {  // the text form of whatever came out
      Variables variables;
      for (const Tensor& state : program.states) {
        variables.emplace_back(copy(state), "s");
      }
      auto function = jit([&](const std::vector<Tensor>& with) { return program.run(with, variables); });
      function(program.arguments);
      const std::string text = graph::print(*function.compiled()->graph());
      ASSERT_EQ(graph::print(graph::parse(text)), text);
    }
  }
  EXPECT_GT(compared, 3 * kPrograms);
  EXPECT_GT(seen.steps, 5 * kPrograms) << "programs of some size";
  EXPECT_GT(compiled.kernels_of_rows, kPrograms / 50) << "fused reductions and normalisations";
  EXPECT_GT(compiled.kernels_of_channels, kPrograms / 200) << "batch normalisation with what is around it";
  EXPECT_GT(compiled.norms_by_hand, kPrograms / 200) << "the same written by hand";
  EXPECT_GT(compiled.elementwise, kPrograms / 2);
  EXPECT_GT(compiled.epilogues, kPrograms / 25) << "in programs of layers";
  EXPECT_GT(seen.contractions, kPrograms / 12);
  EXPECT_GT(compiled.several_regions, kPrograms / 50);
  EXPECT_GT(compiled.concats_in_place, kPrograms / 50);
  EXPECT_GT(compiled.merged_products, kPrograms / 100);
  EXPECT_GT(compiled.split_sums, kPrograms / 200);
  EXPECT_GT(seen.concats, kPrograms / 10);
  EXPECT_GT(seen.updates, kPrograms / 50);
  EXPECT_GT(seen.branches, kPrograms / 50);
  EXPECT_GT(seen.loops, kPrograms / 50);
  EXPECT_GT(seen.gradients, kPrograms / 20);
  EXPECT_EQ(mixed, seen.gradients);
  EXPECT_GT(on_each_isa, kPrograms / 4);
  EXPECT_GT(on_threads, kPrograms / 2);
  fmt::print("{} programs as {} graphs, {} of them on two and three threads, {} on an instruction set of its own{}\n",
             seen.programs, compared + on_threads + on_each_isa, on_threads, on_each_isa,
             missing.empty() ? "" : fmt::format("; this machine lacks {}", fmt::join(missing, ", ")));
}

/// A pass that is wrong: tanh becomes sigmoid.
bool forget_tanh(graph::Graph& graph, const passes::PassContext& /*context*/) {
  bool changed = false;
  for (graph::Node& node : graph.nodes) {
    if (node.op == &op::tanh) {
      node.op = &op::sigmoid;
      changed = true;
    }
  }
  return changed;
}

/// Programs of which the wrong pass makes something else are found, shrunk to the one step that matters, and printed as
/// a graph that has the fault by itself.
TEST(RandomPrograms, ThatFailAreShrunkAndPrintedAsAGraphThatFails) {
  Variant wrong{"wrong", passes::PipelineOptions::none()};
  wrong.pipeline.more = {{"forget-tanh", "a wrong pass", forget_tanh}};
  std::size_t found = 0;
  for (std::uint64_t seed = 0; found < 5; ++seed) {
    ASSERT_LT(seed, 3000U) << "too few programs with a tanh that matters";
    Random random(seed * 2654435761U + 17);
    const Program program = diptych::testing::random_program(random);
    const Trace eager = trace_eager(program);
    if (eager.failed || !fault_of(program, wrong, eager)) {
      continue;
    }
    ++found;
    const std::string shrunk = shrunk_fault(program, wrong);
    ASSERT_THAT(shrunk, ::testing::HasSubstr("# this text has the fault")) << "seed " << seed;
    EXPECT_THAT(shrunk, ::testing::HasSubstr("forget-tanh is the first that changes a bit: %"));
    const std::string text = shrunk.substr(shrunk.find("# this text has the fault"));
    EXPECT_LE(graph::count_nodes(graph::parse(text)), 12U) << text;  // as many as a loop has with one op in it
    EXPECT_THAT(text, ::testing::HasSubstr("= tanh("));
  }
}

}  // namespace
}  // namespace diptych::runtime
