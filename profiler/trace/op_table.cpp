#include "profiler/trace/op_table.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

namespace diptych::profiler {

namespace {

/// The total length of the union of the outermost zones of all threads.
std::int64_t covered_time(const Trace& trace) {
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const Trace::Zone& zone : trace.zones) {
    if (zone.parent == Trace::no_parent) {
      spans.emplace_back(zone.begin_ns, zone.end_ns);
    }
  }
  std::sort(spans.begin(), spans.end());
  std::int64_t covered = 0;
  std::int64_t reached = spans.empty() ? 0 : spans.front().first;
  for (const auto& [begin, end] : spans) {
    covered += std::max<std::int64_t>(0, end - std::max(begin, reached));
    reached = std::max(reached, end);
  }
  return covered;
}

class TableBuilder {
 public:
  TableBuilder(const Trace& trace, const TracerOverhead& overhead)
      : trace_(trace),
        overhead_(overhead),
        children_ns_(trace.zones.size()),
        children_(trace.zones.size()),
        descendants_(trace.zones.size()) {}

  std::vector<OpRow> rows() {
    sum_children();
    assign_rows();
    for (std::size_t i = 0; i < trace_.zones.size(); ++i) {
      add(i);
    }
    for (OpRow& row : rows_) {
      row.mean_ns /= static_cast<double>(row.calls);
      if (trace_.duration_ns > 0) {
        row.share_of_wall = static_cast<double>(row.self_ns) / static_cast<double>(trace_.duration_ns);
      }
    }
    std::sort(rows_.begin(), rows_.end(), [](const OpRow& a, const OpRow& b) {
      return std::tie(b.self_ns, a.name, a.category) < std::tie(a.self_ns, b.name, b.category);
    });
    return std::move(rows_);
  }

 private:
  void sum_children() {
    // Children come after their parents, so going backwards each zone's own sums are complete when it is reached.
    for (std::size_t i = trace_.zones.size(); i-- > 0;) {
      const Trace::Zone& zone = trace_.zones[i];
      if (zone.parent != Trace::no_parent) {
        const auto parent = static_cast<std::size_t>(zone.parent);
        children_ns_[parent] += zone.duration_ns();
        children_[parent] += 1;
        descendants_[parent] += 1 + descendants_[i];
      }
    }
  }

  /// Labels with the same text share a row, wherever they are defined.
  void assign_rows() {
    std::map<std::pair<trace::Category, std::string>, std::size_t> row_of;
    std::vector<bool> used(trace_.labels.size());
    for (const Trace::Zone& zone : trace_.zones) {
      used[zone.label] = true;
    }
    row_of_label_.resize(trace_.labels.size());
    for (std::size_t i = 0; i < trace_.labels.size(); ++i) {
      if (!used[i]) {
        continue;  // a counter's label
      }
      const Trace::Label& label = trace_.labels[i];
      const auto [found, added] = row_of.try_emplace({label.category, label.name}, rows_.size());
      if (added) {
        rows_.push_back({.name = label.name, .category = label.category});
      }
      row_of_label_[i] = found->second;
    }
  }

  void add(std::size_t index) {
    const Trace::Zone& zone = trace_.zones[index];
    const std::int64_t duration = zone.duration_ns();
    OpRow& row = rows_[row_of_label_[zone.label]];
    row.min_ns = row.calls == 0 ? duration : std::min(row.min_ns, duration);
    row.max_ns = std::max(row.max_ns, duration);
    row.calls += 1;
    row.self_ns += duration - children_ns_[index];
    row.mean_ns += static_cast<double>(duration);
    row.corrected_self_ns += static_cast<double>(duration - children_ns_[index]) - overhead_.inside_ns -
                             static_cast<double>(children_[index]) * (overhead_.enabled_ns - overhead_.inside_ns);
    if (!is_recursive(zone)) {
      row.total_ns += duration;
      row.corrected_total_ns += static_cast<double>(duration) - overhead_.inside_ns -
                                static_cast<double>(descendants_[index]) * overhead_.enabled_ns;
    }
  }

  [[nodiscard]] bool is_recursive(const Trace::Zone& zone) const {
    std::int32_t ancestor = zone.parent;
    while (ancestor != Trace::no_parent) {
      const Trace::Zone& above = trace_.zones[static_cast<std::size_t>(ancestor)];
      if (row_of_label_[above.label] == row_of_label_[zone.label]) {
        return true;
      }
      ancestor = above.parent;
    }
    return false;
  }

  const Trace& trace_;
  TracerOverhead overhead_;
  std::vector<std::int64_t> children_ns_;
  std::vector<std::uint32_t> children_;
  std::vector<std::uint32_t> descendants_;
  std::vector<std::size_t> row_of_label_;
  std::vector<OpRow> rows_;
};

}  // namespace

OpTable op_table(const Trace& trace, const TracerOverhead& overhead) {
  OpTable table;
  table.rows = TableBuilder(trace, overhead).rows();
  table.wall_ns = trace.duration_ns;
  table.covered_ns = covered_time(trace);
  table.uncovered_ns = table.wall_ns - table.covered_ns;
  table.zones = trace.zones.size();
  table.dropped = trace.dropped;
  table.threads = trace.threads.size();
  table.overhead = overhead;
  table.estimated_overhead_ns = static_cast<double>(trace.zones.size()) * overhead.enabled_ns;
  return table;
}

nlohmann::json to_json(const OpTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const OpRow& row : table.rows) {
    rows.push_back({{"name", row.name},
                    {"category", to_string(row.category)},
                    {"calls", row.calls},
                    {"total_ns", row.total_ns},
                    {"self_ns", row.self_ns},
                    {"mean_ns", row.mean_ns},
                    {"min_ns", row.min_ns},
                    {"max_ns", row.max_ns},
                    {"share_of_wall", row.share_of_wall},
                    {"corrected_total_ns", row.corrected_total_ns},
                    {"corrected_self_ns", row.corrected_self_ns}});
  }
  return {{"rows", std::move(rows)},
          {"wall_ns", table.wall_ns},
          {"covered_ns", table.covered_ns},
          {"uncovered_ns", table.uncovered_ns},
          {"zones", table.zones},
          {"dropped", table.dropped},
          {"threads", table.threads},
          {"overhead",
           {{"enabled_ns_per_zone", table.overhead.enabled_ns},
            {"inside_ns_per_zone", table.overhead.inside_ns},
            {"spread_ns_per_zone", table.overhead.spread_ns},
            {"estimated_total_ns", table.estimated_overhead_ns}}}};
}

}  // namespace diptych::profiler
