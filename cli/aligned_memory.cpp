// What a call of each arm of an aligned profile holds in memory.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "cli/aligned_profile.h"
#include "framework/core/parallel.h"
#include "reports/views/source_ops.h"
#include "workloads/harness/probes/memory_watch.h"

namespace diptych::cli {
namespace {

/// What readers know a block's op by.
class Describe {
 public:
  explicit Describe(const std::vector<reports::SourceOp>& ops) {
    for (const reports::SourceOp& op : ops) {
      ops_.try_emplace(op.id, &op);
    }
  }

  void operator()(reports::MemoryBlock& block, const char* op, std::uint64_t source_op) const {
    block.op = op;
    block.source_op = source_op;
    if (const auto found = ops_.find(source_op); found != ops_.end()) {
      block.scope = found->second->scope;
      block.shape = found->second->shape;
    }
  }

 private:
  std::map<std::uint64_t, const reports::SourceOp*> ops_;
};

/// A graph's instructions are its ops that stand in no other; empty if the call ran more than one graph, or eager ops.
std::vector<workloads::OpMark> instructions_of(const workloads::MemoryOfCall& call, std::size_t expected) {
  std::vector<workloads::OpMark> marks;
  std::copy_if(call.ops.begin(), call.ops.end(), std::back_inserter(marks),
               [](const workloads::OpMark& mark) { return mark.depth == 0; });
  return marks.size() == expected ? marks : std::vector<workloads::OpMark>();
}

using SourceOf = std::function<std::uint64_t(const workloads::OpMark&)>;

/// What a graph keeps between calls. False: it isn't known when its temporaries are alive.
bool add_arena(reports::MemoryOfArm& arm, const workloads::MemoryOfCall& call, const runtime::Executable& executable,
               double scale, const Describe& describe, const SourceOf& source_of) {
  const runtime::ExecutableStats& stats = executable.stats();
  if (*stats.heuristic != '\0') {
    arm.arena_bytes = static_cast<std::int64_t>(stats.planned_peak_bytes);
    arm.lower_bound_bytes = static_cast<std::int64_t>(stats.lower_bound_bytes);
  }
  arm.packed_bytes = static_cast<std::int64_t>(stats.packed_bytes);
  if (arm.packed_bytes > 0) {
    arm.blocks.push_back({.bytes = arm.packed_bytes, .from = 0, .to = arm.seconds, .op = "(packed once)"});
  }
  const std::vector<workloads::OpMark> instructions = instructions_of(call, executable.values().size());
  if (instructions.empty()) {
    return arm.arena_bytes.value_or(0) == 0;
  }
  for (const runtime::PlannedTemporary& planned : executable.temporaries()) {
    const workloads::OpMark& first = instructions[planned.first];
    reports::MemoryBlock block{.bytes = static_cast<std::int64_t>(planned.bytes),
                               .from = first.from * scale,
                               .to = instructions[planned.last].to * scale,
                               .offset = static_cast<std::int64_t>(planned.offset)};
    describe(block, first.name, source_of(first));
    arm.blocks.push_back(std::move(block));
  }
  return true;
}

/// Of a few calls, the shortest: where others had the processor meanwhile, most of the call's events lie in a moment.
workloads::MemoryOfCall shortest_watched(workloads::ArmInstance& instance, int first_step) {
  constexpr int kMostCalls = 5;
  constexpr double kBudgetSeconds = 0.5;
  workloads::MemoryOfCall shortest;
  double seconds = 0;
  for (int i = 0; i < kMostCalls && seconds < kBudgetSeconds; ++i) {
    workloads::MemoryOfCall call = workloads::watch_memory([&] {
      instance.call(first_step + i);
      instance.finish();
    });
    seconds += call.seconds;
    if (i == 0 || call.seconds < shortest.seconds) {
      shortest = std::move(call);
    }
  }
  return shortest;
}

}  // namespace

std::vector<reports::MemoryOfArm> AlignedTraces::watch_memory() {
  const UseThreads use(1);  // of several, only one would be seen
  const Describe describe(profile_.ops);
  std::vector<reports::MemoryOfArm> arms;
  for (std::size_t index = 0; index < instances_.size(); ++index) {
    workloads::ArmInstance& instance = *instances_[index];
    const workloads::MemoryOfCall call = shortest_watched(instance, request_.steps);
    if (!call.is_whole) {
      notes_.push_back(fmt::format("INCOMPLETE: the memory of {} has more events than are kept", arms_[index].name));
    }
    reports::MemoryOfArm arm{.name = arms_[index].name, .seconds = profile_.arms[index].total_seconds};
    const double scale = call.seconds > 0 ? arm.seconds / call.seconds : 1;  // watching takes time of its own
    const graph::JitFunction* const compiled = instance.compiled();
    std::vector<AppliedOp> applied;
    for (const workloads::OpMark& op : call.ops) {
      applied.push_back({std::string(op.name), op.source_op});
    }
    const std::vector<SourceOps> sources = source_ops_of_call(index, applied);
    const auto last_of = [](const SourceOps& all) { return all.empty() ? std::uint64_t{0} : all.back(); };
    const auto source_of = [&](const workloads::OpMark& op) {
      return last_of(compiled_[index].source_ops_of(op.source_op, op.name));
    };
    for (const workloads::WatchedBlock& watched : call.blocks) {
      reports::MemoryBlock block{
          .bytes = watched.bytes, .from = watched.from * scale, .to = watched.to * scale, .is_older = watched.is_older};
      if (watched.op != workloads::WatchedBlock::kNoOp) {
        const workloads::OpMark& op = call.ops[watched.op];
        describe(block, op.name, last_of(sources[watched.op]));
      } else if (compiled != nullptr && !watched.is_older) {
        block.op = "(results)";
      }
      arm.blocks.push_back(std::move(block));
    }
    if (compiled != nullptr && !add_arena(arm, call, *compiled->executable(), scale, describe, source_of)) {
      notes_.push_back(fmt::format("memory: {} runs more than one graph; only what it allocates is shown", arm.name));
    }
    arms.push_back(std::move(arm));
  }
  return arms;
}

}  // namespace diptych::cli
