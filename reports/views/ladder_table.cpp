#include "reports/views/ladder_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <climits>
#include <fmt/format.h>

#include "reports/analysis/ladder.h"
#include "reports/analysis/roofline.h"
#include "reports/run/run.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/fusion_views.h"
#include "reports/views/split_views.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

constexpr int kBarColumns = 20;

using Row = std::vector<std::string>;

/// "#" from the end of the rung to its start, on the scale of the first arm.
std::string bar(double from, double to, double most, char fill) {
  const auto column = [&](double seconds) {
    return static_cast<int>(std::lround(std::clamp(seconds / most, 0.0, 1.0) * kBarColumns));
  };
  const int first = std::min(column(from), column(to));
  const int last = std::max(column(from), column(to));
  std::string line(static_cast<std::size_t>(first), ' ');
  line += std::string(static_cast<std::size_t>(last - first), fill);
  return fmt::format("|{}|", padded(line, kBarColumns));
}

std::string estimate_text(const std::optional<Estimate>& seconds) { return seconds ? format_seconds(*seconds) : "-"; }

std::string time_text(const std::optional<Estimate>& seconds) { return format_seconds(value_of(seconds)); }

std::string share_text(const std::optional<double>& share) { return share ? format_percent(*share) : "-"; }

/// The longest time that any bar reaches: a rung may cost more than the first arm took.
double longest(const Cell& cell, double base) {
  double most = base;
  for (const Rung rung : cell.ladder().rungs()) {
    if (const auto span = span_of(cell, rung)) {
      most = std::max({most, span->from, span->to});
    }
  }
  return most;
}

std::vector<Row> ladder_rows(const Cell& cell) {
  const Ladder ladder = cell.ladder();
  const auto base = ladder.base_seconds();
  const double start = base ? base->value : 0;
  const double most = std::max(longest(cell, start), 1e-12);
  const Parts<Rung> rungs = ladder.rungs();
  const bool shuffled = std::any_of(rungs.begin(), rungs.end(),
                                    [](const Rung& rung) { return !place_text(rung, Glyphs::ascii).empty(); });
  const std::vector<std::string> order = ladder.order();
  const std::string first = order.empty() ? "" : order.front();
  std::vector<Row> rows;
  const auto add = [&](Row row, const std::string& place) {
    if (shuffled) {
      row.insert(row.begin() + 5, place);
    }
    rows.push_back(std::move(row));
  };
  add({"rung", "", "time", "saves", "share", "result", "compile", "break-even", "planned peak", "of limit"},
      "by place");
  add({printable(first), bar(0, start, most, '='), time_text(ladder.base_seconds()), "", "", "", "", "", "",
       limit_text(cell, first)},
      "");
  for (const Rung rung : ladder.rungs()) {
    const RungSpan span = span_of(cell, rung).value_or(RungSpan{0, 0});
    const auto peak = rung.planned_peak_bytes();
    add({shorten(printable(rung.name()), 20), bar(span.from, span.to, most, span.to <= span.from ? '#' : '+'),
         time_text(rung.seconds()), saved_text(rung, Glyphs::ascii), share_text(rung.share()), ulp_text(rung),
         time_text(rung.compile_seconds()), break_even_text(rung.break_even()), peak ? format_bytes(*peak) : "-",
         limit_text(cell, rung.to())},
        place_text(rung, Glyphs::ascii));
  }
  add({"residual", "", "", estimate_text(ladder.residual_seconds()), share_text(ladder.residual_share())}, "");
  add({"whole gap", "", "", estimate_text(ladder.gap_seconds()), ladder.residual_share() ? "100 %" : "-"}, "");
  return rows;
}

/// Name and bar beside the figures if there is room, otherwise above them.
std::string table_of(std::vector<Row> rows, int width) {
  const std::string wide = aligned(rows, INT_MAX);
  std::size_t longest = 0;
  for (std::size_t start = 0; start < wide.size();) {
    const std::size_t end = wide.find('\n', start);
    longest = std::max(longest, end - start);
    start = end + 1;
  }
  if (longest <= static_cast<std::size_t>(std::max(width, 0))) {
    return wide;
  }
  std::vector<Row> bars;
  for (Row& row : rows) {
    if (!row[1].empty()) {
      bars.push_back({row[0], row[1]});
    }
    row.erase(row.begin() + 1);
  }
  return aligned(bars, width) + "\n" + aligned(rows, width);
}

}  // namespace

