#include "reports/views/profile_views.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"

namespace diptych::reports {
namespace {

/// What the ops of one fate have in common in a row.
struct FateGroup {
  Fate fate;
  std::size_t ops = 0;
  std::vector<std::string> with, passes;
};

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
}

std::vector<FateGroup> grouped_fates(const std::vector<FateCount>& fates) {
  std::vector<FateGroup> groups;
  for (const FateCount& each : fates) {
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const FateGroup& g) { return g.fate == each.fate.fate; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {each.fate.fate, 0, {}, {}});
    }
    group->ops += each.ops;
    for (const std::string& name : each.fate.with) {
      add_once(group->with, name);
    }
    add_once(group->passes, each.fate.pass);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const FateGroup& a, const FateGroup& b) { return a.ops > b.ops; });
  return groups;
}

std::string first_names(const std::vector<std::string>& names, std::size_t most = 3) {
  constexpr int kNameColumns = 24;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    shown.push_back(shorten(printable(names[i]), kNameColumns));
  }
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

std::string fate_words(const FateGroup& group) {
  const std::string by = group.passes.empty() ? "" : " by " + first_names(group.passes);
  switch (group.fate) {
    case Fate::none:
      return "";
    case Fate::kernel:
      return "same kernel";
    case Fate::fused:
      return "fused with " + first_names(group.with);
    case Fate::joined:
      return "joined into " + first_names(group.with) + by;
    case Fate::rewritten:
      return "became " + first_names(group.with) + by;
    case Fate::merged:
      return "merged with an equal one" + by;
    case Fate::view:
      return "view, no kernel";
    case Fate::placed:
      return "parts written in place, no kernel";
    case Fate::folded:
      return "folded while compiling";
    case Fate::removed:
      return "removed" + by;
    case Fate::node:
      return "run as " + first_names(group.with);
    case Fate::unseen:
      return "no node of its own";
  }
  return "";
}

std::string time_of(const ArmOfRow& arm) {
  return arm.seconds ? (arm.is_estimate ? "~" : "") + format_seconds(arm.seconds) : "-";
}

std::string plain_percent(const std::optional<double>& share) { return share ? format_percent(*share) : "-"; }

constexpr std::array<OpPartColumn, 4> kOpParts = {{{"dispatch", &OpParts::dispatch},
                                                   {"inference", &OpParts::inference},
                                                   {"allocation", &OpParts::allocation},
                                                   {"kernel", &OpParts::kernel}}};

class ProfileTable {
 public:
  explicit ProfileTable(const AlignedProfile& profile) : profile_(profile) {
    has_parts_ = std::any_of(profile.rows.begin(), profile.rows.end(),
                             [](const AlignedRow& row) { return row.parts.has_value(); });
    std::vector<std::string> header = {std::string(profile_groupings()[static_cast<std::size_t>(profile.by)]), "ops"};
    for (std::size_t arm = 0; arm < profile.arms.size(); ++arm) {
      header.push_back(printable(profile.arms[arm]));
      if (arm == 0 && has_parts_) {
        header.insert(header.end(), {"dispatch", "infer", "alloc", "kernel"});
      }
    }
    header.insert(header.end(), {"saves", "share", fmt::format("in {}", printable(profile.arms.back()))});
    rows_.push_back(std::move(header));
  }

  void add(const AlignedRow& row) {
    const std::size_t last = profile_.arms.size() - 1;
    constexpr int kNameColumns = 44;
    std::vector<std::string> fields = {shorten_middle(printable(row.name), kNameColumns),
                                       row.ops > 0 ? fmt::format("{}", row.ops) : ""};
    for (std::size_t arm = 0; arm < row.arms.size(); ++arm) {
      fields.push_back(time_of(row.arms[arm]));
      for (std::size_t i = 0; arm == 0 && has_parts_ && i < kOpParts.size(); ++i) {
        fields.push_back(row.parts ? format_seconds((*row.parts).*kOpParts[i].seconds) : "");
      }
    }
    fields.push_back(format_seconds(profile_.saved(row, last)));
    fields.push_back(plain_percent(share_of_gap(profile_, row, last)));
    fields.push_back(fates_text(profile_, row, last));
    rows_.push_back(std::move(fields));
  }

  void add_total() {
    std::vector<std::string> fields = {"all", ""};
    for (std::size_t arm = 0; arm < profile_.arms.size(); ++arm) {
      fields.push_back(format_seconds(profile_.total_seconds[arm]));
      fields.insert(fields.end(), arm == 0 && has_parts_ ? kOpParts.size() : 0, "");
    }
    fields.push_back(format_seconds(profile_.gap(profile_.arms.size() - 1)));
    fields.emplace_back("");
    fields.emplace_back("");
    rows_.push_back(std::move(fields));
  }

