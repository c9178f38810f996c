#include "reports/ladder_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <climits>
#include <fmt/format.h>

#include "reports/json_access.h"
#include "reports/roofline.h"
#include "reports/split_views.h"
#include "reports/summary.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

constexpr int kBarColumns = 20;

using Row = std::vector<std::string>;

/// "#" from where the rung ends to where it starts, on the scale of the first arm.
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

std::string saved_text(const Json& value) {
  const auto saved = estimate(value);
  return saved ? format_seconds(*saved) : "-";
}

std::string time_text(const Json& value) {
  const auto seconds = estimate(value);
  return format_seconds(seconds ? std::optional<double>(seconds->value) : std::nullopt);
}

std::string share_text(const Json& object, const char* key) {
  const auto share = number(object, key);
  return share ? format_percent(*share) : "-";
}

/// The most that a level reaches: a rung may cost more than the first arm took.
double highest_level(const Json& ladder, double base) {
  double level = base;
  double most = base;
  for (const Json& rung : list(ladder, "rungs")) {
    const auto saved = estimate(member(rung, "saved_seconds"));
    level -= saved ? saved->value : 0;
    most = std::max(most, level);
  }
  return most;
}

std::vector<Row> ladder_rows(const Json& cell) {
  const Json& ladder = member(cell, "ladder");
  const auto base = estimate(member(ladder, "base_seconds"));
  const double start = base ? base->value : 0;
  const double most = std::max(highest_level(ladder, start), 1e-12);
  const bool shuffled = std::any_of(list(ladder, "rungs").begin(), list(ladder, "rungs").end(),
                                    [](const Json& rung) { return !place_text(rung, Glyphs::ascii).empty(); });
  const Json& order = list(ladder, "order");
  const std::string first = order.empty() || !order.front().is_string() ? "" : order.front().get<std::string>();
  std::vector<Row> rows;
  const auto add = [&](Row row, const std::string& place) {
    if (shuffled) {
      row.insert(row.begin() + 5, place);
    }
    rows.push_back(std::move(row));
  };
  add({"rung", "", "time", "saves", "share", "result", "compile", "break-even", "planned peak", "of limit"},
      "by place");
  add({printable(first), bar(0, start, most, '='), time_text(member(ladder, "base_seconds")), "", "", "", "", "", "",
       limit_text(cell, first)},
      "");
  double level = start;
  for (const Json& rung : list(ladder, "rungs")) {
    const auto saved = estimate(member(rung, "saved_seconds"));
    const double next = level - (saved ? saved->value : 0);
    const auto peak = number(rung, "planned_peak_bytes");
    add({shorten(printable(text(rung, "name")), 20), bar(level, next, most, next <= level ? '#' : '+'),
         time_text(member(rung, "seconds")), saved_text(member(rung, "saved_seconds")), share_text(rung, "share"),
         ulp_text(rung), time_text(member(rung, "compile_seconds")), break_even_text(rung),
         peak ? format_bytes(*peak) : "-", limit_text(cell, text(rung, "to"))},
        place_text(rung, Glyphs::ascii));
    level = next;
  }
  add({"residual", "", "", saved_text(member(ladder, "residual_seconds")), share_text(ladder, "residual_share")}, "");
  add({"whole gap", "", "", saved_text(member(ladder, "gap_seconds")),
       number(ladder, "residual_share") ? "100 %" : "-"},
      "");
  return rows;
}

/// Name and bar beside the figures where there is room, else above them.
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

std::string ladder_order(const Json& ladder) {
  std::string order;
  for (const Json& arm : list(ladder, "order")) {
    std::string name = arm.is_string() ? arm.get<std::string>() : "";
    for (const Json& rung : list(ladder, "rungs")) {
      if (text(rung, "to") == name && text(rung, "name") != name) {
        name = fmt::format("{} (= {})", text(rung, "name"), name);
        break;
      }
    }
    order += (order.empty() ? "" : " -> ") + name;
  }
  return order;
}

std::string ulp_text(const Json& rung) {
  const auto ulp = number(rung, "ulp");
  if (!ulp) {
    return "-";
  }
  return *ulp == 0 ? "bitwise" : fmt::format("{} ULP", format_count(*ulp));
}

std::string place_text(const Json& rung, Glyphs glyphs) {
  const Json& place = member(rung, "by_place");
  if (number(place, "places").value_or(0) < 2) {
    return "";
  }
  const auto low = number(place, "low_share");
  const auto high = number(place, "high_share");
  if (low && high) {
    return fmt::format("{} to {}", format_percent(*low), format_percent(*high));
  }
  return fmt::format("{} to {}", format_seconds(number(place, "low_seconds"), glyphs),
                     format_seconds(number(place, "high_seconds"), glyphs));
}

std::string markdown_ladder(const Json& ladder) {
  constexpr Glyphs rich = Glyphs::typographic;
  const auto time = [&](const Json& value) {
    const auto seconds = estimate(value);
    return seconds ? format_seconds(*seconds, rich) : std::string("-");
  };
  std::string out = "| rung | cause | time | saves | share | result |\n|---|---|--:|--:|--:|---|\n";
  const Json& order = list(ladder, "order");
  const std::string first = order.empty() || !order.front().is_string() ? "" : order.front().get<std::string>();
  out += fmt::format("| {} | | {} | | | |\n", escape_markdown(first), time(member(ladder, "base_seconds")));
  for (const Json& rung : list(ladder, "rungs")) {
    const std::string place = place_text(rung, rich);
    out += fmt::format("| {} | {} | {} | {} | {}{} | {} |\n", escape_markdown(text(rung, "name")),
                       escape_markdown(text(rung, "cause")), time(member(rung, "seconds")),
                       time(member(rung, "saved_seconds")), share_text(rung, "share"),
                       place.empty() ? "" : fmt::format(" (by place {})", place), ulp_text(rung));
  }
  return out + fmt::format("| residual | no rung explains it | | {} | {} | |\n",
                           time(member(ladder, "residual_seconds")), share_text(ladder, "residual_share"));
}

std::string render_ladder(const nlohmann::json& run, const TableOptions& options) {
  std::string out = shorten(printable(setup_line(run)), options.width) + "\n";
  for (const std::string& warning : cautions(run)) {
    out += warning + "\n";
  }
  for (const Json& cell : list(run, "cells")) {
    out += fmt::format("\n{}\n", shorten(printable(text(cell, "workload")), options.width));
    const Json& ladder = member(cell, "ladder");
    if (ladder.is_null()) {
      const std::string reason = text(member(cell, "validity"), "reason");
      out += fmt::format("  no ladder: {}\n", printable(reason.empty() ? "nothing was measured" : reason));
      continue;
    }
    out += table_of(ladder_rows(cell), options.width);
    out += fmt::format("\nOrder: {}; each adds one cause, all are timed in the same rounds.\n",
                       printable(ladder_order(ladder)));
    for (const Json& rung : list(ladder, "rungs")) {
      out += fmt::format("  {:<10} {}\n", printable(text(rung, "name")), printable(text(rung, "cause")));
    }
    if (const std::string limit = limit_sentence(cell, Glyphs::ascii); !limit.empty()) {
      out += "\n" + printable(limit) + "\n";
    }
    if (const std::string split = render_split(member(ladder, "split"), options.width); !split.empty()) {
      out += "\n" + split;
    }
  }
  return out;
}

}  // namespace diptych::reports