std::string ladder_order(const Ladder& ladder) {
  std::map<std::string, std::string> other_names;  // of rungs that are called otherwise than their arms, by arm
  for (const Rung rung : ladder.rungs()) {
    if (rung.name() != rung.to()) {
      other_names.try_emplace(rung.to(), rung.name());
    }
  }
  std::string order;
  for (const std::string& name : ladder.order()) {
    const auto other = other_names.find(name);
    order += (order.empty() ? "" : " -> ") +
             (other == other_names.end() ? name : fmt::format("{} (= {})", other->second, name));
  }
  return order;
}

std::string saved_text(const Rung& rung, Glyphs glyphs) {
  const auto saved = rung.saved_seconds();
  if (!saved) {
    return "-";
  }
  const Saving saving = saving_of(*saved);
  return (saving.costs ? "costs " : "") + format_seconds(saving.amount, glyphs);
}

std::string ulp_text(const Rung& rung) {
  if (rung.is_same_graph()) {
    return "same IR";
  }
  const auto ulp = rung.ulp();
  if (!ulp) {
    return "-";
  }
  return *ulp == 0 ? "bitwise" : fmt::format("{} ULP", format_count(*ulp));
}

std::string place_text(const Rung& rung, Glyphs glyphs) {
  const ByPlace place = rung.by_place();
  if (place.places().value_or(0) < 2) {
    return "";
  }
  const auto low = place.low_share();
  const auto high = place.high_share();
  if (low && high) {
    return fmt::format("{} to {}", format_percent(*low), format_percent(*high));
  }
  return fmt::format("{} to {}", format_seconds(place.low_seconds(), glyphs),
                     format_seconds(place.high_seconds(), glyphs));
}

std::string markdown_ladder(const Ladder& ladder) {
  constexpr Glyphs rich = Glyphs::typographic;
  const auto time = [&](const std::optional<Estimate>& seconds) {
    return seconds ? format_seconds(*seconds, rich) : std::string("-");
  };
  std::string out = "| rung | cause | time | saves | share | result |\n|---|---|--:|--:|--:|---|\n";
  const std::vector<std::string> order = ladder.order();
  const std::string first = order.empty() ? "" : order.front();
  out += fmt::format("| {} | | {} | | | |\n", escape_markdown(first), time(ladder.base_seconds()));
  for (const Rung rung : ladder.rungs()) {
    const std::string place = place_text(rung, rich);
    out +=
        fmt::format("| {} | {} | {} | {} | {}{} | {} |\n", escape_markdown(rung.name()), escape_markdown(rung.cause()),
                    time(rung.seconds()), saved_text(rung, rich), share_text(rung.share()),
                    place.empty() ? "" : fmt::format(" (by place {})", place), ulp_text(rung));
  }
  return out + fmt::format("| residual | no rung explains it | | {} | {} | |\n", time(ladder.residual_seconds()),
                           share_text(ladder.residual_share()));
}

std::string render_ladder(const Run& run, const TableOptions& options) {
  std::string out = shorten(printable(setup_line(run)), options.width) + "\n";
  for (const std::string& warning : cautions(run)) {
    out += warning + "\n";
  }
  for (const Cell cell : run.cells()) {
    out += fmt::format("\n{}\n", shorten(printable(cell.workload()), options.width));
    const Ladder ladder = cell.ladder();
    if (!ladder) {
      const std::string reason = cell.validity().reason();
      out += fmt::format("  no ladder: {}\n", printable(reason.empty() ? "nothing was measured" : reason));
      continue;
    }
    out += table_of(ladder_rows(cell), options.width);
    out += fmt::format("\nOrder: {}; each adds one cause, all are timed in the same rounds.\n",
                       printable(ladder_order(ladder)));
    for (const Rung rung : ladder.rungs()) {
      out += fmt::format("  {:<10} {}\n", printable(rung.name()), printable(rung.cause()));
    }
    if (const std::string limit = limit_sentence(cell, Glyphs::ascii); !limit.empty()) {
      out += "\n" + printable(limit) + "\n";
    }
    if (const std::string fusion = fusion_sentence(cell); !fusion.empty()) {
      out += "\n" + wrapped("", printable(fusion), options.width, options.colour).substr(2);
    }
    if (const std::string split = render_split(ladder.split(), options.width); !split.empty()) {
      out += "\n" + split;
    }
  }
  return out;
}

}  // namespace diptych::reports
