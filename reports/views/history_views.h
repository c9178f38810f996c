#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/history/history.h"
#include "reports/text/table_options.h"
#include "reports/views/explanation.h"

/// A history (history.h) in words and as text for terminals.
namespace diptych::reports {

/// How many runs, from when to when, on how many machines, and how many cells changed lately: "12 runs from 2026-11-03
/// to 2026-11-21 on one machine: of 9 cells 1 is slower lately (mlp/digits/graph +12.0 %), 8 are the same". Printable.
std::string history_headline(const History& history);
/// What was looked at and left out, counts that grew. Printable.
std::vector<std::string> history_sentences(const History& history);
/// What to type next, the most useful first; empty if nothing is open.
std::vector<Suggestion> history_next(const History& history);
/// Of one cell: the two runs of its last change on one page, and its newest figure again.
std::vector<Suggestion> series_next(const History& history, const HistorySeries& series);

/// For a terminal: the sentences, the cells that changed, what was left out, what to type next.
std::string render_history(const History& history, const TableOptions& options = {});

// ---- Parts that the page shares. Not escaped: escape them for the medium.

/// "+12.0 %"
std::string percent_change(double ratio);
/// "SLOWER", "CANNOT TELL"
std::string trend_name(Trend trend);
/// The tone of a trend, for colours: "slower", "faster" or "dim".
std::string trend_tone(Trend trend);
/// What the trend rests on: "since 2026-11-19, by comparison", or the newest point's detail.
std::string trend_detail(const History& history, const HistorySeries& series);
/// The verdict of a point: "REGRESSED"; "first" where there was nothing to compare with, "not timed" without a time.
std::string point_verdict(const HistoryPoint& point);
/// "machine A", and how it is measured if that changed: "machine A, threads 1 -> 2". Empty if there is nothing to say.
std::string series_note(const History& history, const HistorySeries& series);
/// "8f3a2b1c0d", "8f3a2b1c0d + changes"; "-" if it isn't recorded.
std::string revision_name(const RunOfHistory& run);
/// "2026-11-19"
std::string day_of(const RunOfHistory& run);

}  // namespace diptych::reports
