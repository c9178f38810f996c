#include "reports/views/compare_sentences.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

std::vector<ComparisonRow> rows_with(const ComparisonDocument& comparison, Verdict verdict) {
  std::vector<ComparisonRow> out = rows_by_change(comparison.rows());
  std::erase_if(out, [&](const ComparisonRow& row) { return row.verdict() != verdict; });
  return out;
}

std::string name_of_cell(const std::string& name) { return shorten(printable(name), 60); }

std::string with_largest(const std::vector<ComparisonRow>& rows, const std::string& what) {
  const ComparisonRow& row = rows.front();
  return fmt::format("{}{}: {} {} {}", what, rows.size() > 1 ? ", most" : "", name_of_cell(row.subject()), row.metric(),
                     row.ratio() ? row_change(row) : row_values(row));
}

const char* are(std::size_t count) { return count == 1 ? "is" : "are"; }

std::string undecided(const std::vector<ComparisonRow>& rows) {
  double detectable = 0;
  for (const ComparisonRow& row : rows) {
    detectable = std::max(detectable, row.detectable().value_or(0));
  }
  return fmt::format(
      "{} {} undecided{}", rows.size(), are(rows.size()),
      detectable > 0 ? fmt::format(" (a change below {} may go unseen)", format_percent(detectable)) : "");
}

/// Workloads of these rows, as words of a command; at most three.
std::string workloads_of(const std::vector<ComparisonRow>& rows) {
  std::vector<std::string> words;
  for (const ComparisonRow& row : rows) {
    const std::string word = shell_word(shorten(row.workload(), 200));
    if (words.size() < 3 && std::find(words.begin(), words.end(), word) == words.end()) {
      words.push_back(word);
    }
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

std::string comparison_headline(const ComparisonDocument& comparison) {
  const Parts<ComparisonRow> all = comparison.rows();
  if (all.empty()) {
    return "Nothing can be compared: the two runs have no cell in common";
  }
  if (comparison.summary().verdict() == Verdict::invalid) {
    return fmt::format("Nothing can be compared: {}", shorten(printable(all.front().detail()), 160));
  }
  if (comparison.summary().count(Verdict::equivalent) == static_cast<double>(all.size())) {
    return fmt::format("Nothing changed: all {} figures are the same, as far as they may differ", all.size());
  }
  std::vector<std::string> parts;
  const auto add = [&](Verdict verdict, const auto& sentence) {
    if (const std::vector<ComparisonRow> rows = rows_with(comparison, verdict); !rows.empty()) {
      parts.push_back(sentence(rows));
    }
  };
  const auto simple = [](const char* what) {
    return [what](const auto& rows) { return fmt::format("{} {} {}", rows.size(), are(rows.size()), what); };
  };
  add(Verdict::regressed,
      [](const auto& rows) { return with_largest(rows, fmt::format("{} {} worse", rows.size(), are(rows.size()))); });
  add(Verdict::improved,
      [](const auto& rows) { return with_largest(rows, fmt::format("{} {} better", rows.size(), are(rows.size()))); });
  add(Verdict::method_changed, [](const auto& rows) {
    return fmt::format("{} differ{} with the method, which changed", rows.size(), rows.size() == 1 ? "s" : "");
  });
  add(Verdict::contaminated, simple("contaminated: the machine was not quiet"));
  add(Verdict::inconclusive, undecided);
  add(Verdict::invalid, [](const auto& rows) {
    return fmt::format("{} can't be compared ({})", rows.size(), shorten(printable(rows.front().detail()), 100));
  });
  add(Verdict::equivalent, simple("the same"));
  return fmt::format("Of {} figures: {}", all.size(), fmt::join(parts, "; "));
}

std::vector<Suggestion> comparison_next(const ComparisonDocument& comparison, const Run& base, const SideNames& names) {
  std::vector<Suggestion> next;
  const std::string both = shell_word(names.base) + " " + shell_word(names.head);
  if (comparison.rows().empty()) {
    next.push_back({"diptych list", "measure a workload that both sides have"});
    return next;
  }
  if (comparison.machine().same() != "same" && comparison.by() != "machine") {
    next.push_back({fmt::format("diptych report {} --by machine", both),
                    "times of different machines don't compare, leads over eager do"});
  }
  if (const auto rows = rows_with(comparison, Verdict::method_changed); !rows.empty()) {
    const std::string again = base.cell(rows.front().workload()).reproduce();
    constexpr std::size_t most = 400;  // more is no command that anybody copies
    next.push_back({again.empty() || again.size() > most ? "diptych run " + workloads_of(rows) : printable(again),
                    "measures the head's program as the base was measured"});
  }
  if (const auto rows = rows_with(comparison, Verdict::regressed); !rows.empty()) {
    next.push_back({"diptych why " + workloads_of({rows.front()}), "where the time of what is worse most goes"});
    next.push_back(
        {"diptych gate --base <revision>", "measures both builds in turns, and confirms in fresh processes"});
  }
  if (!rows_with(comparison, Verdict::contaminated).empty()) {
    next.push_back({"diptych doctor", "what made the machine noisy, and the remedies"});
  }
  if (const auto rows = rows_with(comparison, Verdict::inconclusive); !rows.empty()) {
    next.push_back(
        {fmt::format("diptych run {} --standard", workloads_of(rows)), "on both sides: more processes decide"});
  }
  if (const auto rows = rows_with(comparison, Verdict::invalid);
      !rows.empty() && rows.front().reason() == "arms-disagree") {
    next.push_back({fmt::format("diptych graph {} --check-passes", workloads_of({rows.front()})),
                    "the first pass that changes a bit"});
  }
  return next;
}

}  // namespace diptych::reports
