#include "reports/html/compare_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reports/html/fields.h"
#include "reports/html/page.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/views/compare_sentences.h"

namespace diptych::reports {
namespace {

std::string clipped(const std::string& name) { return shorten(printable(name), 120); }

std::string next_commands(const std::vector<Suggestion>& next) {
  return next.empty() ? "<p class=\"why\">Nothing is left to do.</p>" : html_commands(next);
}

std::string tone_mark(const ComparisonRow& row) {
  const std::string tone = row.verdict() == Verdict::regressed ? "slower" : row_tone(row);
  return row.verdict() != Verdict::regressed && tone == "slower" ? "none" : tone == "dim" ? "none" : tone;
}

HtmlField verdict_field_of(const ComparisonRow& row) {
  return {row.verdict_name(), shorten(printable(row.detail()), 200), {}, "wrap", tone_mark(row)};
}

HtmlField change_field(const ComparisonRow& row) {
  const auto ratio = row.ratio();
  return split_interval(row_change(row), ratio ? std::optional(std::log(ratio->value)) : std::nullopt);
}

std::string changes_tables(const ComparisonDocument& comparison) {
  HtmlTable table({"figure", "base → head", "change", "verdict"}, {3});
  HtmlTable same({"figure", "base and head"});
  for (const ComparisonRow& row : rows_by_change(comparison.rows())) {
    const std::string values = row_values(row);
    if (is_unremarkable(row)) {
      same.row({{clipped(row.subject()), clipped(row.metric())}, {values}});
    } else {
      table.sortable().row(
          {{clipped(row.subject()), clipped(row.metric())}, {values}, change_field(row), verdict_field_of(row)});
    }
  }
  std::string out = table.empty() ? "" : table.finish();
  return out +
         (same.empty() ? "" : folded("Counts that are the same", count_line(comparison.summary()), same.finish()));
}

std::string differences(const ComparisonDocument& comparison) {
  std::string out;
  HtmlTable method({"method changed", "base", "head"}, {1, 2});
  for (const MethodEntry change : comparison.method()) {
    method.row({{clipped(change.name()), clipped(change.of())},
                {clipped(change.base()), "", {}, "wrap"},
                {clipped(change.head()), "", {}, "wrap"}});
  }
  out += method.empty() ? "" : method.finish();
  const std::vector<EnvironmentDifference> fields = differences_that_matter(comparison.environment());
  if (fields.empty()) {
    return out + "<p class=\"sub\">The environments are the same in what matters.</p>";
  }
  HtmlTable table({"environment", "base", "head"}, {1, 2});
  for (const EnvironmentDifference& field : fields) {
    table.row(
        {{clipped(field.name())}, {clipped(field.base()), "", {}, "wrap"}, {clipped(field.head()), "", {}, "wrap"}});
  }
  return out + table.finish();
}

std::string names_of_lists(const ComparisonDocument& comparison) {
  std::string out;
  for (const auto& [heading, cells] :
       name_lists({{"Only in head", comparison.new_cells()}, {"Only in base", comparison.vanished()}})) {
    out += fmt::format("<p class=\"why\">{}: {}</p>", heading, escape_xml(shorten(printable(cells), 600)));
  }
  return out;
}

/// head - base, with a sign; no interval, because it is no test.
HtmlField difference_field(const std::optional<double>& base, const std::optional<double>& head) {
  if (!base || !head) {
    return {"-"};
  }
  const double difference = *head - *base;
  const std::string size = format_seconds(std::optional<double>(std::abs(difference)), Glyphs::typographic);
  return {difference == 0 ? "0" : (difference < 0 ? "−" : "+") + size, "", difference};
}

/// Rows of times and of leads, by workload and arm.
using TimeRows = std::map<std::pair<std::string, std::string>, ComparisonRow>;

TimeRows time_rows(const ComparisonDocument& comparison) {
  TimeRows rows;
  for (const ComparisonRow row : comparison.rows()) {
    if (row.metric() == "time" || row.metric() == "speedup") {
      rows.insert_or_assign({row.workload(), row.arm()}, row);
    }
  }
  return rows;
}

std::string arms_of_both(const TimeRows& times, const Cell& base, const Cell& head) {
  HtmlTable table({"arm", "base", "head", "change", "lead over eager, base", "head", "verdict"}, {6});
  for (const Arm arm : base.arms()) {
    const Arm other = head.arm(arm.name());
    if (!other) {
      continue;
    }
    const auto found = times.find({base.workload(), arm.name()});
    const ComparisonRow time = found == times.end() ? ComparisonRow() : found->second;
    table.row({{clipped(arm.name())},
               time_field(arm.seconds()),
               time_field(other.seconds()),
               change_field(time),
               ratio_field(base.comparison(arm.name()).speedup()),
               ratio_field(head.comparison(arm.name()).speedup()),
               {time.verdict_name().empty() ? "-" : time.verdict_name(), "", {}, "", tone_mark(time)}});
  }
  return table.empty() ? "" : "<h3>Arm by arm</h3>" + table.finish();
}

std::string rungs_of_both(const Cell& base, const Cell& head) {
  HtmlTable table({"rung", "saved in base", "saved in head", "head − base"});
  std::map<std::pair<std::string, std::string>, Rung> of_head;
  for (const Rung rung : head.rungs()) {
    of_head.try_emplace({rung.from(), rung.to()}, rung);
  }
  for (const Rung rung : base.rungs()) {
    if (const auto other = of_head.find({rung.from(), rung.to()}); other != of_head.end()) {
      const std::optional<Estimate> saved = other->second.saved_seconds();
      table.row({{clipped(rung.name().empty() ? rung.to() : rung.name()), clipped(rung.cause())},
                 time_field(rung.saved_seconds()),
                 time_field(saved),
                 difference_field(value_of(rung.saved_seconds()), value_of(saved))});
    }
  }
  return table.empty() ? ""
                       : "<h3>Rung by rung</h3>" + table.finish() +
                             "<p class=\"sub\">What each cause saved, with its interval in its own run. "
                             "The difference is no verdict.</p>";
}

/// Seconds of each arm of an op.
using OpTimes = std::map<std::pair<std::string, std::string>, std::vector<std::optional<double>>>;

OpTimes profiled_ops(const ProfileEntry& profile) {
  OpTimes ops;
  for (const ProfileRowEntry row : profile.rows()) {
    std::vector<std::optional<double>>& seconds = ops[{row.name(), row.kind()}];
    for (const ArmOfProfileRow arm : row.arms()) {
      seconds.push_back(arm.seconds());
    }
    seconds.resize(2);
  }
  return ops;
}

/// Of eager, from the ladder's probes: kernels, and all beside them.
OpTimes probed_ops(const Split& split) {
  OpTimes ops;
  for (const SplitKind kind : split.kinds()) {
    double beside = 0;
    for (const char* part : {"dispatch_seconds", "inference_seconds", "allocation_seconds"}) {
      beside += kind.seconds(part).value_or(0);
    }
    ops[{kind.op(), ""}] = {kind.seconds("kernel_seconds"), beside};
  }
  return ops;
}

std::string ops_of_both(const Cell& base, const Cell& head) {
  const bool has_profiles = base.profile() && head.profile();
  const OpTimes ops = has_profiles ? profiled_ops(base.profile()) : probed_ops(base.ladder().split());
  const OpTimes others = has_profiles ? profiled_ops(head.profile()) : probed_ops(head.ladder().split());
  const std::string first = has_profiles ? "eager" : "eager's kernels";
  const std::string second = has_profiles ? "graph" : "beside kernels";
  HtmlTable table({"op", first + ", base", "head", "head − base", second + ", base", "head", "head − base"});
  std::vector<std::pair<double, std::vector<HtmlField>>> rows;
  for (const auto& [op, seconds] : ops) {
    const auto other = others.find(op);
    if (other == others.end()) {
      continue;
    }
    std::vector<HtmlField> fields = {{clipped(op.first)}};
    double moved = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto a = seconds[i];
      const auto b = other->second[i];
      moved = std::max(moved, a && b ? std::abs(*b - *a) : 0);
      fields.insert(fields.end(), {plain_time_field(a), plain_time_field(b), difference_field(a, b)});
    }
    rows.emplace_back(moved, std::move(fields));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [moved, fields] : rows) {
    table.sortable().row(std::move(fields));
  }
  if (table.empty()) {
    return fmt::format("<p class=\"sub\">Op by op: not recorded in both runs; <code>{}</code> records it.</p>",
                       escape_xml("diptych why " + shell_word(shorten(base.workload(), 200))));
  }
  return folded("Op by op", "one trace or probe in each run: no interval, no verdict", table.finish(), true);
}

std::string cells_of_both(const ComparisonDocument& comparison, const Run& base, const Run& head) {
  std::string out;
  const TimeRows times = time_rows(comparison);
  for (const Cell cell : base.cells()) {
    const Cell other = head.cell(cell.workload());
    if (other) {
      out += fmt::format("<section class=\"cell\"><h2>{}</h2>{}{}{}</section>\n", escape_xml(clipped(cell.workload())),
                         arms_of_both(times, cell, other), rungs_of_both(cell, other), ops_of_both(cell, other));
    }
  }
  return out;
}

}  // namespace

