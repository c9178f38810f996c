// Traces of the arms of an aligned profile with what links their zones: the source ops, an op and its gradient, and
// what an op has become in the other arms.

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "cli/aligned_profile.h"
#include "framework/core/dtype.h"
#include "profiler/trace/split_steps.h"
#include "reports/views/graph_inputs.h"

namespace diptych::cli {
namespace {

using Ids = std::vector<std::uint64_t>;
using profiler::Trace;

/// As PyTorch spells them in traces.
std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float";
    case DType::float64:
      return "double";
    case DType::float16:
      return "c10::Half";
    case DType::bfloat16:
      return "c10::BFloat16";
    case DType::int64:
      return "long int";
    case DType::int32:
      return "int";
    case DType::int16:
      return "short int";
    case DType::int8:
      return "signed char";
    case DType::uint8:
      return "unsigned char";
    case DType::boolean:
      return "bool";
    default:
      return name_of(dtype);
  }
}

std::map<std::uint64_t, profiler::OpArguments> arguments_of(const std::map<std::uint64_t, reports::OpLinks>& links) {
  std::map<std::uint64_t, profiler::OpArguments> arguments;
  for (const auto& [id, link] : links) {
    profiler::OpArguments& of_op = arguments[id];
    of_op.sequence = link.forward;
    for (const TensorType& type : link.operands) {
      of_op.input_dims.emplace_back(type.shape.begin(), type.shape.end());
      of_op.input_types.emplace_back(torch_name(type.dtype));
    }
  }
  return arguments;
}

/// The zones of ops, step by step, in order of time.
std::vector<std::vector<std::size_t>> ops_of_steps(const Trace& trace) {
  const std::vector<std::size_t> steps = profiler::steps_of(trace);
  std::vector<std::vector<std::size_t>> ops(steps.size());
  for (std::size_t i = 0; i < trace.zones.size(); ++i) {
    if (trace.label_of(trace.zones[i]).category != trace::Category::op) {
      continue;
    }
    const auto behind = std::partition_point(steps.begin(), steps.end(), [&](std::size_t step) {
      return trace.zones[step].begin_ns <= trace.zones[i].begin_ns;
    });
    if (behind != steps.begin()) {
      ops[static_cast<std::size_t>(behind - steps.begin()) - 1].push_back(i);
    }
  }
  for (std::vector<std::size_t>& step : ops) {
    std::stable_sort(step.begin(), step.end(),
                     [&](std::size_t a, std::size_t b) { return trace.zones[a].begin_ns < trace.zones[b].begin_ns; });
  }
  return ops;
}

/// From the first zone of each op of a step to the first of its gradient.
void link_gradients(const std::vector<std::size_t>& step, const std::vector<Ids>& source_ops,
                    const std::map<std::uint64_t, reports::OpLinks>& links, std::vector<profiler::Flow>& flows) {
  std::map<std::uint64_t, std::size_t> forward;
  std::set<std::uint64_t> linked;
  for (const std::size_t zone : step) {
    for (const std::uint64_t id : source_ops[zone]) {
      forward.try_emplace(id, zone);
      const auto link = links.find(id);
      if (link == links.end() || link->second.forward == id) {
        continue;
      }
      const auto from = forward.find(link->second.forward);
      if (from != forward.end() && from->second != zone && linked.insert(from->first).second) {
        flows.push_back({"fwdbwd", from->second, zone});
      }
    }
  }
}

}  // namespace

std::vector<Ids> AlignedTraces::source_ops_of_zones(std::size_t arm) const {
  const Trace& trace = traces_[arm];
  std::vector<Ids> ids(trace.zones.size());
  for (const std::vector<std::size_t>& step : ops_of_steps(trace)) {
    std::vector<AppliedOp> applied;
    for (const std::size_t zone : step) {
      applied.push_back({trace.label_of(trace.zones[zone]).name, trace.zones[zone].source_op});
    }
    std::vector<Ids> sources = source_ops_of_call(arm, applied);
    for (std::size_t i = 0; i < step.size(); ++i) {
      ids[step[i]] = std::move(sources[i]);
    }
  }
  return ids;
}

LinkedTrace AlignedTraces::linked_trace(std::size_t arm) const {
  LinkedTrace linked{traces_[arm], {}};
  linked.options.arguments = arguments_of(links_);
  for (const auto& [id, names] : reports::reads_by_source_op(captured_)) {
    linked.options.arguments[id].reads = names;
  }
  linked.options.source_ops = source_ops_of_zones(arm);
  for (const std::vector<std::size_t>& step : ops_of_steps(linked.trace)) {
    link_gradients(step, linked.options.source_ops, links_, linked.options.flows);
  }
  return linked;
}

LinkedTrace AlignedTraces::linked_traces() const {
  LinkedTrace all;
  std::vector<std::map<std::uint64_t, std::size_t>> base;  // by step: the zone of each source op in the first arm
  for (std::size_t arm = 0; arm < traces_.size(); ++arm) {
    const LinkedTrace one = linked_trace(arm);
    const std::size_t offset = all.trace.zones.size();
    if (arm == 0) {
      all = one;
    } else {
      for (Trace::Zone zone : one.trace.zones) {
        zone.parent += zone.parent == Trace::no_parent ? 0 : static_cast<std::int32_t>(offset);
        all.trace.zones.push_back(zone);
      }
      all.trace.counters.insert(all.trace.counters.end(), one.trace.counters.begin(), one.trace.counters.end());
      all.options.source_ops.insert(all.options.source_ops.end(), one.options.source_ops.begin(),
                                    one.options.source_ops.end());
      for (const profiler::Flow& flow : one.options.flows) {
        all.options.flows.push_back({flow.name, flow.from + offset, flow.to + offset});
      }
    }
    const std::vector<std::size_t> steps = profiler::steps_of(one.trace);
    for (std::size_t step = 0; step < steps.size(); ++step) {
      all.trace.labels.push_back({fmt::format("{}, call {}", arms_[arm].name, step), trace::Category::user});
      all.trace.zones[offset + steps[step]].label = static_cast<std::uint32_t>(all.trace.labels.size() - 1);
    }
    const std::vector<std::vector<std::size_t>> ops = ops_of_steps(one.trace);
    base.resize(std::max(base.size(), ops.size()));
    for (std::size_t step = 0; step < ops.size(); ++step) {
      link_to_base(base[step], ops[step], offset, all);
    }
  }
  return all;
}

void AlignedTraces::link_to_base(std::map<std::uint64_t, std::size_t>& base, const std::vector<std::size_t>& step,
                                 std::size_t offset, LinkedTrace& all) {
  for (const std::size_t zone : step) {
    for (const std::uint64_t id : all.options.source_ops[offset + zone]) {
      const auto [from, is_base] = base.try_emplace(id, offset + zone);
      if (is_base || from->second >= offset) {
        continue;
      }
      // Arms take turns, forwards and backwards: the arrow leads to what ran later.
      const std::size_t to = offset + zone;
      const bool is_earlier = all.trace.zones[to].begin_ns < all.trace.zones[from->second].begin_ns;
      all.options.flows.push_back({"same op", is_earlier ? to : from->second, is_earlier ? from->second : to});
    }
  }
}

}  // namespace diptych::cli