  std::string render(const TableOptions& options) const {
    std::vector<Align> columns(rows_.front().size(), Align::right);
    columns.front() = columns.back() = Align::left;
    std::string out;
    for (const std::string& line : aligned_lines(rows_, columns)) {
      out += shorten(line, options.width) + "\n";
    }
    return out;
  }

 private:
  const AlignedProfile& profile_;
  bool has_parts_ = false;
  TextRows rows_;
};

std::string_view kind_name(AlignedRow::Kind kind) {
  constexpr std::array<std::string_view, 3> names = {"ops", "tape", "outside"};
  return names[static_cast<std::size_t>(kind)];
}

std::string csv_field(const std::string& text) {
  const std::string safe = printable(text);
  if (safe.find_first_of(",\"") == std::string::npos) {
    return safe;
  }
  std::string out = "\"";
  for (const char c : safe) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

std::string csv_number(const std::optional<double>& value) { return value ? fmt::format("{:.9g}", *value) : ""; }

nlohmann::json fates_json(const std::vector<FateCount>& fates) {
  nlohmann::json out = nlohmann::json::array();
  for (const FateCount& each : fates) {
    out.push_back(
        {{"fate", name_of(each.fate.fate)}, {"with", each.fate.with}, {"pass", each.fate.pass}, {"ops", each.ops}});
  }
  return out;
}

Fate fate_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Fate::unseen); ++i) {
    if (name_of(static_cast<Fate>(i)) == name) {
      return static_cast<Fate>(i);
    }
  }
  return Fate::none;
}

std::size_t count_of(double ops) { return ops >= 0 && ops < 1e9 ? static_cast<std::size_t>(ops) : 0; }

AlignedRow read_row(const ProfileRowEntry& entry, std::size_t arms) {
  AlignedRow row{entry.name(), AlignedRow::Kind::ops, count_of(entry.ops()), {}, {}};
  for (const AlignedRow::Kind kind : {AlignedRow::Kind::tape, AlignedRow::Kind::outside}) {
    row.kind = entry.kind() == kind_name(kind) ? kind : row.kind;
  }
  for (const ArmOfProfileRow arm : entry.arms()) {
    ArmOfRow& read = row.arms.emplace_back();
    read.seconds = arm.seconds();
    read.is_estimate = arm.is_estimate();
    for (const FateEntry fate : arm.fates()) {
      read.fates.push_back({{fate_named(fate.fate()), fate.with(), fate.pass()}, count_of(fate.ops())});
    }
  }
  row.arms.resize(arms);
  if (entry.has_parts()) {
    row.parts = OpParts{entry.part("dispatch_seconds"), entry.part("inference_seconds"),
                        entry.part("allocation_seconds"), entry.part("kernel_seconds")};
  }
  return row;
}

}  // namespace

std::span<const OpPartColumn> op_part_columns() { return kOpParts; }