std::string render_compare_page(const ComparisonDocument& comparison, const Run& base, const Run& head,
                                const SideNames& names) {
  Page page;
  page.name = fmt::format("{} → {}", shorten(printable(names.base), 58), shorten(printable(names.head), 58));
  page.headline = comparison_headline(comparison);
  page.sentences = {comparison_setup(comparison)};
  for (const MethodEntry change : comparison.method()) {
    page.sentences.push_back("Method changed: " + method_change_text(change) + ".");
    if (page.sentences.size() > 4) {
      break;
    }
  }
  for (const std::string& note : comparison.notes().all()) {
    page.sentences.push_back(note + ".");
  }
  page.body = fmt::format(
      "<section class=\"next\"><h3>What to do next</h3>{}</section>\n<section class=\"pair\"><div><h3>Figures by size "
      "of change</h3>"
      "{}{}</div><div><h3>How the runs differ</h3>{}</div></section>\n{}",
      next_commands(comparison_next(comparison, base, names)), changes_tables(comparison), names_of_lists(comparison),
      differences(comparison), cells_of_both(comparison, base, head));
  page.footer =
      "Verdicts are those of diptych compare: Welch's t on the logs of processes, Holm's correction over all time "
      "rows. "
      "A figure that was measured in another way gets none: METHOD CHANGED.";
  page.data_id = "comparison";
  return render_page(page, comparison.json());
}

}  // namespace diptych::reports
