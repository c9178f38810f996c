#include "workloads/arms/onnxruntime/node_times.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace diptych::ort {
namespace {

using nlohmann::json;

/// A zone of the profile: a list of Chrome's trace events.
struct Event {
  std::string name, category, op;
  std::int64_t begin = 0, duration = 0;  ///< microseconds
};

Event event_of(const json& zone) {
  Event event{zone.value("name", ""), zone.value("cat", ""), "", zone.value("ts", std::int64_t{0}),
              zone.value("dur", std::int64_t{0})};
  if (const auto arguments = zone.find("args"); arguments != zone.end() && arguments->is_object()) {
    event.op = arguments->value("op_name", "");
  }
  return event;
}

std::vector<Event> read_events(const std::string& path) {
  std::ifstream file(path);
  const json all = json::parse(file, nullptr, false);
  if (!all.is_array()) {
    throw std::runtime_error("the library's profile can't be read: " + path);
  }
  std::vector<Event> events;
  for (const json& zone : all) {
    if (zone.is_object() && zone.value("ph", "") == "X") {
      events.push_back(event_of(zone));
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.begin < b.begin; });
  return events;
}

/// Calls, in order of time, without the first one.
std::vector<const Event*> calls_of(const std::vector<Event>& events) {
  std::vector<const Event*> calls;
  for (const Event& event : events) {
    if (event.name == "model_run") {
      calls.push_back(&event);
    }
  }
  calls.erase(calls.begin(), calls.begin() + (calls.empty() ? 0 : 1));
  return calls;
}

/// The half whose durations lie in the middle: what others take of the machine makes some calls long.
std::vector<const Event*> middle_half(std::vector<const Event*> calls) {
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Event* a, const Event* b) { return a->duration < b->duration; });
  const auto quarter = static_cast<std::ptrdiff_t>(calls.size() / 4);
  return {calls.begin() + quarter, calls.end() - quarter};
}

}  // namespace

std::vector<arms::NodeTime> node_times(const std::string& path, std::int64_t count) {
  constexpr std::string_view kKernel = "_kernel_time";
  const std::vector<Event> events = read_events(path);
  std::vector<const Event*> calls = calls_of(events);
  if (count < 1 || std::ssize(calls) != count) {
    throw std::runtime_error(fmt::format("the library's profile has {} calls, not {}", calls.size(), count));
  }
  calls = middle_half(std::move(calls));
  const double weight = 1 / static_cast<double>(calls.size());
  const auto is_in_a_call = [&](const Event& event) {
    return std::any_of(calls.begin(), calls.end(), [&](const Event* call) {
      return call->begin <= event.begin && event.begin < call->begin + call->duration;
    });
  };
  std::vector<arms::NodeTime> nodes;
  std::map<std::string, std::size_t> index;
  for (const Event& event : events) {
    if (event.category != "Node" || !event.name.ends_with(kKernel) || !is_in_a_call(event)) {
      continue;
    }
    const std::string node = event.name.substr(0, event.name.size() - kKernel.size());
    const auto [found, is_new] = index.try_emplace(node, nodes.size());
    if (is_new) {
      nodes.push_back({node, event.op.empty() ? node : event.op, 0, 0});
    }
    nodes[found->second].seconds += static_cast<double>(event.duration) * 1e-6 * weight;
    nodes[found->second].runs += weight;
  }
  return nodes;
}

}  // namespace diptych::ort