std::string fates_text(const AlignedProfile& profile, const AlignedRow& row, std::size_t arm) {
  const std::vector<FateGroup> groups = grouped_fates(row.arms[arm].fates);
  std::vector<std::string> parts;
  for (const FateGroup& group : groups) {
    if (const std::string words = fate_words(group); !words.empty()) {
      parts.push_back(groups.size() > 1 ? fmt::format("{} {}", group.ops, words) : words);
    }
  }
  const bool in_base = row.arms.front().seconds.has_value();
  const bool in_arm = row.arms[arm].seconds.has_value();
  if (row.kind == AlignedRow::Kind::ops && in_base != in_arm) {
    const std::string only = fmt::format("only in {}", printable(profile.arms[in_base ? 0 : arm]));
    if (parts.empty() || !in_base) {
      parts.insert(parts.begin(), only);
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

OpPlace place_of(const AlignedProfile& profile, const AlignedRow& row) {
  if (profile.by == ProfileBy::op || row.kind != AlignedRow::Kind::ops) {
    return {.op = row.name};
  }
  return profile.by == ProfileBy::scope ? OpPlace{.scope = row.name} : OpPlace();
}

std::optional<double> share_of_gap(const AlignedProfile& profile, const AlignedRow& row, std::size_t arm) {
  constexpr double kLeast = 0.01;
  const double gap = profile.gap(arm);
  if (!(std::abs(gap) >= kLeast * profile.total_seconds.front()) || gap == 0) {
    return std::nullopt;
  }
  return profile.saved(row, arm) / gap;
}

std::string render_profile(const AlignedProfile& profile, const TableOptions& options, std::size_t most) {
  if (profile.arms.size() < 2) {
    return "";
  }
  ProfileTable table(profile);
  const std::size_t shown = most == 0 ? profile.rows.size() : std::min(most, profile.rows.size());
  double rest = 0;
  bool has_estimates = false;
  for (std::size_t i = 0; i < profile.rows.size(); ++i) {
    const AlignedRow& row = profile.rows[i];
    if (i < shown) {
      table.add(row);
      has_estimates = has_estimates || std::any_of(row.arms.begin(), row.arms.end(),
                                                   [](const ArmOfRow& arm) { return arm.is_estimate; });
    } else {
      rest += profile.saved(row, profile.arms.size() - 1);
    }
  }
  table.add_total();
  std::string out = table.render(options);
  if (shown < profile.rows.size()) {
    out += fmt::format("and {} more rows, which save {} together\n", profile.rows.size() - shown, format_seconds(rest));
  }
  if (has_estimates) {
    out += fmt::format("~: an estimate: a kernel of several ops, divided by what they cost in kernels of their own\n");
  }
  return out;
}

std::string profile_csv(const AlignedProfile& profile) {
  std::string out = std::string(profile_groupings()[static_cast<std::size_t>(profile.by)]) + ",kind,ops";
  for (const std::string& arm : profile.arms) {
    out += fmt::format(",{0}_seconds,{0}_estimate", csv_field(arm));
  }
  for (const OpPartColumn& part : kOpParts) {
    out += fmt::format(",{}_seconds", part.name);
  }
  out += ",saved_seconds,share,became\n";
  const std::size_t last = profile.arms.empty() ? 0 : profile.arms.size() - 1;
  for (const AlignedRow& row : profile.rows) {
    out += fmt::format("{},{},{}", csv_field(row.name), kind_name(row.kind), row.ops);
    for (const ArmOfRow& arm : row.arms) {
      out += fmt::format(",{},{}", csv_number(arm.seconds), arm.is_estimate ? "true" : "false");
    }
    for (const OpPartColumn& part : kOpParts) {
      out += "," + (row.parts ? csv_number((*row.parts).*part.seconds) : "");
    }
    out += fmt::format(",{},{},{}\n", csv_number(profile.saved(row, last)),
                       csv_number(share_of_gap(profile, row, last)), csv_field(fates_text(profile, row, last)));
  }
  return out;
}

nlohmann::json profile_json(const AlignedProfile& profile, int steps) {
  nlohmann::json arms = nlohmann::json::array();
  for (std::size_t arm = 0; arm < profile.arms.size(); ++arm) {
    arms.push_back({{"name", profile.arms[arm]}, {"seconds", profile.total_seconds[arm]}});
  }
  nlohmann::json rows = nlohmann::json::array();
  const std::size_t last = profile.arms.empty() ? 0 : profile.arms.size() - 1;
  for (const AlignedRow& row : profile.rows) {
    nlohmann::json of_arms = nlohmann::json::array();
    for (std::size_t arm = 0; arm < row.arms.size(); ++arm) {
      of_arms.push_back({{"name", profile.arms[arm]},
                         {"seconds", to_json(row.arms[arm].seconds)},
                         {"estimate", row.arms[arm].is_estimate},
                         {"fates", fates_json(row.arms[arm].fates)}});
      for (std::size_t i = 0; i < std::min(row.arms[arm].counts.size(), profile.counters.size()); ++i) {
        of_arms.back()["counts"][profile.counters[i]] = row.arms[arm].counts[i];
      }
    }
    nlohmann::json entry = {{"name", row.name},
                            {"kind", kind_name(row.kind)},
                            {"ops", row.ops},
                            {"arms", std::move(of_arms)},
                            {"saved_seconds", profile.saved(row, last)},
                            {"share", to_json(share_of_gap(profile, row, last))}};
    if (row.parts) {
      for (const OpPartColumn& part : kOpParts) {
        entry["parts"][fmt::format("{}_seconds", part.name)] = (*row.parts).*part.seconds;
      }
    }
    rows.push_back(std::move(entry));
  }
  return {{"by", profile_groupings()[static_cast<std::size_t>(profile.by)]},
          {"steps", steps},
          {"arms", std::move(arms)},
          {"rows", std::move(rows)}};
}

std::optional<AlignedProfile> read_profile(const ProfileEntry& entry) {
  AlignedProfile profile;
  for (const ArmOfProfile arm : entry.arms()) {
    profile.arms.push_back(arm.name());
    profile.total_seconds.push_back(arm.seconds());
  }
  const auto names = profile_groupings();
  if (profile.arms.size() < 2 || std::find(names.begin(), names.end(), entry.by()) == names.end()) {
    return std::nullopt;
  }
  profile.by = grouping_named(entry.by());
  for (const ProfileRowEntry row : entry.rows()) {
    profile.rows.push_back(read_row(row, profile.arms.size()));
  }
  return profile;
}

}  // namespace diptych::reports
