#include "reports/gate/gate_config.h"

#include <cmath>
#include <cstdio>
#include <toml++/toml.h>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/text/suggest.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

class Reader {
 public:
  Reader(std::string file, std::string today) : file_(std::move(file)), today_(std::move(today)) {}

  GateConfig read(const toml::table& root) {
    check_keys(root, "", {"gate", "delta", "override", "mute"});
    config_.file = file_;
    if (const toml::node* gate = root.get("gate")) {
      read_gate(table(*gate, "gate"));
    }
    if (const toml::node* deltas = root.get("delta")) {
      const toml::table& values = table(*deltas, "delta");
      check_keys(values, "delta.", {"exact", "instructions", "time"});
      for (const auto& [key, value] : values) {
        config_.delta[*tier_of(std::string(key.str()))] = delta(value, "delta." + std::string(key.str()));
      }
    }
    each(root, "override", [&](const toml::table& entry) { read_override(entry); });
    each(root, "mute", [&](const toml::table& entry) { read_mute(entry); });
    return std::move(config_);
  }

  [[noreturn]] void fail(const toml::source_region& at, const std::string& what) const {
    throw Error(fmt::format("{}:{}: {}", printable(file_), at.begin.line, what));
  }

 private:
  void check_keys(const toml::table& values, const std::string& prefix, const std::vector<std::string>& allowed) const {
    for (const auto& [key, value] : values) {
      const std::string name(key.str());
      if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
        fail(key.source(), unknown("key", name, allowed) +
                               (prefix.empty() ? "" : fmt::format(" (in {})", prefix.substr(0, prefix.size() - 1))));
      }
    }
  }
  const toml::table& table(const toml::node& node, const std::string& name) const {
    if (!node.is_table()) {
      fail(node.source(), fmt::format("'{}' has to be a table: [{}]", name, name));
    }
    return *node.as_table();
  }
  template <class Visit>
  void each(const toml::table& root, const char* name, const Visit& visit) const {
    const toml::node* node = root.get(name);
    if (node == nullptr) {
      return;
    }
    const toml::array* entries = node->as_array();
    if (entries == nullptr) {
      fail(node->source(), fmt::format("'{}' has to be a list of tables: [[{}]]", name, name));
    }
    for (const toml::node& entry : *entries) {
      if (!entry.is_table()) {
        fail(entry.source(), fmt::format("'{}' has to be a list of tables: [[{}]]", name, name));
      }
      visit(*entry.as_table());
    }
  }
  double delta(const toml::node& node, const std::string& name) const {
    const auto value = node.value<double>();
    if (!value || !std::isfinite(*value) || *value < 0 || *value > 10) {
      fail(node.source(), fmt::format("'{}' has to be a relative change from 0 to 10, for example 0.02 for 2 %", name));
    }
    return *value;
  }
  std::string string(const toml::table& entry, const char* key, const char* otherwise) const {
    const toml::node* node = entry.get(key);
    if (node == nullptr) {
      return otherwise;
    }
    if (!node->is_string() || node->as_string()->get().empty()) {
      fail(node->source(), fmt::format("'{}' has to be a text that isn't empty", key));
    }
    return node->as_string()->get();
  }
  std::vector<std::string> strings(const toml::node& node, const std::string& name) const {
    std::vector<std::string> out;
    const toml::array* values = node.as_array();
    for (std::size_t i = 0; values != nullptr && i < values->size(); ++i) {
      const auto* value = values->get(i)->as_string();
      if (value != nullptr) {
        out.push_back(value->get());
      }
    }
    if (values == nullptr || out.size() != values->size() || out.empty()) {
      fail(node.source(), fmt::format("'{}' has to be a list of texts that isn't empty", name));
    }
    return out;
  }

  void read_gate(const toml::table& gate) {
    check_keys(gate, "gate.", {"workloads", "arms", "metrics", "alpha"});
    for (const auto& [key, value] : gate) {
      const std::string name(key.str());
      if (name == "alpha") {
        const auto alpha = value.value<double>();
        if (!alpha || !(*alpha > 0 && *alpha < 0.5)) {
          fail(value.source(), "'gate.alpha' has to lie between 0 and 0.5");
        }
        config_.alpha = *alpha;
        continue;
      }
      const std::vector<std::string> names = strings(value, "gate." + name);
      for (const std::string& metric : names) {
        if (name == "metrics" && !tier_of(metric)) {
          fail(value.source(), unknown("metric", metric, std::vector<std::string>{"exact", "instructions", "time"}));
        }
      }
      (name == "workloads" ? config_.workloads : name == "arms" ? config_.arms : config_.metrics) = names;
    }
  }
  void read_override(const toml::table& entry) {
    check_keys(entry, "override.", {"cell", "metric", "delta"});
    if (entry.get("delta") == nullptr) {
      fail(entry.source(), "an override needs a 'delta'");
    }
    config_.overrides.push_back(
        {string(entry, "cell", "*"), string(entry, "metric", "*"), delta(*entry.get("delta"), "delta")});
  }
  void read_mute(const toml::table& entry) {
    check_keys(entry, "mute.", {"cell", "metric", "until", "reason"});
    for (const char* key : {"cell", "until", "reason"}) {
      if (entry.get(key) == nullptr) {
        fail(entry.source(), fmt::format("a mute needs '{}': which cell, until which day, and why", key));
      }
    }
    GateMute mute{string(entry, "cell", ""), string(entry, "metric", "*"), day(*entry.get("until")),
                  string(entry, "reason", ""), static_cast<int>(entry.source().begin.line)};
    if (mute.until < today_) {
      fail(entry.source(),
           fmt::format("the mute of '{}' has expired: it held until {} ({}); remove it, or set another day",
                       printable(mute.cell), mute.until, printable(mute.reason)));
    }
    config_.mutes.push_back(std::move(mute));
  }
  /// A date of TOML, or the same as a string.
  std::string day(const toml::node& node) const {
    toml::date date{};
    int read = 0;
    if (const auto* value = node.as_date()) {
      date = value->get();
    } else if (const auto* value_text = node.as_string()) {
      int year = 0;
      int month = 0;
      int of_month = 0;
      const std::string& written = value_text->get();
      if (std::sscanf(written.c_str(), "%4d-%2d-%2d%n", &year, &month, &of_month, &read) == 3 &&
          read == static_cast<int>(written.size()) && written.size() == 10) {
        date = toml::date(year, month, of_month);
      }
    }
    const bool leap = (date.year % 4 == 0 && date.year % 100 != 0) || date.year % 400 == 0;
    const int last = date.month == 2                                                             ? (leap ? 29 : 28)
                     : date.month == 4 || date.month == 6 || date.month == 9 || date.month == 11 ? 30
                                                                                                 : 31;
    if (date.year < 1970 || date.month < 1 || date.month > 12 || date.day < 1 || date.day > last) {
      fail(node.source(), "'until' has to be a day, for example 2027-01-31");
    }
    return fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day);
  }

  std::string file_, today_;
  GateConfig config_;
};

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  // Greedy with one point to return to: linear for one star, never exponential.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

double GateConfig::delta_of(const std::string& workload, const std::string& arm, const std::string& metric,
                            Tier tier) const {
  const std::string cell = arm.empty() ? workload : workload + "/" + arm;
  const auto of_tier = delta.find(tier);
  double result = of_tier == delta.end() ? default_delta(tier) : of_tier->second;
  for (const GateOverride& entry : overrides) {
    if (glob_matches(entry.cell, cell) && (glob_matches(entry.metric, metric) || entry.metric == tier_name(tier))) {
      result = entry.delta;
    }
  }
  return result;
}

const GateMute* GateConfig::mute_of(const std::string& cell, const std::string& metric, const std::string& tier) const {
  for (const GateMute& mute : mutes) {
    if (glob_matches(mute.cell, cell) && (glob_matches(mute.metric, metric) || mute.metric == tier)) {
      return &mute;
    }
  }
  return nullptr;
}

GateConfig parse_gate_config(std::string_view text, const std::string& file, const std::string& today) {
  try {
    return Reader(file, today).read(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    throw Error(
        fmt::format("{}:{}: not TOML: {}", printable(file), error.source().begin.line, printable(error.description())));
  }
}

}  // namespace diptych::reports
