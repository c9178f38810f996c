#include "reports/views/history_views.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"

namespace diptych::reports {
namespace {

constexpr std::size_t kMostRows = 30;
constexpr std::size_t kMostLeftOut = 10;

std::string shown_name(const std::string& name, int columns = 60) { return shorten(printable(name), columns); }

const char* is_or_are(std::size_t count) { return count == 1 ? "is" : "are"; }

std::string counted(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string span_of(const History& history) {
  const std::string first = day_of(history.runs.front());
  const std::string last = day_of(history.runs.back());
  return first == last ? "of " + first : fmt::format("from {} to {}", first, last);
}

std::string trends_of(const History& history) {
  std::vector<std::string> parts;
  const auto add = [&](Trend trend, const char* what) {
    const std::size_t count = history.count(trend);
    if (count == 0) {
      return;
    }
    const bool is_change = trend == Trend::slower || trend == Trend::faster;
    const auto most = std::find_if(history.series.begin(), history.series.end(), [&](const HistorySeries& series) {
      return series.is_current && series.latest.trend == trend;
    });
    parts.push_back(fmt::format("{} {} {}{}", count, is_or_are(count), what,
                                is_change ? fmt::format(" ({}{} {})", count > 1 ? "most: " : "",
                                                        shown_name(most->cell()), percent_change(most->latest.ratio))
                                          : ""));
  };
  add(Trend::slower, "slower lately");
  add(Trend::faster, "faster lately");
  add(Trend::method_changed, "measured in another way now");
  add(Trend::cannot_tell, "undecided");
  add(Trend::same, "the same");
  add(Trend::first, "measured once");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string path_of(const History& history, std::size_t run) {
  const std::string& folder = history.folder;
  return shell_word(folder + (folder.empty() || folder.ends_with('/') ? "" : "/") + history.runs[run].folder);
}

/// The current series with that trend, in their order.
std::vector<const HistorySeries*> series_with(const History& history, Trend trend) {
  std::vector<const HistorySeries*> out;
  for (const HistorySeries& series : history.series) {
    if (series.is_current && series.latest.trend == trend) {
      out.push_back(&series);
    }
  }
  return out;
}

/// Workloads as words of a command; at most three.
std::string workload_words(const std::vector<const HistorySeries*>& series) {
  std::vector<std::string> words;
  for (const HistorySeries* each : series) {
    const std::string word = shell_word(shorten(each->workload, 200));
    if (words.size() < 3 && std::find(words.begin(), words.end(), word) == words.end()) {
      words.push_back(word);
    }
  }
  return fmt::format("{}", fmt::join(words, " "));
}

bool is_revision(const RunOfHistory& run) {
  return !run.is_dirty && run.revision.size() >= 7 && std::all_of(run.revision.begin(), run.revision.end(), [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0;
  });
}

void suggest_change(const History& history, const HistorySeries& series, std::vector<Suggestion>& next) {
  const LatestChange& change = series.latest;
  const RunOfHistory& base = history.runs[change.base];
  const RunOfHistory& head = history.runs[change.head];
  next.push_back({fmt::format("diptych report {} {}", path_of(history, change.base), path_of(history, change.head)),
                  fmt::format("both runs on one page: {} {} from the one to the other", shown_name(series.cell()),
                              percent_change(change.ratio))});
  if (is_revision(base) && is_revision(head) && base.revision != head.revision) {
    next.push_back({fmt::format("diptych gate --base {} --head {} --workloads {}", base.revision.substr(0, 12),
                                head.revision.substr(0, 12), workload_words({&series})),
                    "measures both builds in turns, so that what changed on the machine falls out"});
  }
}

std::string cells_table(const History& history, const TableOptions& options) {
  TextTable table({"cell", "machine", "runs", "newest", "change", "since", "lately"});
  std::size_t shown = 0;
  for (const HistorySeries& series : history.series) {
    if (!series.is_current || series.latest.trend == Trend::same || ++shown > kMostRows) {
      continue;
    }
    const bool is_change = series.latest.trend == Trend::slower || series.latest.trend == Trend::faster;
    const MachineOfHistory& machine = history.machines[series.machine];
    table.add({shown_name(series.cell(), 44), machine.is_known() ? machine.name : "unknown",
               fmt::format("{}", series.points.size()), format_seconds(value_of(series.newest().seconds)),
               is_change ? percent_change(series.latest.ratio) : "-",
               is_change ? day_of(history.runs[series.latest.head]) : "-", trend_name(series.latest.trend)},
              trend_tone(series.latest.trend));
  }
  std::string out = table.empty() ? "" : "\n" + table.render(options.colour, options.width);
  if (shown > kMostRows) {
    out += fmt::format("and {} more; the page has all\n", shown - kMostRows);
  }
  return out;
}

}  // namespace

std::string percent_change(double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); }

std::string day_of(const RunOfHistory& run) { return run.created.substr(0, 10); }

std::string revision_name(const RunOfHistory& run) {
  return run.revision.empty() ? "-" : shown_name(run.revision.substr(0, 10), 10) + (run.is_dirty ? " + changes" : "");
}

std::string trend_name(Trend trend) {
  std::string name = name_of(trend);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  return name;
}

std::string trend_tone(Trend trend) {
  return trend == Trend::slower ? "slower" : trend == Trend::faster ? "faster" : "dim";
}

std::string trend_detail(const History& history, const HistorySeries& series) {
  const LatestChange& latest = series.latest;
  switch (latest.trend) {
    case Trend::slower:
    case Trend::faster:
      return fmt::format("since {}, {}", day_of(history.runs[latest.head]),
                         latest.is_level ? "by the level of several runs" : "by a comparison");
    case Trend::method_changed:
    case Trend::cannot_tell: {
      const HistoryPoint& newest = series.newest();
      return newest.detail.empty() ? point_verdict(newest) : newest.detail;
    }
    case Trend::same:
      return "";
    case Trend::first:
      return "nothing to compare with";
  }
  return "";
}

std::string point_verdict(const HistoryPoint& point) {
  if (point.verdict) {
    return std::string(name_of(*point.verdict));
  }
  return !point.seconds ? "not timed" : "first";
}

std::string series_note(const History& history, const HistorySeries& series) {
  std::vector<std::string> parts;
  const MachineOfHistory& machine = history.machines[series.machine];
  if (!machine.is_known()) {
    parts.emplace_back("machine unknown");
  } else if (history.machines.size() > 1) {
    parts.push_back("machine " + machine.name);
  }
  if (!series.is_current) {
    parts.emplace_back("measured in another way since");
  }
  if (!series.method_change.empty()) {
    parts.push_back(series.method_change);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string history_headline(const History& history) {
  const std::size_t machines = history.machines.size();
  const std::string where = machines == 1 ? "on one machine" : fmt::format("on {} machines", machines);
  const std::string what = history.series.empty()
                               ? "they have no figures"
                               : fmt::format("of {}, {}", counted(history.current(), "cell"), trends_of(history));
  return fmt::format("{} {} {}: {}", counted(history.runs.size(), "run"), span_of(history), where, what);
}

std::vector<std::string> history_sentences(const History& history) {
  std::vector<std::string> out;
  std::vector<std::string> grown;
  for (const HistorySeries& series : history.series) {
    if (series.is_current && series.points.back().counts_are_worse) {
      grown.push_back(shown_name(series.cell()));
    }
  }
  if (!grown.empty()) {
    out.push_back(fmt::format("Counts grew in the newest run of {}{}.", grown.front(),
                              grown.size() > 1 ? fmt::format(" and {} more", counted(grown.size() - 1, "cell")) : ""));
  }
  out.push_back(shorten(printable(history.looked_at), 300) +
                (history.left_out.empty()
                     ? "."
                     : fmt::format("; {} left out, with reasons below.", counted(history.left_out.size(), "file"))));
  return out;
}

std::vector<Suggestion> series_next(const History& history, const HistorySeries& series) {
  std::vector<Suggestion> next;
  if (series.latest.base != series.latest.head) {
    suggest_change(history, series, next);
  }
  next.push_back({fmt::format("diptych reproduce {} {} --arm {}", path_of(history, series.newest().run),
                              shell_word(shorten(series.workload, 200)), shell_word(shorten(series.arm, 200))),
                  "the command, the seed and the build behind the newest figure"});
  return next;
}

std::vector<Suggestion> history_next(const History& history) {
  std::vector<Suggestion> next;
  for (const Trend trend : {Trend::slower, Trend::faster}) {
    if (const auto changed = series_with(history, trend); !changed.empty() && next.empty()) {
      suggest_change(history, *changed.front(), next);
    }
  }
  std::vector<const HistorySeries*> contaminated;
  std::vector<const HistorySeries*> undecided;
  for (const HistorySeries* series : series_with(history, Trend::cannot_tell)) {
    const std::optional<Verdict> verdict = series->newest().verdict;
    if (verdict == Verdict::contaminated) {
      contaminated.push_back(series);
    } else if (verdict == Verdict::inconclusive) {
      undecided.push_back(series);
    }
  }
  if (!contaminated.empty()) {
    next.push_back({"diptych doctor", "what made the machine noisy in the newest run, and the remedies"});
  }
  if (!undecided.empty()) {
    next.push_back({fmt::format("diptych run {} --standard", workload_words(undecided)),
                    "more processes decide what is undecided; a quick run shows a direction"});
  }
  return next;
}

std::string render_history(const History& history, const TableOptions& options) {
  std::string out = history_headline(history) + "\n";
  for (const std::string& sentence : history_sentences(history)) {
    out += sentence + "\n";
  }
  out += cells_table(history, options);
  if (!history.left_out.empty()) {
    out += "\nLeft out:\n";
    for (std::size_t i = 0; i < std::min(history.left_out.size(), kMostLeftOut); ++i) {
      const LeftOut& left = history.left_out[i];
      out += shorten(fmt::format("  {}: {}", shown_name(left.path), printable(left.reason)), options.width) + "\n";
    }
    if (history.left_out.size() > kMostLeftOut) {
      out += fmt::format("  and {} more; --format json has all\n", history.left_out.size() - kMostLeftOut);
    }
  }
  const std::vector<Suggestion> next = history_next(history);
  out += next.empty() ? "" : "\nNext:\n";
  for (const Suggestion& each : next) {
    out += fmt::format("  {}\n      {}\n", each.command, each.reason);
  }
  return out;
}

}  // namespace diptych::reports
